"""Stale pod groups: started groups that have lost pods and cannot be completed within their grace period.

What is left of them holds nodes in vain, so it is evicted. The pods that replace it start with the group as a whole.
Grace periods begin anew when the scheduler starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.core.commands import Command, EventType, Evict, Record
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.members import SINGLE_POD

_CHECK_DELAY = 1.0
"""Seconds until changed groups are checked: their pods often end one by one, and there may be thousands."""
_RETRY = 30.0
"""Least time until the eviction of pods is repeated that are not gone."""


class _Broken(Struct):
    """Grace period of a group that lacks its minimum."""

    since: float
    deadline: float


class StaleGroups:
    """Started groups that lack their minimum, with the time at which they are evicted."""

    def __init__(self) -> None:
        self._broken: dict[PodGroupKey, _Broken] = {}
        self._unchecked: dict[PodGroupKey, float] = {}
        """Changed groups, and the time of their first change since the last check, the earliest first."""

    def changed(self, keys: Iterable[PodGroupKey], now: float) -> None:
        """Check groups that may have lost their minimum."""
        for key in keys:
            if key.api != SINGLE_POD:  # with queues, each pod is a group, and has its minimum
                self._unchecked.setdefault(key, now)

    def attempted(self, key: PodGroupKey, now: float) -> None:
        """Check a group that may have its minimum again."""
        if key in self._broken:
            self._unchecked.setdefault(key, now)

    def next_wake(self) -> float | None:
        """Return the time of the next check or eviction; None if there is none."""
        due = [each.deadline for each in self._broken.values()]
        if self._unchecked:
            due.append(next(iter(self._unchecked.values())) + _CHECK_DELAY)
        return min(due, default=None)

    def evict(self, context: Context, now: float) -> list[Command]:
        """Return the commands that evict the groups with an expired grace period."""
        if self._unchecked and next(iter(self._unchecked.values())) + _CHECK_DELAY <= now:
            for key, changed in self._unchecked.items():
                self._check(context, key, changed)
            self._unchecked.clear()
        commands: list[Command] = []
        for key in [key for key, each in self._broken.items() if each.deadline <= now]:
            if (group := self._check(context, key, now)) is None:
                continue
            state, broken = context.groups[key], self._broken[key]
            if any(context.queue.nominator.nominated_node(pod) for pod in state.pods.values()):
                broken.deadline = now + _RETRY  # pods are being evicted to complete the group
            else:
                commands += _evict_members(group, [*state.pods.values()], context.groups.shortage(group, ()))
                broken.deadline = now + max(_RETRY, group.stale_grace_seconds or 0.0)
        return commands

    def _check(self, context: Context, key: PodGroupKey, now: float) -> PodGroup | None:
        """Start or end the grace period of a group. Return the group if it lacks its minimum."""
        groups = context.groups
        state = groups.get(key)
        group = groups.requirements(key) if state is not None and state.placed else None
        if (
            isinstance(group, PodGroup)
            and group.stale_grace_seconds is not None
            and groups.is_broken(group)
            and all(map(context.is_responsible_for, groups[key].pods.values()))
        ):
            broken = self._broken.setdefault(key, _Broken(now, now))
            broken.deadline = max(broken.deadline, broken.since + group.stale_grace_seconds)
            return group
        self._broken.pop(key, None)
        return None


def _evict_members(group: PodGroup, members: Iterable[Pod], short: str) -> list[Command]:
    """Return the commands that evict the members with a node."""
    why = f"it has had only {short} that it needs for {group.stale_grace_seconds:g} s"
    text = f"pod group {group.key} gives its room back: {why}"
    return [
        Evict(pod, pod, text, Record(EventType.NORMAL, "PodGroupIncomplete", "Evicting", text, pod))
        for pod in members
        if pod.node_name
    ]
