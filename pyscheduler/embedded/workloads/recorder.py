"""Events of controllers: repeated Events are one object with a count."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from uuid import uuid4

from pyscheduler.api import ApiError
from pyscheduler.clock import Clock
from pyscheduler.embedded.event_names import event_name
from pyscheduler.embedded.objects import Json, timestamp
from pyscheduler.embedded.workloads.actions import RecordAction
from pyscheduler.embedded.workloads.objects import key_of, uid_of
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import CORE_EVENTS

MAX_CACHED_EVENTS = 4096
"""Number of recent Events that repetitions increment instead of creating an object."""
MAX_SIMILAR_EVENTS = 10
"""Messages of one reason from which on Events are one object with the newest message (client-go's EventAggregator)."""
SIMILAR_SECONDS = 600.0
"""Time without an Event after which its messages are collected anew."""
_COMPONENTS = {
    "CronJob": "cronjob-controller",
    "DaemonSet": "daemonset-controller",
    "HorizontalPodAutoscaler": "horizontal-pod-autoscaler",
    "Job": "job-controller",
    "Node": "hollow-devices",
    "PersistentVolumeClaim": "persistentvolume-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replication-controller",
    "StatefulSet": "statefulset-controller",
}
_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "HorizontalPodAutoscaler": "autoscaling/v2"} | dict.fromkeys(
    ("DaemonSet", "ReplicaSet", "StatefulSet"), "apps/v1"
)

_EventKey = tuple[str, str, str]


@dataclass
class _RecordedEvent:
    name: str
    count: int


@dataclass
class _Similar:
    """Messages of one reason about one object."""

    messages: set[str]
    at: float


class EventRecorder:
    """Writes Events. Failed writes are dropped: an Event is information, not state."""

    def __init__(self, client: ObjectClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._recorded_events: OrderedDict[_EventKey, _RecordedEvent] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str], _Similar] = OrderedDict()

    async def record(self, record: RecordAction) -> None:
        """Create the Event, or increment the count of an equal one."""
        record, event_key = self._aggregate(record)
        namespace, now = key_of(record.regarding)[0] or "default", timestamp(self._clock.wall())
        recorded = self._recorded_events.get(event_key)
        try:
            if recorded is not None:
                recorded.count += 1
                count = {"count": recorded.count, "lastTimestamp": now, "message": record.message}
                await self._client.patch(CORE_EVENTS, (namespace, recorded.name), count)
                return
            event = _event(record, now)
            self._recorded_events[event_key] = _RecordedEvent(event["metadata"]["name"], 1)
            if len(self._recorded_events) > MAX_CACHED_EVENTS:
                self._recorded_events.popitem(last=False)
            await self._client.create(CORE_EVENTS, event)
        except ApiError:
            self._recorded_events.pop(event_key, None)

    def _aggregate(self, record: RecordAction) -> tuple[RecordAction, _EventKey]:
        """Return the Event to write and its key; names that are generated anew would make each retry a new Event."""
        uid, now = uid_of(record.regarding), self._clock.wall()
        similar = self._similar.pop((uid, record.reason), None)
        if similar is None or now - similar.at > SIMILAR_SECONDS:
            similar = _Similar(set(), now)
        self._similar[uid, record.reason] = similar
        if len(self._similar) > MAX_CACHED_EVENTS:
            self._similar.popitem(last=False)
        similar.messages.add(record.message)
        similar.at = now
        if len(similar.messages) < MAX_SIMILAR_EVENTS:
            return record, (uid, record.reason, record.message)
        similar.messages.pop()
        combined = f"(combined from similar events): {record.message}"
        return replace(record, message=combined), (uid, record.reason, "")


def _event(record: RecordAction, now: str) -> Json:
    about, kind = record.regarding, record.regarding.get("kind", "")
    meta, component = about["metadata"], _COMPONENTS.get(kind, "")
    namespace = meta.get("namespace") or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(meta["name"], uuid4().hex[:16]), "namespace": namespace},
        "involvedObject": {
            "apiVersion": _VERSIONS.get(kind, "v1"),
            "kind": kind,
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
            "name": meta["name"],
            "uid": uid_of(about),
            "resourceVersion": meta.get("resourceVersion", ""),
        },
        "reason": record.reason,
        "message": record.message,
        "type": record.kind,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
