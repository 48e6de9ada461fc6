"""API server client of the backend: the few calls it needs, decoded by msgspec without client models.

kubernetes_asyncio handles kubeconfigs, service accounts and expiring tokens; it does not decode bodies.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from kubernetes_asyncio import client, config

from pyscheduler.backend.decode import Undecodable, WatchEvent, decode_events, decode_page, decode_pod
from pyscheduler.backend.limiter import CallLimiter
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.task import Json
from pyscheduler.backend.template import FINALIZER
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.headers import retry_after

T = TypeVar("T")

PAGE = 500
DEADLINES = Deadlines()
MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Largest accepted watch event in bytes; no object is as large."""
_GONE = 410
_JSON, _STRATEGIC = "application/json", "application/strategic-merge-patch+json"


class ClusterProblem(Exception):
    """Failed API call. `status` is the HTTP code (0: no response; the server may have carried out the call), `reason`
    the status reason of Kubernetes (NotFound, AlreadyExists, Invalid …), `retry_after` in seconds."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after

    @property
    def retriable(self) -> bool:
        """Return True if a retry may succeed: RBAC and quotas change, servers come back."""
        return self.status in (0, 401, 403, 408, 409, 429) or self.status >= 500


class PodsApi(Protocol):
    """API calls of the backend in one namespace. Every call raises ClusterProblem if it fails."""

    async def create_pod(self, body: Json) -> PodState:
        """Create a pod and return it. 409 if the name exists."""
        ...

    async def get_pod(self, name: str) -> PodState:
        """Return a pod. 404 if it does not exist."""
        ...

    async def release_pod(self, name: str, uid: str) -> None:
        """Remove the backend's finalizer and no other. 404 or 409 if the pod with that uid is gone."""
        ...

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        """Delete a pod; `grace` in seconds, None for the pod's own. 404 or 409 if the pod with that uid is gone."""
        ...

    async def list_pods(self, selector: str) -> PodsSnapshot:
        """Return a complete, consistent list of the selected pods, at least as new as the time of the call."""
        ...

    def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        """Yield changes after `resource_version` until the server closes the watch. 410 if that is too old."""
        ...

    async def create_object(self, path: str, body: Json) -> object:
        """Create an object in the namespace; `path` as in "apis/scheduling.x-k8s.io/v1alpha1/podgroups"."""
        ...

    async def delete_object(self, path: str, name: str) -> None:
        """Delete an object of the collection `path`."""
        ...

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        """Return all objects of the collection `path` that match the label selector."""
        ...


class KubernetesClient:
    """`PodsApi` of a real API server, for `namespace`. Use it as an async context manager.

    `kubeconfig` None means in-cluster credentials, or no credentials if `server` (a URL) is given; `server` overrides
    the address in the kubeconfig. `qps` limits calls per second, `burst` calls at once (watches excluded),
    `max_in_flight` concurrent calls. `calls` counts calls by verb.
    """

    def __init__(
        self,
        namespace: str,
        *,
        kubeconfig: Path | str | None = None,
        server: str = "",
        qps: float = 200.0,
        burst: int = 400,
        max_in_flight: int = 64,
    ) -> None:
        self.namespace = namespace
        self.calls: Counter[str] = Counter()
        self._kubeconfig, self._server = kubeconfig, server
        self._limiter = CallLimiter(qps, burst, max_in_flight)
        self._max_in_flight = max_in_flight
        self._rng = random.Random()
        self._api: client.ApiClient | None = None

    async def __aenter__(self) -> Self:
        """Load the credentials. ClusterProblem if they cannot be used."""
        configuration = await self._configuration()
        configuration.connection_pool_maxsize = self._max_in_flight + 8  # watches need connections too
        self._api = client.ApiClient(configuration)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def create_pod(self, body: Json) -> PodState:
        return _read(decode_pod, await self._call("create", "POST", self._path("api/v1/pods"), body))

    async def get_pod(self, name: str) -> PodState:
        return _read(decode_pod, await self._call("get", "GET", self._path("api/v1/pods", name)))

    async def release_pod(self, name: str, uid: str) -> None:
        # As the Job controller does: the uid turns the patch of another pod with this name into a conflict.
        change = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        await self._call("patch", "PATCH", self._path("api/v1/pods", name), change, content_type=_STRATEGIC)

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        options: Json = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._call("delete", "DELETE", self._path("api/v1/pods", name), options)

    async def list_pods(self, selector: str) -> PodsSnapshot:
        pods: dict[str, PodState] = {}
        limit, token = PAGE, ""
        while True:
            query = {"labelSelector": selector, "limit": str(limit or ""), "continue": token}
            try:
                page = _read(decode_page, await self._call("list", "GET", self._path("api/v1/pods"), query=query))
            except ClusterProblem as problem:
                if problem.status != _GONE or not token:
                    raise
                pods, limit, token = {}, 0, ""  # the continue token has expired: list again without pages
                continue
            pods |= page.pods
            token = page.next
            if not token:
                return PodsSnapshot(pods=pods, complete=True, resource_version=page.resource_version)

    async def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        seconds = DEADLINES.watch_seconds(self._rng)
        query = {
            "labelSelector": selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(resource_version),
            "timeoutSeconds": str(seconds),
        }
        rest = b""
        async with aclosing(self._stream(self._path("api/v1/pods"), query, seconds + DEADLINES.grace)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > MAX_EVENT_BYTES:
                    raise ClusterProblem(0, "Undecodable", "a line of the watch never ends")
                if not lines:
                    continue
                snapshot, error = _events([line for line in lines if line], resource_version)
                resource_version = snapshot.resource_version or resource_version
                yield snapshot
                if error is not None:
                    raise ClusterProblem(error.status, error.reason, error.message)

    async def create_object(self, path: str, body: Json) -> Json:
        return _object(await self._call("create", "POST", self._path(path), body))

    async def get_object(self, path: str, name: str) -> Json:
        """Return an object of the collection `path`. 404 if it does not exist."""
        return _object(await self._call("get", "GET", self._path(path, name)))

    async def replace_object(self, path: str, name: str, body: Json) -> Json:
        """Replace the object with `body` and return the result. 409 if its resourceVersion is not that of `body`."""
        return _object(await self._call("update", "PUT", self._path(path, name), body))

    async def delete_object(self, path: str, name: str) -> None:
        await self._call("delete", "DELETE", self._path(path, name))

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        data = await self._call("list", "GET", self._path(path), query={"labelSelector": selector})
        items: list[Json] = _object(data).get("items") or []
        return items

    def _path(self, collection: str, name: str = "") -> str:
        """Return the URL path of a collection in the namespace such as "api/v1/pods", or of an object in it."""
        version, _, plural = collection.rpartition("/")
        path = f"/{version}/namespaces/{quote(self.namespace)}/{plural}"
        return f"{path}/{quote(name)}" if name else path

    async def _call(
        self,
        verb: str,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        async with self._limiter.acquire():
            self.calls[verb] += 1
            return await self._send(method, path, body, query or {}, content_type)

    async def _send(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str], content_type: str
    ) -> bytes:
        seconds = DEADLINES.read if method == "GET" else DEADLINES.answer
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=DEADLINES.connect)
        try:
            async with asyncio.timeout(seconds):
                response = await self._request(method, path, body, query, content_type, timeout)
                async with response:
                    data: bytes = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise ClusterProblem(0, "NoAnswer", f"{method} {path}: {_describe(problem)}") from None
        if response.status >= 400:
            raise _status_error(method, path, response, data)
        return data

    async def _stream(self, path: str, query: Mapping[str, str], seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a watch; it fails if the server has not closed it within `seconds`."""
        self.calls["watch"] += 1
        try:
            timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=DEADLINES.connect)
            async with asyncio.timeout(DEADLINES.answer):
                opened = await self._request("GET", path, None, query, _JSON, timeout)
            async with opened as response:
                if response.status >= 400:
                    raise _status_error("WATCH", path, response, await response.read())
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise ClusterProblem(0, "NoAnswer", f"WATCH {path}: {_describe(problem)}") from None

    async def _request(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str], content_type: str, timeout: Any
    ) -> aiohttp.ClientResponse:
        if self._api is None:
            raise RuntimeError("the client is not open; use it in an `async with` block")
        headers = {"Content-Type": content_type, "Accept": _JSON, "User-Agent": "pyscheduler-backend"}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"])
        response: aiohttp.ClientResponse = await self._api.rest_client.request(
            method,
            str(self._api.configuration.host).rstrip("/") + path,
            query_params={name: value for name, value in query.items() if value},
            headers=headers,
            body=body,
            _preload_content=False,
            _request_timeout=timeout,
        )
        return response

    async def _configuration(self) -> client.Configuration:
        loaded = client.Configuration(host=self._server) if self._server else client.Configuration()
        place = f"kubeconfig {self._kubeconfig}" if self._kubeconfig else "in-cluster credentials"
        try:
            if self._kubeconfig is not None:
                await config.load_kube_config(config_file=str(self._kubeconfig), client_configuration=loaded)
            elif not self._server:
                config.load_incluster_config(client_configuration=loaded)  # type: ignore[no-untyped-call]
        except Exception as problem:  # a malformed file makes the library raise almost any exception
            raise ClusterProblem(0, "Credentials", f"{place}: {' '.join(str(problem).split())}") from None
        loaded.host = self._server or loaded.host
        return loaded


def _status_error(method: str, path: str, response: aiohttp.ClientResponse, data: bytes) -> ClusterProblem:
    try:
        status: Any = msgspec.json.decode(data)
        reason, message = str(status["reason"]), str(status["message"])
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
        reason, message = response.reason or "", data[:200].decode(errors="replace").strip()
    wait = retry_after(response.headers.get("Retry-After", ""), time.time()) or 0.0
    return ClusterProblem(response.status, reason, f"{method} {path}: {response.status} {message}", wait)


def _read(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except (Undecodable, msgspec.DecodeError, RecursionError) as problem:
        raise ClusterProblem(0, "Undecodable", str(problem)) from None


def _events(lines: list[bytes], since: int) -> tuple[PodsSnapshot, WatchEvent | None]:
    try:
        return decode_events(lines, since)
    except (Undecodable, RecursionError) as problem:
        raise ClusterProblem(0, "Undecodable", str(problem)) from None


def _object(data: bytes) -> Json:
    decoded: Json = _read(msgspec.json.Decoder(Json).decode, data)
    return decoded


def _describe(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
