"""Cache of API objects as raw JSON, for requests to extenders.

The scheduler decodes only the fields that it reads. If extenders are configured, the watches also store the raw bytes
of the objects that they may be sent: no extra API call is made, and extenders get the same versions as the scheduler.
A reload may add extenders and change the scope, so the decoders of pods and nodes are connected from the start.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from pyscheduler.api import ResourceKind
from pyscheduler.config.types import ExtenderConfig
from pyscheduler.kube.decode import Item, ObjectDecoder
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.kube.sanitize import sanitize

Key = tuple[str, str]


class CacheScope(enum.IntEnum):
    """Objects of a kind that are stored; each scope includes the one before."""

    NONE = 0
    PENDING = 1
    """Pods without a node."""
    ALL = 2


class RawObjectCache:
    """Raw JSON of objects of one kind, by namespace and name."""

    def __init__(self, scope: CacheScope = CacheScope.NONE) -> None:
        self._scope = scope
        self._decoders: list[ObjectDecoder[Any]] = []
        self._objects: dict[Key, tuple[str, bytes]] = {}
        """UID and JSON by namespace and name."""

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def scope(self) -> CacheScope:
        """Objects that are stored from now on."""
        return self._scope

    @scope.setter
    def scope(self, scope: CacheScope) -> None:
        self._scope = scope
        for decoder in self._decoders:
            decoder.store = self._put if scope else None

    def fill_from(self, decoder: ObjectDecoder[Any]) -> None:
        """Store the objects that a decoder decodes; with an empty scope it decodes without this cache."""
        self._decoders.append(decoder)
        decoder.store = self._put if self._scope else None

    def narrow(self, scope: CacheScope) -> None:
        """Reduce the scope to `scope` and drop the objects outside it."""
        if scope < self.scope:
            self._objects = {
                key: (uid, raw)
                for key, (uid, raw) in self._objects.items()
                if scope is CacheScope.PENDING and not _node_of(raw)
            }
        self.scope = scope

    def get(self, name: str, namespace: str = "") -> bytes | None:
        """Return the newest version of an object, None if it is not stored."""
        stored = self._objects.get((namespace, name))
        return stored[1] if stored else None

    def drop(self, uid: str, name: str, namespace: str = "") -> None:
        """Drop a deleted object, unless a new one of its name was decoded before the deletion was emitted."""
        if self._objects.get((namespace, name), ("", b""))[0] == uid:
            self._objects.pop((namespace, name), None)

    def _put(self, item: Item[Any], raw: msgspec.Raw) -> None:
        """Store an object that was decoded, or drop it if it is out of scope."""
        key = item.identity[:2]
        if item.object is not None and self._is_in_scope(item.object):
            self._objects[key] = item.identity.uid, _as_sent(raw)
        else:
            self._objects.pop(key, None)

    def _is_in_scope(self, found: Any) -> bool:
        return self.scope is CacheScope.ALL or (self.scope is CacheScope.PENDING and not found.spec.node_name)


class RawObjectCaches(NamedTuple):
    """Raw objects of the two kinds that extenders are sent."""

    pods: RawObjectCache
    nodes: RawObjectCache

    def of(self, kind: ResourceKind) -> RawObjectCache | None:
        """Return the cache of a kind, None for kinds other than pods and nodes."""
        return {PODS: self.pods, NODES: self.nodes}.get(kind)

    def by(self, scopes: Sequence[CacheScope]) -> Iterator[tuple[RawObjectCache, CacheScope]]:
        """Return both caches with their scopes in `scopes`: first pods, then nodes."""
        return zip(self, scopes, strict=True)


def required_scopes(extenders: Sequence[ExtenderConfig]) -> tuple[CacheScope, CacheScope]:
    """Return the scopes of pods and of nodes that requests to these extenders need."""
    whole = [extender for extender in extenders if not extender.node_cache_capable]
    victims = any(extender.preempt_verb for extender in whole)
    nodes = any(extender.filter_verb or extender.prioritize_verb for extender in whole)
    pending = CacheScope.PENDING if extenders else CacheScope.NONE
    return CacheScope.ALL if victims else pending, CacheScope.ALL if nodes else CacheScope.NONE


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(name="nodeName", default="")


class _Placed(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_placed = msgspec.json.Decoder(_Placed).decode


def _node_of(pod: bytes) -> str:
    return _placed(pod).spec.node_name


def _as_sent(raw: msgspec.Raw) -> bytes:
    """Return the object as kube-scheduler would send it: without managedFields, kind and apiVersion."""
    try:
        parts: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except RecursionError:
        return _as_sent(msgspec.Raw(sanitize(bytes(raw))))
    parts["metadata"] = msgspec.json.decode(parts["metadata"], type=dict[str, msgspec.Raw])
    parts["metadata"].pop("managedFields", None)
    for key in ("kind", "apiVersion"):
        parts.pop(key, None)
    return msgspec.json.encode(parts)
