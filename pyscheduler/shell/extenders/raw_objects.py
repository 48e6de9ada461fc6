"""Objects in JSON, as the API server wrote them: what extenders are sent.

The scheduler itself keeps only what scheduling reads. Where there are extenders, the bytes of the objects that they
may have to be sent are kept beside that, as the watches bring them: no call is spent on them, and extenders see the
same versions as the scheduler. Extenders may come by a reload: how much is kept changes then, and whoever watches reads
through here from the start.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from pyscheduler.api import NodeObject, PodObject, ResourceKind
from pyscheduler.config.types import Extender
from pyscheduler.shell.kube.decode import Item, Line, ObjectDecoder, Page, Refusals
from pyscheduler.shell.kube.paths import NODES, PODS
from pyscheduler.shell.kube.reflector import Gone, Upsert
from pyscheduler.shell.kube.sanitize import sanitize

T = TypeVar("T", bound=PodObject | NodeObject | dict[str, Any])
Key = tuple[str, str]


class CacheScope(enum.IntEnum):
    """Which objects of a kind are kept; each step takes in what the one before does."""

    NONE = 0
    PENDING = 1
    """Pods without a node."""
    ALL = 2


class RawObjectCache:
    """The JSON of objects of one kind, by namespace and name."""

    def __init__(self, keep: CacheScope = CacheScope.NONE) -> None:
        self.keep = keep
        self._kept: dict[Key, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def narrow(self, keep: CacheScope) -> None:
        """Keep no more than that from now on, and let go of the rest."""
        if keep < self.keep:
            self._kept = {k: raw for k, raw in self._kept.items() if keep is CacheScope.PENDING and not _node_of(raw)}
        self.keep = keep

    def get(self, name: str, namespace: str = "") -> bytes | None:
        """The newest version of an object, None if it is not kept."""
        return self._kept.get((namespace, name))

    def put(self, item: Item[Any], raw: msgspec.Raw) -> None:
        """An object has been read."""
        key = item.identity[:2]
        if item.object is not None and self._wants(item.object):
            self._kept[key] = _as_sent(raw)
        else:
            self._kept.pop(key, None)

    def _wants(self, found: Any) -> bool:
        return self.keep is CacheScope.ALL or (self.keep is CacheScope.PENDING and not found.spec.node_name)

    def decoder(self, resource: str, type: type[T], refusals: Refusals) -> ObjectDecoder[T]:
        """A decoder that keeps what it reads."""
        return _CachingDecoder(resource, type, refusals, self)

    def following(self, emit: Callable[[Upsert[Any] | Gone], None]) -> Callable[[Upsert[Any] | Gone], None]:
        """`emit`, and what is gone is let go of."""

        def emit_and_drop(change: Upsert[Any] | Gone) -> None:
            if isinstance(change, Gone):
                self._kept.pop((change.namespace, change.name), None)
            emit(change)

        return emit_and_drop


class _CachingDecoder(ObjectDecoder[T]):
    def __init__(self, resource: str, type: type[T], refusals: Refusals, kept: RawObjectCache) -> None:
        super().__init__(resource, type, refusals)
        self._kept = kept

    def page(self, body: bytes) -> Page[T]:
        return self._one_by_one(body) if self._kept.keep else super().page(body)

    def line(self, line: bytes) -> Line[T]:
        return self._part_by_part(line) if self._kept.keep else super().line(line)

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        item = super()._item(raw)
        if self._kept.keep:
            self._kept.put(item, raw)
        return item


class RawObjectCaches(NamedTuple):
    """What is kept of the two kinds that extenders are sent."""

    pods: RawObjectCache
    nodes: RawObjectCache

    def of(self, kind: ResourceKind) -> RawObjectCache | None:
        """Where objects of the kind are kept; None for any other kind."""
        return {PODS: self.pods, NODES: self.nodes}.get(kind)

    def by(self, keeps: Sequence[CacheScope]) -> Iterator[tuple[RawObjectCache, CacheScope]]:
        """Both, each with what is given for it: first pods, then nodes."""
        return zip(self, keeps, strict=True)


def required_scopes(extenders: Sequence[Extender]) -> tuple[CacheScope, CacheScope]:
    """How much has to be kept of the pods, and of the nodes, that these extenders may be sent."""
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
    """The object as kube-scheduler would send it: without what only API servers read, and without kind and version."""
    try:
        parts: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except RecursionError:
        return _as_sent(msgspec.Raw(sanitize(bytes(raw))))
    parts["metadata"] = msgspec.json.decode(parts["metadata"], type=dict[str, msgspec.Raw])
    parts["metadata"].pop("managedFields", None)
    for key in ("kind", "apiVersion"):
        parts.pop(key, None)
    return msgspec.json.encode(parts)
