"""Event history of a resource: the ring buffer from which watches resume.

Each resource has its own history. It drops its oldest events when it is full or compacted; a watch or a paged list from
before that point then gets 410 Expired, as after etcd's compaction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.status import expired

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_encode = msgspec.json.Encoder().encode
_FRAME_START = {kind: b'{"type":"' + kind.encode() + b'","object":' for kind in (ADDED, MODIFIED, DELETED)}

Projection = Callable[[Json], Json]
"""Turns the stored form of an object into the form of one API version."""


class Version:
    """One version of one object. Its dict never changes, so its JSON is encoded once and cached."""

    __slots__ = ("_json", "_projections", "key", "object", "revision")

    def __init__(self, key: Key, obj: Json, revision: int) -> None:
        self.key, self.object, self.revision = key, obj, revision
        self._json: bytes | None = None
        self._projections: dict[Projection, bytes] | None = None

    def json(self, projection: Projection | None = None) -> bytes:
        """The object as JSON, in its stored form or through a `projection`."""
        if projection is None:
            if self._json is None:
                self._json = _encode(self.object)
            return self._json
        if self._projections is None:
            self._projections = {}
        if projection not in self._projections:
            self._projections[projection] = _encode(projection(self.object))
        return self._projections[projection]


class Event:
    """One change: its kind, the version after it (for a deletion: the last one) and the version before it."""

    __slots__ = ("kind", "previous", "revision", "version")

    def __init__(self, kind: str, version: Version, previous: Version | None) -> None:
        self.kind, self.version, self.previous = kind, version, previous
        self.revision = version.revision

    def frame(self, kind: str, projection: Projection | None = None) -> bytes:
        """Return the event as one line of a watch, with type `kind`."""
        return _FRAME_START[kind] + self.version.json(projection) + b"}\n"


class History:
    """The events of one resource, oldest first. `floor` is the newest revision that has been dropped."""

    def __init__(self, capacity: int) -> None:
        self.floor = 0
        self._capacity = capacity
        self._events: list[Event] = []
        self._revisions: list[int] = []

    def append(self, event: Event) -> None:
        """Append `event`. At twice the capacity the oldest half is dropped, which keeps appending cheap."""
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) >= 2 * self._capacity:
            self._forget(self._capacity)

    def compact(self, revision: int) -> None:
        """Drop all events up to and including `revision`."""
        self._forget(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)

    def since(self, revision: int) -> list[Event]:
        """Return all events after `revision`. ApiError 410 if some of them have been dropped."""
        if revision < self.floor:
            raise expired(f"too old resource version: {revision} ({self.floor})")
        return self._events[bisect_right(self._revisions, revision) :]

    def undo(self, revision: int) -> Mapping[Key, Version | None]:
        """Return the objects that changed after `revision` as they were at `revision` (None: they did not exist)."""
        before: dict[Key, Version | None] = {}
        for event in self.since(revision):
            before.setdefault(event.version.key, event.previous)
        return before

    def _forget(self, count: int) -> None:
        if count:
            self.floor = max(self.floor, self._revisions[count - 1])
            del self._events[:count], self._revisions[:count]

    def __len__(self) -> int:
        return len(self._events)


def bookmark(api_version: str, kind: str, revision: int, *, initial_end: bool = False) -> bytes:
    """Return a BOOKMARK line at `revision`. `initial_end` marks the end of sendInitialEvents."""
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"kind": kind, "apiVersion": api_version, "metadata": meta})


def error_line(status: Json) -> bytes:
    """Return an ERROR line, the last of a watch, with `status` as its object."""
    return _line("ERROR", status)


def _line(kind: str, obj: Json) -> bytes:
    return _encode({"type": kind, "object": obj}) + b"\n"
