"""API server with scripted list and watch responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from pyscheduler.embedded.client import ApiClient, ApiResource, Key, Listing
from pyscheduler.embedded.client.protocol import PatchKind

Json = dict[str, Any]
Step = Exception | list[bytes]


def pod_json(name: str, version: int, **spec: Any) -> Json:
    """Return a pod as JSON from the server."""
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"containers": [], **spec}}


def event(kind: str, obj: Json) -> bytes:
    """Return one line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj})


class ScriptedServer(ApiClient):
    """Returns lists and watches in the order given; the last watch stays open without events."""

    def __init__(self, lists: list[tuple[list[Json], str]], watches: list[list[bytes | Exception]]) -> None:
        self._lists, self._watches = lists, watches
        self.watched_from: list[str] = []
        self.done = asyncio.Event()

    async def list(
        self, resource: ApiResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        items, version = self._lists.pop(0)
        return Listing([msgspec.Raw(msgspec.json.encode(item)) for item in items], version)

    async def watch(
        self,
        resource: ApiResource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[bytes]:
        self.watched_from.append(resource_version)
        if not self._watches:
            self.done.set()
            await asyncio.Event().wait()
        for line in self._watches.pop(0):
            if isinstance(line, Exception):
                raise line
            yield line

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Json:
        raise NotImplementedError

    async def create(self, resource: ApiResource, obj: Json) -> Json:
        raise NotImplementedError

    async def update(self, resource: ApiResource, obj: Json) -> Json:
        raise NotImplementedError

    async def patch(
        self, resource: ApiResource, key: Key, patch: Json, *, kind: PatchKind = "merge", subresource: str = ""
    ) -> None:
        raise NotImplementedError

    async def patch_status(self, resource: ApiResource, key: Key, status: Json, *, uid: str = "") -> None:
        raise NotImplementedError

    async def delete(self, resource: ApiResource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        raise NotImplementedError
