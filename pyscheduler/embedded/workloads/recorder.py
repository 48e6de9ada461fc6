"""Events that controllers write: one object for what is said again and again, with a count."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from uuid import uuid4

from pyscheduler.embedded.client import EVENTS, ApiClient, Clock, Json, Refused
from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.workloads.actions import Record
from pyscheduler.embedded.workloads.objects import key_of, uid_of

REMEMBERED = 4096
"""How many Events are remembered so that the next of the same words only counts them up."""
_COMPONENTS = {"Job": "job-controller", "CronJob": "cronjob-controller"}
_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1"}

_Words = tuple[str, str, str]


@dataclass
class _Said:
    name: str
    count: int


class Recorder:
    """Writes Events. What cannot be written is left out: an Event is news, not state."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._said: OrderedDict[_Words, _Said] = OrderedDict()

    async def record(self, record: Record) -> None:
        """Say it, or count it up."""
        words = (uid_of(record.about), record.reason, record.message)
        namespace, now = key_of(record.about)[0], timestamp(self._clock())
        said = self._said.get(words)
        try:
            if said is not None:
                said.count += 1
                count = {"count": said.count, "lastTimestamp": now}
                await self._client.patch(EVENTS, (namespace, said.name), count)
                return
            event = _event(record, now)
            self._said[words] = _Said(event["metadata"]["name"], 1)
            if len(self._said) > REMEMBERED:
                self._said.popitem(last=False)
            await self._client.create(EVENTS, event)
        except (Refused, OSError, TimeoutError):
            self._said.pop(words, None)


def _event(record: Record, now: str) -> Json:
    about, kind = record.about, record.about.get("kind", "")
    meta, component = about["metadata"], _COMPONENTS.get(kind, "")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{uuid4().hex[:16]}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": _VERSIONS.get(kind, "v1"),
            "kind": kind,
            "namespace": meta["namespace"],
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
