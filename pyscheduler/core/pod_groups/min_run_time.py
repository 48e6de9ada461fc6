"""Minimum run times: pods that have started a short time ago are not evicted for other groups.

A group counts from the start of its oldest pod: its other pods may have been created anew since then. Surplus pods
count on their own. The group that needs their room is retried at the time at which it can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyscheduler.api.pod_group import EvictionRank, EvictionUnit, PodGroup
from pyscheduler.api.pod_group_plugins import QuotaPlugin
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context

_MOST_SEARCHES = 8
"""Searches for that time; after them, the group is retried at a time that may be too early."""


class MinRunTime:
    """Eviction units that one group may evict at a time."""

    def __init__(self, context: Context, group: PodGroup, now: float) -> None:
        self.at = now
        """Time at which the units are evicted."""
        self._context, self._group, self._now = context, group, now
        self._ends: set[float] = set()
        self._longest = 0.0
        self._is_turn = False

    def has_any(self) -> bool:
        """Return True if units of some queue have to run for a time: otherwise their groups need not be read."""
        groups = self._context.groups
        others = groups.one_group_of_each_queue()
        return any(seconds > 0 for seconds in groups.call_quota((), QuotaPlugin.min_run_seconds, self._group, others))

    def evictable(self, units: Sequence[tuple[EvictionUnit, PodGroup]]) -> list[tuple[EvictionUnit, PodGroup]]:
        """Return the units, with their groups, that have run for long enough, and are not kept by their turns."""
        call_quota, group, others = self._context.groups.call_quota, self._group, [group for _, group in units]
        turns = call_quota((), QuotaPlugin.seconds_of_turns, group, others)
        least = call_quota((), QuotaPlugin.min_run_seconds, group, others)
        chosen = list(units)
        if least:
            chosen = [each for each, seconds in zip(units, least, strict=True) if self._has_run(each[0], seconds)]
        if any(turns):
            left = {of.key: seconds for of, seconds in zip(others, turns, strict=True) if seconds > 0}
            chosen = [(unit, of) for unit, of in chosen if self._has_had_turn(unit, left.get(of.key, 0.0))]
        return chosen

    def _has_run(self, unit: EvictionUnit, seconds: float) -> bool:
        if seconds <= 0:
            return True
        times = self._context.reservations.times
        end = min(times.started(pod, self._now) for pod in unit.pods) + seconds
        if end <= self.at:
            return True
        self._ends.add(end)
        self._longest = max(self._longest, seconds)
        return False

    def _has_had_turn(self, unit: EvictionUnit, seconds: float) -> bool:
        end = self._now + seconds
        if unit.rank is EvictionRank.SURPLUS or end <= self.at:
            return True
        self._ends.add(end)
        self._is_turn = True
        return False

    @property
    def reason(self) -> str:
        """Reason why units are left out."""
        if self._is_turn and not self._longest:
            return "pods of a group in its turn are not evicted."
        return f"pods are not evicted before they have run for {self._longest:g} s."

    def first_time(self, search: Callable[[], Steps[bool]]) -> Steps[float | None]:
        """Return when enough units may be evicted; None if not even all of them suffice.

        `search` returns True if those that are evictable `at` a time suffice.
        """
        ends = sorted(self._ends)
        if not ends or not (yield from self._suffices(search, ends[-1])):
            return None
        too_few, enough = -1, len(ends) - 1
        for _ in range(_MOST_SEARCHES):
            if enough - too_few <= 1:
                return ends[enough]
            middle = (too_few + enough) // 2
            if (yield from self._suffices(search, ends[middle])):
                enough = middle
            else:
                too_few = middle
        return ends[too_few + 1]

    def _suffices(self, search: Callable[[], Steps[bool]], at: float) -> Steps[bool]:
        self.at = at
        return (yield from search())
