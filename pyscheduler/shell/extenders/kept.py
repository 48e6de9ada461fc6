"""Objects in JSON, as the API server wrote them: what extenders are sent.

The scheduler itself keeps only what scheduling reads. Where there are extenders, the bytes of the objects that they
may have to be sent are kept beside that, as the watches bring them: no call is spent on them, and extenders see the
same versions as the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from pyscheduler.api import NodeObject, PodObject
from pyscheduler.shell.kube.decode import Item, Line, ObjectDecoder, Page, Refusals
from pyscheduler.shell.kube.reflector import Gone, Upsert

T = TypeVar("T", bound=PodObject | NodeObject | dict[str, Any])
Key = tuple[str, str]


class KeptJson:
    """The JSON of objects of one kind, by namespace and name."""

    def __init__(self, wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """`wanted` says which of the decoded objects are kept."""
        self._wanted = wanted
        self._kept: dict[Key, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, name: str, namespace: str = "") -> bytes | None:
        """The newest version of an object, None if it is not kept."""
        return self._kept.get((namespace, name))

    def put(self, item: Item[Any], raw: msgspec.Raw) -> None:
        """An object has been read."""
        key = item.identity[:2]
        if item.object is not None and self._wanted(item.object):
            self._kept[key] = _as_sent(raw)
        else:
            self._kept.pop(key, None)

    def decoder(self, resource: str, type: type[T], refusals: Refusals) -> ObjectDecoder[T]:
        """A decoder that keeps what it reads."""
        return _KeepingDecoder(resource, type, refusals, self)

    def following(self, emit: Callable[[Upsert[Any] | Gone], None]) -> Callable[[Upsert[Any] | Gone], None]:
        """`emit`, and what is gone is let go of."""

        def emit_and_drop(change: Upsert[Any] | Gone) -> None:
            if isinstance(change, Gone):
                self._kept.pop((change.namespace, change.name), None)
            emit(change)

        return emit_and_drop


class _KeepingDecoder(ObjectDecoder[T]):
    def __init__(self, resource: str, type: type[T], refusals: Refusals, kept: KeptJson) -> None:
        super().__init__(resource, type, refusals)
        self._kept = kept

    def page(self, body: bytes) -> Page[T]:
        return self._one_by_one(body)

    def line(self, line: bytes) -> Line[T]:
        return self._part_by_part(line)

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        item = super()._item(raw)
        self._kept.put(item, raw)
        return item


def _as_sent(raw: msgspec.Raw) -> bytes:
    """The object as kube-scheduler would send it: without what only API servers read, and without kind and version."""
    parts: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    parts["metadata"] = msgspec.json.decode(parts["metadata"], type=dict[str, msgspec.Raw])
    parts["metadata"].pop("managedFields", None)
    for key in ("kind", "apiVersion"):
        parts.pop(key, None)
    return msgspec.json.encode(parts)
