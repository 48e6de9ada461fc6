"""Evictions from queues that allocate more than their quotas for some time: their quotas were lowered.

The Quota plugin decides after what time, and which pods. Times begin anew when the scheduler starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pyscheduler.api.pod_group import EvictionUnit, PodGroupKey
from pyscheduler.api.pod_group_plugins import QuotaPlugin
from pyscheduler.api.steps import exhaust
from pyscheduler.core.commands import Command, EventType, Evict, Record
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.eviction_units import eviction_units
from pyscheduler.core.queue.active_by_queue import CRITICAL_PRIORITY

_CHECK_DELAY = 1.0
"""Seconds until quotas are checked after a change: there may be thousands of changes."""
_RETRY = 30.0
"""Seconds until the eviction of pods is repeated that are neither gone nor terminating."""
_NO_GROUP = PodGroupKey("", "")


class _Over(Struct):
    """Time of a queue above its quota."""

    since: float
    delay: float

    @property
    def deadline(self) -> float:
        """Time at which pods are evicted."""
        return self.since + self.delay


class QuotaEvictions:
    """Queues that are over their quotas, with the time at which pods are evicted."""

    def __init__(self) -> None:
        self._over: dict[str, _Over] = {}
        self._check_at = math.inf
        self._evicted: frozenset[str] = frozenset()
        """UIDs of the pods that were evicted last."""
        self._retry_at = -math.inf

    def changed(self, now: float) -> None:
        """Check the quotas soon: pods or queues have changed."""
        self._check_at = min(self._check_at, now + _CHECK_DELAY)

    def next_wake(self) -> float | None:
        """Return the time of the next check or eviction; None if there is none."""
        wake = min([self._check_at, *(max(each.deadline, self._retry_at) for each in self._over.values())])
        return None if wake == math.inf else wake

    def evict(self, context: Context, now: float) -> list[Command]:
        """Return the commands that evict pods from a queue that has been over its quota for too long.

        It is one queue at a time, the lowest first: that may bring the queues above within theirs.
        """
        wake = self.next_wake()
        if wake is None or wake > now:
            return []
        self._check(context, now)
        due = [name for name, each in self._over.items() if each.deadline <= now]
        if not due or (now < self._retry_at and self._is_evicting(context)):
            return []
        queue = due[-1]
        pods = {pod.uid: pod for unit in _surplus(context, queue) for pod in unit.pods}
        self._evicted, self._retry_at = frozenset(pods), now + _RETRY
        text = f"queue {queue} has allocated more than its quota for {self._over[queue].delay:g} s"
        return [
            Evict(pod, pod, text, Record(EventType.NORMAL, "QuotaExceeded", "Evicting", text, pod))
            for pod in pods.values()
        ]

    def _check(self, context: Context, now: float) -> None:
        """Find the queues that are over their quotas."""
        self._check_at = math.inf
        context.groups.report_usage()
        over: Mapping[str, float] = context.groups.call_quota({}, QuotaPlugin.over_quota)
        self._over = {
            queue: _Over(before.since if (before := self._over.get(queue)) is not None else now, delay)
            for queue, delay in over.items()
        }

    def _is_evicting(self, context: Context) -> bool:
        """Return True if pods that were evicted are not terminating yet, so that they still count."""
        pods = (context.pods.get(uid) for uid in self._evicted)
        return any(pod is not None and not pod.deleting for pod in pods)


def _surplus(context: Context, queue: str) -> Sequence[EvictionUnit]:
    """Return the units to evict from a queue."""
    groups = context.groups
    units = exhaust(eviction_units(context, _NO_GROUP, CRITICAL_PRIORITY, makes_room=False))
    named = [(unit, groups.accounted(unit.group)) for unit in units if unit.group is not None]
    of_groups = [(unit, group) for unit, group in named if group is not None]
    return groups.call_quota((), QuotaPlugin.surplus, queue, of_groups)
