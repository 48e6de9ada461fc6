"""A list read while it comes: its objects are there long before its end, and its bytes never lie here all at once.

So a page can be large. To begin one costs an API server as much as to write hundreds of objects, in whatever form:
kube-apiserver 1.36 takes 20 to 30 ms of CPU for it where there are 100,000 pods.

Whatever has come is cut behind the last object that is surely whole. What is cut out is a list by itself, and is
read like any other, with all that is done for objects which are hard to read; what remains, with the envelope, is the
list without those objects. A cut in the wrong place cannot be mistaken for one in the right place: what is cut out is
no list then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from pyscheduler.api import NodeObject, PodObject
from pyscheduler.shell.kube.decode import UNREADABLE, Item, ObjectDecoder, Page, UnreadableList

T = TypeVar("T", bound=PodObject | NodeObject | dict[str, Any])

STRETCH: Final = 1 << 18
_ITEMS = b',"items":['
_META = b'"metadata":{'
_BEFORE, _AFTER = b'{"metadata":{},"items":[', b"]}"
_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ListReader(Generic[T]):
    """The bytes of one page in, its objects out: `feed` until it has ended, then `rest`."""

    def __init__(self, decoder: ObjectDecoder[T], stretch: int = STRETCH) -> None:
        """Objects are looked for whenever so many bytes have come."""
        self._decoder = decoder
        self._stretch = self._enough = stretch
        self._parts: list[bytes] = []
        self._size = 0
        self._begin, self._between = 0, b""
        """Where the objects begin, and what stands between two of them; 0 until that is known."""

    def feed(self, chunk: bytes) -> Iterable[Item[T]]:
        """Take what has come; objects that are whole now."""
        self._parts.append(chunk)
        self._size += len(chunk)
        return () if self._size < self._enough else self._cut(b"".join(self._parts))

    def rest(self) -> Page[T]:
        """The page without the objects that have been given already. UnreadableList if it was no list."""
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
        """These objects; None if the last of them is not whole."""
        try:
            return self._decoder.page(b"".join((_BEFORE, objects, _AFTER))).items
        except UnreadableList:
            return None


def _first(body: bytes) -> tuple[int, bytes]:
    """Where the first object begins, 0 if that cannot be told; and what stands between two, as all begin alike."""
    end = body.find(_ITEMS)
    begin = end + len(_ITEMS)
    meta = body.find(_META, begin)
    try:
        _envelope(body[: max(end, 0)] + b"}")
    except UNREADABLE:
        return 0, b""  # these are items of something else, or nothing that we can read
    return (begin, b"}," + body[begin : meta + len(_META)]) if meta >= 0 else (0, b"")


__all__ = ["STRETCH", "ListReader"]
