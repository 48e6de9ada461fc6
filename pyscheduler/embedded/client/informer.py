"""Informer: a local cache of all objects of one kind, kept current by list and watch.

A closed watch is resumed at its last resourceVersion; after 410 Gone the informer relists and compares, so that no
deletion is missed. An object that cannot be decoded is logged and skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec

from pyscheduler.api.objects import ObjectMeta
from pyscheduler.embedded.client.protocol import ApiClient, ApiResource, ClientStatusError, Json, Key

T = TypeVar("T")
W = TypeVar("W", bound=msgspec.Struct)
Listener = Callable[[T | None, T | None], None]
"""Called with (before, after) on each change: before is None for an addition, after is None for a deletion."""

GONE = 410
RELIST_DELAY_SECONDS = (0.1, 5.0)
"""Initial and longest delay before a failed list or watch is retried."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Codec(Generic[T]):
    """Decoder of one kind: bytes to object, and object to (namespace, name, resourceVersion)."""

    decode: Callable[[msgspec.Raw], T]
    identity: Callable[[T], tuple[str, str, str]]


def structs(kind: type[W]) -> Codec[W]:
    """Return a codec of structs that have `metadata: ObjectMeta`."""

    def identity(obj: W) -> tuple[str, str, str]:
        meta: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # Struct cannot declare metadata
        return meta.namespace, meta.name, meta.resource_version

    return Codec(msgspec.json.Decoder(kind).decode, identity)


def _identity(obj: Json) -> tuple[str, str, str]:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"], meta.get("resourceVersion", "")


OBJECTS: Codec[Json] = Codec(msgspec.json.Decoder(Json).decode, _identity)
"""Codec of objects as dicts."""


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ErrorStatus(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Bookmark(msgspec.Struct):
    metadata: dict[str, Any]


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_error = msgspec.json.Decoder(_ErrorStatus).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


@dataclass
class Informer(Generic[T]):
    """Cache `objects` with `listeners` for changes; `synced` is set when the first list has been read."""

    client: ApiClient
    resource: ApiResource
    codec: Codec[T]
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    listeners: list[Listener[T]] = field(default_factory=list)
    objects: dict[Key, T] = field(default_factory=dict)
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _version: str = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        delay = RELIST_DELAY_SECONDS[0]
        while True:
            before = self._version
            try:
                if not self._version:
                    self._version = await self._list()
                await self._watch()
            except ClientStatusError as error:
                if error.code == GONE:
                    self._version = ""
                _log.info("watch of %s: %s", self.resource.plural, error)
            except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as problem:
                _log.info("watch of %s: %s", self.resource.plural, problem)
            except Exception:  # the cache must not go stale, whatever the server has sent or a listener raises
                _log.exception("watch of %s failed, relisting", self.resource.plural)
                self._version = ""
            delay = RELIST_DELAY_SECONDS[0] if self._version != before else min(2 * delay, RELIST_DELAY_SECONDS[1])
            await asyncio.sleep(delay)

    @property
    def _query(self) -> dict[str, str]:
        return {
            "namespace": self.namespace,
            "label_selector": self.label_selector,
            "field_selector": self.field_selector,
        }

    async def _list(self) -> str:
        listing = await self.client.list(self.resource, **self._query)
        deleted = set(self.objects)
        for raw in listing.items:
            obj = self._read(raw)
            if obj is not None:
                deleted.discard(self._store(obj))
        for key in deleted:
            self._drop(key)
        self.synced.set()
        return listing.resource_version

    async def _watch(self) -> None:
        async for line in self.client.watch(self.resource, self._version, **self._query):
            self._version = self._apply(_decode_frame(line)) or self._version

    def _apply(self, frame: _Frame) -> str:
        if frame.type == "BOOKMARK":
            return str(_decode_bookmark(frame.object).metadata["resourceVersion"])
        if frame.type == "ERROR":
            status = _decode_error(frame.object)
            raise ClientStatusError(status.code, status.reason, status.message)
        obj = self._read(frame.object)
        if obj is None:
            return ""
        namespace, name, version = self.codec.identity(obj)
        if frame.type == "DELETED":
            self._drop((namespace, name), last=obj)
        else:
            self._store(obj)
        return version

    def _read(self, raw: msgspec.Raw) -> T | None:
        try:
            return self.codec.decode(raw)
        except (msgspec.ValidationError, KeyError) as problem:
            _log.warning("%s: skipping an object that cannot be decoded: %s", self.resource.plural, problem)
            return None

    def _store(self, obj: T) -> Key:
        key = self.codec.identity(obj)[:2]
        before = self.objects.get(key)
        self.objects[key] = obj
        self._notify_listeners(before, obj)
        return key

    def _drop(self, key: Key, last: T | None = None) -> None:
        before = self.objects.pop(key, None)
        before = before if before is not None else last
        if before is not None:
            self._notify_listeners(before, None)

    def _notify_listeners(self, before: T | None, after: T | None) -> None:
        for listener in self.listeners:
            listener(before, after)
