"""One watch: the events that its client receives, and their types. Pure; the HTTP handler only writes the lines.

An object that starts to match a selector is ADDED for the watcher, one that stops matching is DELETED, whatever its
event in the store is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pyscheduler.embedded.columns.table import TableView, metadata_only
from pyscheduler.embedded.history import (
    ADDED,
    DELETED,
    MODIFIED,
    Event,
    Version,
    bookmark,
    error_line,
)
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import ServerState
from pyscheduler.embedded.status import ApiStatusError, too_large_revision
from pyscheduler.embedded.verbs.read import ListOptions, revision_number

MAX_PENDING = 200_000
"""Buffered events of a slow client at which its watch is closed."""

Line = Callable[[str, Event], bytes]
_encode = msgspec.json.Encoder().encode


class Watcher:
    """The events of one resource for one client, from `open` until `close`."""

    def __init__(
        self,
        state: ServerState,
        resource: Resource,
        namespace: str,
        options: ListOptions,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called when there are events to read, and at the end."""
        self._state, self._resource, self._namespace, self._options = state, resource, namespace, options
        self._pending: list[tuple[str, Event]] = []
        self._preface: list[bytes] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._marks_start = False
        self._wake = wake
        self.ended = False
        """True if no event will follow those that are pending."""

    def open(self) -> None:
        """Start at the resourceVersion in the options; an expired one becomes an ERROR line."""
        store, options = self._state.store, self._options
        wanted = revision_number(options.revision)
        from_state = options.initial_events or (options.initial_events is None and not wanted)
        if options.initial_events and wanted > store.revision:
            raise too_large_revision(wanted, store.revision)
        if from_state:
            for version in store.scan(self._resource.bucket, self._namespace):
                if options.selects(version):
                    self._pending.append((ADDED, Event(ADDED, version, None)))
        elif wanted:
            try:
                for event in store.bucket(self._resource.bucket).history.since(wanted):
                    self._take(event)
            except ApiStatusError as error:
                self._preface.append(error_line(error.body()))
                self.ended = True
                return
        self._marks_start = bool(options.initial_events)
        self._unsubscribe = store.subscribe(self._resource.bucket, self._event)

    def close(self) -> None:
        """Unsubscribe and end the watch."""
        self.ended = True
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._wake()

    def _event(self, event: Event) -> None:
        self._take(event)
        if len(self._pending) > MAX_PENDING:
            self.ended = True
        self._wake()

    def _take(self, event: Event) -> None:
        if self._namespace and event.version.key[0] != self._namespace:
            return
        if not self._options.selective:
            self._pending.append((event.kind, event))
            return
        is_in = event.kind != DELETED and self._options.selects(event.version)
        was_in = event.previous is not None and self._options.selects(event.previous)
        if is_in:
            self._pending.append((MODIFIED if was_in else ADDED, event))
        elif was_in and event.previous is not None:
            self._pending.append((DELETED, event if event.kind == DELETED else _left(event, event.previous)))

    def lines(self, line: Line) -> bytes:
        """Return all pending events, rendered by `line`, and remove them from the buffer."""
        pending, self._pending = self._pending, []
        preface, self._preface = self._preface, []
        text = b"".join([*preface, *(line(kind, event) for kind, event in pending)])
        if not self.ended and self._marks_start:
            self._marks_start = False
            text += self.bookmark(initial_end=True)
        return text

    def bookmark(self, *, initial_end: bool = False) -> bytes:
        """Return a BOOKMARK line at the current revision."""
        resource = self._resource
        return bookmark(resource.api_version, resource.kind, self._state.store.revision, initial_end=initial_end)

    @property
    def idle(self) -> bool:
        """True if nothing is pending."""
        return not self._pending and not self._preface and not self._marks_start


def _left(event: Event, previous: Version) -> Event:
    """Return the event of an object that a selector no longer matches: its previous state at the new revision."""
    meta = {**previous.object["metadata"], "resourceVersion": str(event.revision)}
    return Event(DELETED, Version(previous.key, {**previous.object, "metadata": meta}, event.revision), previous)


def object_line(resource: Resource) -> Line:
    """Return a renderer of lines with whole objects."""
    projection = resource.from_stored
    return lambda kind, event: event.frame(kind, projection)


def metadata_line(kind: str, event: Event) -> bytes:
    """Return a line with metadata only."""
    return _line(kind, metadata_only(event.version.object))


def table_line(view: TableView, now: Callable[[], float]) -> Line:
    """Return a renderer of lines with one-row tables; only the first has column headers."""
    state = {"headers": True}

    def line(kind: str, event: Event) -> bytes:
        meta = {"resourceVersion": str(event.revision)}
        table = view.at(now()).table([event.version], meta, headers=state["headers"])
        state["headers"] = False
        return _line(kind, table)

    return line


def _line(kind: str, obj: Json) -> bytes:
    return _encode({"type": kind, "object": obj}) + b"\n"
