"""A small JSON client of a Kubernetes API server, so that end-to-end tests contain requests and nothing else.

It reads the kubeconfig by itself (address, authority, client certificate or token) and uses plain dictionaries:
what the suite sees does not pass through any code that is under test.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

Json = dict[str, Any]
Objects = list[Json]

_DEPTHS = re.compile(r'(?:\{"(?:f:)?a":\s*){300,}')
"""Prefix of JSON that hostile tests nest deeper than Python can read."""

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
POLL_SECONDS = 0.1
NOT_YET = (404, 429, 503)
PAGE = 500
CALL_SECONDS = 60.0
UNTIL_SECONDS = 60.0
"""Seconds that something may take to come about, on a busy machine."""
NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
EVENT_BYTES = 2**21  # one watch event is one line; etcd takes objects of up to 1.5 MiB


class ApiError(Exception):
    """An error of the API server; `status` is the HTTP code, `reason` Kubernetes' reason (NotFound, Conflict …)."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        try:
            document: Json = json.loads(body)
        except ValueError:
            document = {}
        self.status = status
        self.reason = str(document.get("reason", ""))
        self.message = str(document.get("message", body.strip()))
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class ApiClient:
    """Client of one API server as the kubeconfig's current user. Use it as an async context manager."""

    def __init__(self, kubeconfig: Path | str, connections: int = 32) -> None:
        cluster, user = _current(yaml.safe_load(Path(kubeconfig).read_text()))
        self.server = str(cluster["server"]).rstrip("/")
        self.tls = _tls(cluster, user) if self.server.startswith("https:") else None
        """TLS of the server and the client; None for plain HTTP."""
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=self.tls if self.tls is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
            read_bufsize=EVENT_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **query: str | int) -> Json:
        """Return one object, or a list. `path` starts with /api or /apis."""
        return await self._json("GET", path, query=query)

    async def list(self, path: str, **query: str | int) -> Objects:
        """Return all items of a collection, read in pages."""
        items: Objects = []
        page = await self.get(path, **{"limit": PAGE, **query})
        items += page["items"]
        while token := page["metadata"].get("continue"):
            page = await self.get(path, **{"limit": PAGE, **query, "continue": token})
            items += page["items"]
        return items

    async def create(self, path: str, body: Json) -> Json:
        """POSTs to a collection or a subresource (binding, eviction, token)."""
        return await self._json("POST", path, body)

    async def post(self, path: str, body: bytes) -> Json:
        """POST bytes, which need not be JSON."""
        return await self._json("POST", path, body)

    async def replace(self, path: str, body: Json) -> Json:
        """PUT a whole object."""
        return await self._json("PUT", path, body)

    async def patch(self, path: str, body: Any, kind: str = "merge", **query: str | int) -> Json:
        """Patch an object; `kind` is merge, strategic, json or apply (which needs fieldManager in the query)."""
        return await self._json("PATCH", path, body, query, PATCH_TYPES[kind])

    async def delete(self, path: str, body: Json | None = None, **query: str | int) -> Json:
        """Deletes an object or a collection; `body` is a DeleteOptions."""
        return await self._json("DELETE", path, body, query)

    async def text(
        self, path: str, server: str | None = None, tls: ssl.SSLContext | None = None, **query: str | int
    ) -> str:
        """Return a document that is not JSON (/readyz, /metrics), from `server` if given: `https://127.0.0.1:10259`.

        `tls` is the CA of that server, if it is another one.
        """
        return await self._send("GET", (server or self.server) + path, query=query, tls=tls)

    async def watch(self, path: str, **query: str | int) -> AsyncIterator[Json]:
        """Yield the events of a watch, until the server ends it."""
        query = {**query, "watch": "true"}
        async with self._opened().get(self.server + path, params=query, timeout=NO_TIMEOUT) as answer:
            if answer.status >= 400:
                raise ApiError("WATCH", path, answer.status, await answer.text())
            async for line in answer.content:
                yield json.loads(line)

    async def until(
        self, path: str, holds: Callable[[Json], object], seconds: float = UNTIL_SECONDS, **query: str | int
    ) -> Json:
        """Poll `path` until `holds` is true of the response; return it. TimeoutError with the last one.

        A missing object counts as "not true", and so does a server that is not ready.
        """
        deadline = time.monotonic() + seconds
        last: object = None
        while time.monotonic() < deadline:
            try:
                last = found = await self.get(path, **query)
                if holds(found):
                    return found
            except ApiError as error:
                last = error
                if error.status not in NOT_YET:
                    raise
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"{path} was not as expected after {seconds:g} s; last seen: {_as_text(last)[:12000]}")

    async def _json(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str | int] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        text = await self._send(method, self.server + path, body, query, content_type)
        try:
            document: Json = json.loads(text)
        except RecursionError:
            document = json.loads(_without_depths(text))
        return document

    async def _send(
        self,
        method: str,
        url: str,
        body: Any = None,
        query: Mapping[str, str | int] | None = None,
        content_type: str = "application/json",
        tls: ssl.SSLContext | None = None,
    ) -> str:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        trusted = tls if tls is not None else True
        async with self._opened().request(method, url, data=data, params=query, headers=headers, ssl=trusted) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise ApiError(method, url, answer.status, text)
            return text

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("open the client first: async with ApiClient(kubeconfig) as api")
        return self._session


def _as_text(found: object) -> str:
    """Return the last response as readable text, without managedFields."""
    if not isinstance(found, dict):
        return str(found)
    for item in found.get("items", (found,)):
        if isinstance(item, dict):
            item.get("metadata", {}).pop("managedFields", None)
    return json.dumps(found)


def _current(kubeconfig: Json) -> tuple[Json, Json]:
    """Return the cluster and the user of the current context."""
    context = _named(kubeconfig, "contexts", "context", kubeconfig["current-context"])
    cluster = _named(kubeconfig, "clusters", "cluster", context["cluster"])
    return cluster, _named(kubeconfig, "users", "user", context["user"]) if context.get("user") else {}


def _named(kubeconfig: Json, section: str, content: str, name: str) -> Json:
    found: Json = next(entry[content] for entry in kubeconfig[section] if entry["name"] == name)
    return found


def _tls(cluster: Json, user: Json) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority)
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:  # the ssl module takes files only
            both.write(certificate + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _pem(entry: Json, name: str) -> str | None:
    if inline := entry.get(f"{name}-data"):
        return base64.b64decode(inline).decode()
    return Path(entry[name]).read_text() if name in entry else None


def _without_depths(text: str) -> str:
    """Decode JSON, with null for values that hostile tests nest too deep for Python."""
    while depths := _DEPTHS.search(text):
        closing = "}" * (depths[0].count("{") + (text[depths.end()] == "{"))
        text = text[: depths.start()] + "null" + text[text.index(closing, depths.end()) + len(closing) :]
    return text
