"""Decode a list while it arrives: objects are available before its end, and its bytes are never all in memory.

So pages can be large. The start of a page costs an API server as much as writing hundreds of objects, in any encoding:
kube-apiserver 1.36 takes 20 to 30 ms of CPU for it with 100,000 pods.

The arrived bytes are cut after the last object that is certainly complete. The cut part is decoded as a list of its
own, with all fallbacks for objects that are hard to decode; the rest, with the envelope, is the list without them. A
cut at a wrong position is detected, because the cut part is not a valid list then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec

from pyscheduler.kube.decode import UNREADABLE, Item, ObjectDecoder, Page, UnreadableList

T = TypeVar("T")

STRETCH: Final = 1 << 18
_ITEMS = b',"items":['
_META = b'"metadata":{'
_BEFORE, _AFTER = b'{"metadata":{},"items":[', b"]}"
_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ListReader(Generic[T]):
    """Incremental decoder of one page: `feed` until it has ended, then `rest`."""

    def __init__(self, decoder: ObjectDecoder[T], stretch: int = STRETCH) -> None:
        """Decode objects after each `stretch` bytes."""
        self._decoder = decoder
        self._stretch = self._enough = stretch
        self._parts: list[bytes] = []
        self._size = 0
        self._begin, self._between = 0, b""
        """Position of the first object, and the separator of two objects; 0 until found."""

    def feed(self, chunk: bytes) -> Iterable[Item[T]]:
        """Add arrived bytes; return the objects that are complete."""
        self._parts.append(chunk)
        self._size += len(chunk)
        return () if self._size < self._enough else self._cut(b"".join(self._parts))

    def rest(self) -> Page[T]:
        """Return the page without the objects that `feed` returned. UnreadableList if it is not a list."""
        return self._decoder.page(b"".join(self._parts))

    def _cut(self, body: bytes) -> Iterable[Item[T]]:
        if not self._begin:
            self._begin, self._between = _first(body)
        end = body.rfind(self._between, self._begin) + 1 if self._begin else 0
        found = self._read(memoryview(body)[self._begin : end]) if end else None
        if found is None:
            self._parts, self._enough = [body], 2 * len(body)
            return ()
        self._parts = [body[: self._begin], body[end + 1 :]]
        self._size = sum(map(len, self._parts))
        self._enough = self._size + self._stretch
        return found

    def _read(self, objects: memoryview) -> Iterable[Item[T]] | None:
        """Decode the objects; return None if the last one is incomplete."""
        try:
            return self._decoder.page(b"".join((_BEFORE, objects, _AFTER))).items
        except UnreadableList:
            return None


def _first(body: bytes) -> tuple[int, bytes]:
    """Return the position of the first object, 0 if unknown, and the separator of objects, which all begin alike."""
    end = body.find(_ITEMS)
    begin = end + len(_ITEMS)
    meta = body.find(_META, begin)
    try:
        _envelope(body[: max(end, 0)] + b"}")
    except UNREADABLE:
        return 0, b""  # `items` of another field, or a list that cannot be decoded here
    return (begin, b"}," + body[begin : meta + len(_META)]) if meta >= 0 else (0, b"")


__all__ = ["STRETCH", "ListReader"]
