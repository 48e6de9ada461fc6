"""Calls of the API server, as few and as plain as the backend needs: JSON that msgspec reads, no client models.

kubernetes_asyncio knows kubeconfigs, service accounts and tokens that expire; bodies do not pass through it.
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
"""Bytes of one watch event; no object is as large."""
_GONE = 410
_JSON, _STRATEGIC = "application/json", "application/strategic-merge-patch+json"


class ClusterProblem(Exception):
    """A call failed. `status` is the HTTP code (0: no answer, and the call may yet have had its effect), `reason` the
    word that Kubernetes gives (NotFound, AlreadyExists, Invalid …)."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after

    @property
    def retriable(self) -> bool:
        """Whether the same call may well succeed later: rights are granted, quotas freed, servers come back."""
        return self.status in (0, 401, 403, 408, 409, 429) or self.status >= 500


class PodsApi(Protocol):
    """What the backend asks of a cluster, in one namespace. Every call raises ClusterProblem where it fails."""

    async def create_pod(self, body: Json) -> PodState:
        """409 if there is one of that name."""
        ...

    async def get_pod(self, name: str) -> PodState:
        """404 if there is none."""
        ...

    async def release_pod(self, name: str, uid: str) -> None:
        """Take our finalizer off, and no one else's. 404 or 409 if the pod of that uid is gone."""
        ...

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        """Ask for its deletion. 404 or 409 if the pod of that uid is gone."""
        ...

    async def list_pods(self, selector: str) -> PodsSnapshot:
        """All pods with the labels, complete, at one place; never older than what was known when it was asked."""
        ...

    def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        """What happens after the resource_version, as it comes, until the server ends it. 410: the resource_version is too old."""
        ...

    async def create_object(self, path: str, body: Json) -> object:
        """Create any other object in the namespace: `path` is such as "apis/scheduling.x-k8s.io/v1alpha1/podgroups"."""
        ...

    async def delete_object(self, path: str, name: str) -> None:
        """Delete such an object."""
        ...

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        """All such objects of the namespace with the labels."""
        ...


class KubernetesClient:
    """A `PodsApi` of a real API server, in `namespace`. Use it as an async context manager.

    `kubeconfig` None means the credentials of the pod this runs in, or none at all where `server` (a URL) is given;
    `server` goes before the address in the kubeconfig. At most `qps` calls a second over time, `burst` at once
    (watches do not count), `max_in_flight` under way. `calls` counts them by verb.
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
        """ClusterProblem if the credentials are no good."""
        found = await self._configuration()
        found.connection_pool_maxsize = self._max_in_flight + 8  # watches beside the calls
        self._api = client.ApiClient(found)
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
        # As the Job controller does with its own: the uid makes it a conflict if this is another pod of that name.
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
            asked = {"labelSelector": selector, "limit": str(limit or ""), "continue": token}
            try:
                page = _read(decode_page, await self._call("list", "GET", self._path("api/v1/pods"), query=asked))
            except ClusterProblem as problem:
                if problem.status != _GONE or not token:
                    raise
                pods, limit, token = {}, 0, ""  # the pages have expired under us: once more, in one piece
                continue
            pods |= page.pods
            token = page.next
            if not token:
                return PodsSnapshot(pods=pods, complete=True, resource_version=page.resource_version)

    async def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        seconds = DEADLINES.watch_seconds(self._rng)
        asked = {"labelSelector": selector, "watch": "1", "allowWatchBookmarks": "true"}
        query = {**asked, "resourceVersion": str(resource_version), "timeoutSeconds": str(seconds)}
        rest = b""
        async with aclosing(self._stream(self._path("api/v1/pods"), query, seconds + DEADLINES.grace)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > MAX_EVENT_BYTES:
                    raise ClusterProblem(0, "Undecodable", "a line of the watch never ends")
                if not lines:
                    continue
                told, error = _events([line for line in lines if line], resource_version)
                resource_version = told.resource_version or resource_version
                yield told
                if error is not None:
                    raise ClusterProblem(error.status, error.reason, error.message)

    async def create_object(self, path: str, body: Json) -> Json:
        return _object(await self._call("create", "POST", self._path(path), body))

    async def get_object(self, path: str, name: str) -> Json:
        """Any object of the namespace. 404 if there is none."""
        return _object(await self._call("get", "GET", self._path(path, name)))

    async def replace_object(self, path: str, name: str, body: Json) -> Json:
        """Put `body` in its place, and return it as it is then. 409 if it has not the resourceVersion of `body`."""
        return _object(await self._call("update", "PUT", self._path(path, name), body))

    async def delete_object(self, path: str, name: str) -> None:
        await self._call("delete", "DELETE", self._path(path, name))

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        data = await self._call("list", "GET", self._path(path), query={"labelSelector": selector})
        items: list[Json] = _object(data).get("items") or []
        return items

    def _path(self, collection: str, name: str = "") -> str:
        """The address in our namespace of a collection such as "api/v1/pods", or of an object in it."""
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
                answer = await self._request(method, path, body, query, content_type, timeout)
                async with answer:
                    data: bytes = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise ClusterProblem(0, "NoAnswer", f"{method} {path}: {_describe(problem)}") from None
        if answer.status >= 400:
            raise _status_error(method, path, answer, data)
        return data

    async def _stream(self, path: str, query: Mapping[str, str], seconds: float) -> AsyncGenerator[bytes, None]:
        """The chunks of a watch, which is dead if the server has not ended it within `seconds`."""
        self.calls["watch"] += 1
        try:
            timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=DEADLINES.connect)
            async with asyncio.timeout(DEADLINES.answer):
                opened = await self._request("GET", path, None, query, _JSON, timeout)
            async with opened as answer:
                if answer.status >= 400:
                    raise _status_error("WATCH", path, answer, await answer.read())
                async for chunk in answer.content.iter_any():
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
        answer: aiohttp.ClientResponse = await self._api.rest_client.request(
            method,
            str(self._api.configuration.host).rstrip("/") + path,
            query_params={name: value for name, value in query.items() if value},
            headers=headers,
            body=body,
            _preload_content=False,
            _request_timeout=timeout,
        )
        return answer

    async def _configuration(self) -> client.Configuration:
        found = client.Configuration(host=self._server) if self._server else client.Configuration()
        place = f"kubeconfig {self._kubeconfig}" if self._kubeconfig else "in-cluster credentials"
        try:
            if self._kubeconfig is not None:
                await config.load_kube_config(config_file=str(self._kubeconfig), client_configuration=found)
            elif not self._server:
                config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        except Exception as problem:  # the library answers a malformed file with whatever it stumbles over
            raise ClusterProblem(0, "Credentials", f"{place}: {' '.join(str(problem).split())}") from None
        found.host = self._server or found.host
        return found


def _status_error(method: str, path: str, answer: aiohttp.ClientResponse, data: bytes) -> ClusterProblem:
    try:
        said: Any = msgspec.json.decode(data)
        reason, message = str(said["reason"]), str(said["message"])
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
        reason, message = answer.reason or "", data[:200].decode(errors="replace").strip()
    wait = retry_after(answer.headers.get("Retry-After", ""), time.time()) or 0.0
    return ClusterProblem(answer.status, reason, f"{method} {path}: {answer.status} {message}", wait)


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
    found: Json = _read(msgspec.json.Decoder(Json).decode, data)
    return found


def _describe(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
