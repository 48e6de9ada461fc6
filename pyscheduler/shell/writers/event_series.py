"""A repeated Kubernetes Event: one API object with a count (events.k8s.io/v1 EventSeries)."""

from __future__ import annotations

from typing import Any, Final

from pyscheduler.api import Pod
from pyscheduler.clock import rfc3339_micro
from pyscheduler.core.commands import Record
from pyscheduler.truncation import MAX_NOTE, truncated

_MAX_INSTANCE: Final = 128

Json = dict[str, Any]
SeriesKey = tuple[str, str, str, str, str, str]


def series_key(record: Record) -> SeriesKey:
    """Return the key that is equal for records of a repeated Event."""
    related = record.related.uid if record.related else ""
    return (record.regarding.uid, record.reason, record.action, record.note, record.type, related)


class EventSeries:
    """One Event object and its count.

    `created` is True once it is in the API, `queued` while a write is pending.
    """

    __slots__ = ("count", "created", "first", "last", "name", "queued", "record", "written", "written_at")

    def __init__(self, record: Record, name: str, wall: float) -> None:
        self.record = record
        self.name = name
        self.first = self.last = wall
        self.count = 1
        self.written = 0
        """Count in the API."""
        self.written_at = wall
        self.created = False
        self.queued = False

    @property
    def key(self) -> SeriesKey:
        return series_key(self.record)

    @property
    def namespace(self) -> str:
        return self.record.regarding.namespace or "default"

    @property
    def controller(self) -> str:
        """The reporting scheduler."""
        return (self.record.related or self.record.regarding).scheduler_name

    def again(self, wall: float) -> None:
        """Count one more occurrence."""
        self.count += 1
        self.last = wall

    def body(self, instance: str) -> Json:
        """Return the Event object; `instance` is the host, part of reportingInstance."""
        record = self.record
        body: Json = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": rfc3339_micro(self.first),
            "reportingController": self.controller,
            "reportingInstance": instance_of(self.controller, instance),
            "action": record.action,
            "reason": record.reason,
            "regarding": _reference(record.regarding),
            "note": truncated(record.note, MAX_NOTE),
            "type": str(record.type),
        }
        if record.related is not None:
            body["related"] = _reference(record.related)
        return body | (self.series() if self.count > 1 else {})

    def series(self) -> Json:
        """Return the `series` field of the object."""
        return {"series": {"count": self.count, "lastObservedTime": rfc3339_micro(self.last)}}


def instance_of(controller: str, host: str) -> str:
    """Return the reportingInstance: the scheduler and its host."""
    return f"{controller}-{host}"[:_MAX_INSTANCE]


def _reference(pod: Pod) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
    }
