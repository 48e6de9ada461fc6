"""What changed, in order, and for how long it is remembered: the ring that watches resume from.

Each resource has its own history. It forgets its oldest events when it is full (or when told to compact), and then a
watch or a paged list from before that point gets 410 Expired, as after etcd's compaction.
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
    """One version of one object. Its dict never changes, so its JSON bytes are made once and kept."""

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
    """One change: what it was, the version after it (for a deletion: the last one) and the version before it."""

    __slots__ = ("kind", "previous", "revision", "version")

    def __init__(self, kind: str, version: Version, previous: Version | None) -> None:
        self.kind, self.version, self.previous = kind, version, previous
        self.revision = version.revision

    def frame(self, kind: str, projection: Projection | None = None) -> bytes:
        """The event as one line of a watch, as a watcher sees it that calls it `kind`."""
        return _FRAME_START[kind] + self.version.json(projection) + b"}\n"


class History:
    """The events of one resource, oldest first. `floor` is the newest revision that has been forgotten."""

    def __init__(self, capacity: int) -> None:
        self.floor = 0
        self._capacity = capacity
        self._events: list[Event] = []
        self._revisions: list[int] = []

    def append(self, event: Event) -> None:
        """Remember `event`; the oldest half goes when twice the capacity is reached, so appending stays cheap."""
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) >= 2 * self._capacity:
            self._forget(self._capacity)

    def compact(self, revision: int) -> None:
        """Forget all events up to and including `revision`."""
        self._forget(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)

    def since(self, revision: int) -> list[Event]:
        """All events after `revision`. ApiError 410 where some of them are forgotten."""
        if revision < self.floor:
            raise expired(f"too old resource version: {revision} ({self.floor})")
        return self._events[bisect_right(self._revisions, revision) :]

    def undo(self, revision: int) -> Mapping[Key, Version | None]:
        """What the objects that changed after `revision` were at `revision` (None: they were not there)."""
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
    """A BOOKMARK line: the watch is up to date to `revision`. `initial_end` marks the end of sendInitialEvents."""
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"kind": kind, "apiVersion": api_version, "metadata": meta})


def error_line(status: Json) -> bytes:
    """An ERROR line: the watch ends here, `status` says why."""
    return _line("ERROR", status)


def _line(kind: str, obj: Json) -> bytes:
    return _encode({"type": kind, "object": obj}) + b"\n"
