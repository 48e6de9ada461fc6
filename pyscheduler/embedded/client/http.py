"""HTTP client for `ApiClient`, on top of aiohttp.

It implements what nodes and controllers need; the scheduler has its own client, optimised for binding.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from typing import Self

import aiohttp
import msgspec

from pyscheduler.embedded.client.protocol import ApiResource, ClientStatusError, Json, Key, Listing, PatchKind
from pyscheduler.kube.deadlines import Deadlines

PAGE = 1000

_PATCH_TYPE = {kind: f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge")}
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(Json).decode


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


_decode_page = msgspec.json.Decoder(_Page).decode
_decode_status = msgspec.json.Decoder(_Status).decode


class HttpClient:
    """`ApiClient` over one connection pool. Close it, or use it as a context manager."""

    def __init__(
        self, url: str, *, tls: ssl.SSLContext | None = None, token: str = "", deadlines: Deadlines | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._deadlines = deadlines or Deadlines()
        self._rng = random.Random()
        headers = {"User-Agent": "pyscheduler-hollow"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls if tls is not None else True),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self._deadlines.read, sock_connect=self._deadlines.connect),
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def list(
        self, resource: ApiResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        query = {"limit": str(PAGE), **_selectors(label_selector, field_selector)}
        items: list[msgspec.Raw] = []
        while True:
            page = _decode_page(await self._request("GET", resource.path(namespace), query=query))
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def watch(
        self,
        resource: ApiResource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[bytes]:
        seconds = self._deadlines.watch_seconds(self._rng)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            **_selectors(label_selector, field_selector),
        }
        limit = aiohttp.ClientTimeout(total=seconds + self._deadlines.grace, sock_connect=self._deadlines.connect)
        async with asyncio.timeout(self._deadlines.answer):
            opened = await self._session.get(self._url + resource.path(namespace), params=query, timeout=limit)
        async with opened as response:
            if response.status >= 400:
                raise _status_error(response.status, await response.read())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield line

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Json:
        return _decode_object(await self._request("GET", resource.path(namespace, name)))

    async def create(self, resource: ApiResource, obj: Json) -> Json:
        path = resource.path(obj["metadata"].get("namespace", ""))
        return _decode_object(await self._request("POST", path, body=obj))

    async def update(self, resource: ApiResource, obj: Json) -> Json:
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"])
        return _decode_object(await self._request("PUT", path, body=obj))

    async def patch(
        self, resource: ApiResource, key: Key, patch: Json, *, kind: PatchKind = "merge", subresource: str = ""
    ) -> None:
        path = resource.path(*key, subresource)
        await self._request("PATCH", path, body=patch, content_type=_PATCH_TYPE[kind])

    async def patch_status(self, resource: ApiResource, key: Key, status: Json, *, uid: str = "") -> None:
        precondition: Json = {"metadata": {"uid": uid}} if uid else {}
        # Conditions are lists; only a strategic merge patch preserves those of other writers.
        await self.patch(resource, key, precondition | {"status": status}, kind="strategic-merge", subresource="status")

    async def delete(self, resource: ApiResource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._request("DELETE", resource.path(*key), body=options)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = {"Content-Type": content_type} if body is not None else None
        data = _encode(body) if body is not None else None
        async with self._session.request(
            method, self._url + path, params=query, data=data, headers=headers
        ) as response:
            content = await response.read()
            if response.status >= 400:
                raise _status_error(response.status, content)
            return content


def _selectors(label: str, field: str) -> dict[str, str]:
    return {k: v for k, v in (("labelSelector", label), ("fieldSelector", field)) if v}


def _status_error(code: int, body: bytes) -> ClientStatusError:
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = _Status(message=body[:200].decode(errors="replace"))
    return ClientStatusError(code, status.reason, status.message)
