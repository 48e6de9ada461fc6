"""SLASort: among pods of one priority, those with a limit of their waiting time first, by deadline (Volcano's sla).

The deadline is the creation of the pod group, or of a pod without a group, plus the waiting time. It does not depend on
the current time, so the order of queued pods does not change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyscheduler.api import Pod, PodGroupKey, QueuedPod, QueueSortPlugin, ResourceKind
from pyscheduler_plugins.pod_groups import membership

WAITING_TIME: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""Annotations with the waiting time as a duration of Go, such as `1h30m`. The first one counts."""

_KINDS: Final[Mapping[str, Sequence[ResourceKind]]] = {api.group: api.kinds for api in membership.APIS}
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_DURATION: Final = re.compile(rf"\+?(?:{_PART.pattern})+", re.ASCII)


@dataclass(frozen=True, slots=True)
class SLASortArgs:
    """Waiting time of pods without an annotation, in seconds; 0 for no limit."""

    waiting_seconds: int = 0

    def __post_init__(self) -> None:
        if self.waiting_seconds < 0:
            raise ValueError(f"waitingSeconds: must not be negative, but is {self.waiting_seconds}")


class SLASort(QueueSortPlugin):
    """Queue order by priority, then by the deadline of the waiting time, if there is one, then by queueing time."""

    name = "SLASort"
    Args = SLASortArgs
    watches = tuple(kind for kinds in _KINDS.values() for kind in kinds)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float, float]:
        return -queued.pod.priority, self._deadline(queued.pod), queued.timestamp

    def _deadline(self, pod: Pod) -> float:
        """Return the deadline in seconds since 1970; infinity if there is none.

        A group that only annotations declare has none, because nothing has the time of its creation.
        """
        group = membership.group_of(pod)
        meta = {} if group is None else self._metadata(group)
        waiting = _waiting_time(meta.get("annotations") or {}) or _waiting_time(pod.annotations)
        created = pod.created if group is None else meta.get("creationTimestamp")
        waiting = waiting or self.args.waiting_seconds
        return datetime.fromisoformat(created).timestamp() + waiting if created and waiting else math.inf

    def _metadata(self, group: PodGroupKey) -> Mapping[str, Any]:
        for kind in _KINDS.get(group.api, ()):
            obj = self.handle.objects[kind].get((group.namespace, group.name))
            if obj is not None:
                metadata: Mapping[str, Any] = obj["metadata"]
                return metadata
        return {}


def _waiting_time(annotations: Mapping[str, str]) -> float:
    """Return the waiting time in seconds; 0 if there is none or, as in Volcano, an invalid one."""
    text = next((annotations[name] for name in WAITING_TIME if name in annotations), "")
    if not _DURATION.fullmatch(text):
        return 0.0
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
