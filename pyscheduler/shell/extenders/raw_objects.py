"""Cache of API objects as raw JSON, for requests to extenders.

The scheduler decodes only the fields that it reads. If extenders are configured, the watches also store the raw bytes
of the objects that they may be sent: no extra API call is made, and extenders get the same versions as the scheduler.
A reload may add extenders and change the scope, so the reflectors of pods and nodes always decode through this module.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from pyscheduler.api import NodeObject, PodObject, ResourceKind
from pyscheduler.config.types import ExtenderConfig
from pyscheduler.kube.decode import Item, Line, ObjectDecoder, Page, Refusals
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.kube.reflector import Change, Deleted
from pyscheduler.kube.sanitize import sanitize

T = TypeVar("T", bound=PodObject | NodeObject | dict[str, Any])
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
        self.scope = scope
        self._objects: dict[Key, bytes] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def narrow(self, scope: CacheScope) -> None:
        """Reduce the scope to `scope` and drop the objects outside it."""
        if scope < self.scope:
            self._objects = {
                k: raw for k, raw in self._objects.items() if scope is CacheScope.PENDING and not _node_of(raw)
            }
        self.scope = scope

    def get(self, name: str, namespace: str = "") -> bytes | None:
        """Return the newest version of an object, None if it is not stored."""
        return self._objects.get((namespace, name))

    def put(self, item: Item[Any], raw: msgspec.Raw) -> None:
        """Store an object that was decoded, or drop it if it is out of scope."""
        key = item.identity[:2]
        if item.object is not None and self._is_in_scope(item.object):
            self._objects[key] = _as_sent(raw)
        else:
            self._objects.pop(key, None)

    def _is_in_scope(self, found: Any) -> bool:
        return self.scope is CacheScope.ALL or (self.scope is CacheScope.PENDING and not found.spec.node_name)

    def decoder(self, resource: str, type: type[T], refusals: Refusals) -> ObjectDecoder[T]:
        """Return a decoder that stores the objects that it decodes."""
        return _CachingDecoder(resource, type, refusals, self)

    def wrap_handler(self, emit: Callable[[Change[Any]], None]) -> Callable[[Change[Any]], None]:
        """Return `emit` preceded by dropping deleted objects."""

        def emit_and_drop(change: Change[Any]) -> None:
            if isinstance(change, Deleted):
                self._objects.pop((change.namespace, change.name), None)
            emit(change)

        return emit_and_drop


class _CachingDecoder(ObjectDecoder[T]):
    def __init__(self, resource: str, type: type[T], refusals: Refusals, cache: RawObjectCache) -> None:
        super().__init__(resource, type, refusals)
        self._cache = cache

    def page(self, body: bytes) -> Page[T]:
        return self._one_by_one(body) if self._cache.scope else super().page(body)

    def line(self, line: bytes) -> Line[T]:
        return self._part_by_part(line) if self._cache.scope else super().line(line)

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        item = super()._item(raw)
        if self._cache.scope:
            self._cache.put(item, raw)
        return item


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
