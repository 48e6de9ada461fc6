"""Client of single objects, as dicts: create, get, update, patch, delete and list.

For work off the hot path. Rate limit, credentials, deadlines and retries are those of the connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.kube.connection import JSON, Connection
from pyscheduler.kube.paths import object_path

T = TypeVar("T")
Json = dict[str, Any]
PatchType = Literal["json", "merge", "strategic-merge"]
Patch = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A patch; a JSON patch is a list of operations."""

PAGE: Final = 1000
"""Limit of one list call."""
_GONE = 410
_encode = msgspec.json.Encoder().encode


class Listing(NamedTuple):
    """A complete list: its items as JSON bytes, and the resourceVersion to watch from."""

    items: list[msgspec.Raw]
    version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class ObjectClient:
    """Calls for objects of any kind. Every call raises ApiError if it fails.

    `namespace` is "" for kinds without one, and for all namespaces in `list`.
    """

    def __init__(self, connection: Connection, retries: bool = True) -> None:
        """With `retries` calls are repeated after failures where that is safe."""
        self._connection, self._retries = connection, retries

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Json:
        """Return an object. 404 if it does not exist."""
        return await self._object("GET", object_path(kind, namespace, name))

    async def create(self, kind: ResourceKind, body: Mapping[str, Any], *, strict: bool = False) -> Json:
        """Create `body` in the namespace of its metadata; return the object as stored. 409 if the name exists.

        `strict`: 400 if the body has fields that the server does not have, which it otherwise drops.
        """
        path = object_path(kind, body["metadata"].get("namespace", ""))
        return await self._object("POST", f"{path}?fieldValidation=Strict" if strict else path, body)

    async def update(self, kind: ResourceKind, body: Mapping[str, Any]) -> Json:
        """Replace the object of the name of `body`; return it as stored. 409 if a resourceVersion in it is outdated."""
        metadata = body["metadata"]
        return await self._object("PUT", object_path(kind, metadata.get("namespace", ""), metadata["name"]), body)

    async def patch(
        self,
        kind: ResourceKind,
        key: tuple[str, str],
        change: Patch,
        type: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "",
    ) -> None:
        """Patch the object (namespace, name), or its subresource. The result is not decoded: a watch delivers it."""
        path = object_path(kind, *key, subresource)
        if field_manager:
            path += f"?{urlencode({'fieldManager': field_manager})}"
        await self._request("PATCH", path, _encode(change), f"application/{type}-patch+json")

    async def patch_status(
        self, kind: ResourceKind, key: tuple[str, str], status: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Patch the status of the object (namespace, name); 409 if it does not have `uid`.

        Conditions are lists: only a strategic merge patch preserves those of other writers.
        """
        precondition: Json = {"metadata": {"uid": uid}} if uid else {}
        await self.patch(kind, key, precondition | {"status": status}, "strategic-merge", "status")

    async def delete(
        self, kind: ResourceKind, key: tuple[str, str], uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete the object (namespace, name), and its dependents in the background. 409 if it does not have `uid`."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._request("DELETE", object_path(kind, *key), _encode(options))

    async def list(
        self, kind: ResourceKind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all objects that match, in the newest state, read in pages of one resourceVersion."""
        query: dict[str, object] = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": PAGE}
        items: list[msgspec.Raw] = []
        while True:
            parameters = urlencode({name: value for name, value in query.items() if value})
            try:
                body = await self._request("GET", f"{object_path(kind, namespace)}?{parameters}")
            except ApiError as problem:
                if problem.status != _GONE or not items:
                    raise
                items, query = [], query | {"limit": "", "continue": ""}  # the continue token has expired
                continue
            page = _decoded(body, _List)
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def _object(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        content = None if body is None else _encode(body)
        return _decoded(await self._request(method, path, content), Json)

    async def _request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        return await self._connection.request(method, path, body, content_type, retries=self._retries)


def _decoded(body: bytes, type: type[T]) -> T:
    """Decode a response. ApiError if it is not an object of the API."""
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ApiError(0, "Undecodable", f"the response cannot be decoded: {problem}") from None


__all__ = ["PAGE", "Json", "Listing", "ObjectClient", "Patch", "PatchType"]
