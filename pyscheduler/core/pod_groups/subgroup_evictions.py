"""Eviction units of a pod group with subgroups.

The surplus are pods above the minimum of their subgroup, all pods of subgroups without their minimum, and whole
subgroups above the minimum of the group around them, the newest first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import DisruptionMode, PodGroup, PodGroupKey
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import subgroups


def surplus_units(context: Context, group: PodGroup, newest_first: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Return the surplus of a group that has its minimum, in units that are evicted together."""
    return [*_Surplus(context, group, newest_first).units(group)]


def may_lose(context: Context, group: PodGroup, victims: Set[str]) -> bool:
    """Return True if a group has its minimum without these pods, and its subgroups that keep pods theirs."""
    groups = context.groups
    keys, started = groups.subgroup_keys(group), groups[group.key].started
    rest = [pod for pod in started if pod.uid not in victims]
    before, after = keys.count(started), keys.count(rest)
    return (
        not groups.shortage_of(group, rest)
        and subgroups.keeps_subgroups(group, before, after)
        and all(
            subgroups.pods_in(each, after) in (0, subgroups.pods_in(each, before))
            for each in subgroups.walk(group)
            if each.disruption_mode is DisruptionMode.ALL
        )
    )


class _Surplus:
    def __init__(self, context: Context, group: PodGroup, newest_first: Sequence[Pod]) -> None:
        keys = context.groups.subgroup_keys(group)
        self._started = keys.count(context.groups[group.key].started)
        self._pods: dict[PodGroupKey, list[Pod]] = {}
        """Pods of each subgroup on nodes, without those in parts of it, the newest first."""
        for pod in newest_first:
            self._pods.setdefault(keys.key_of(pod), []).append(pod)
        self._spare = subgroups.pods_in(group, self._started) - group.min_count
        """Number of pods above the minimum of the whole group that no unit has yet."""
        self._taken: set[str] = set()
        """UIDs of the pods in units."""

    def units(self, group: PodGroup) -> Iterator[tuple[Pod, ...]]:
        """Yield the surplus of a group or subgroup that is needed itself."""
        if group.disruption_mode is DisruptionMode.ALL:
            return
        complete = [each for each in group.subgroups if subgroups.has_minimum(each, self._started)]
        for each in group.subgroups:
            if not subgroups.has_minimum(each, self._started):
                yield from self._of_incomplete(each)
        surplus = len(complete) - group.min_subgroups
        for each in sorted(complete, key=self._start, reverse=True):
            yield from self.units(each)
            whole = self._all_pods(each)
            if whole and surplus > 0 and (unit := self._take(whole)):
                surplus -= 1
                yield unit
        above = self._started[group.key] - (0 if group.subgroups else group.min_count)
        for pod in self._pods.get(group.key, ())[: max(0, above)]:
            if unit := self._take((pod,)):
                yield unit

    def _of_incomplete(self, group: PodGroup) -> Iterator[tuple[Pod, ...]]:
        pods = self._all_pods(group)
        parts = [pods] if group.disruption_mode is DisruptionMode.ALL else [(pod,) for pod in pods]
        for part in parts:
            if part and (unit := self._take(part)):
                yield unit

    def _take(self, pods: Collection[Pod]) -> tuple[Pod, ...]:
        """Return the pods as a unit; nothing if the whole group would lack pods without them."""
        new = [pod.uid for pod in pods if pod.uid not in self._taken]
        if len(new) > self._spare:
            return ()
        self._spare -= len(new)
        self._taken.update(new)
        return tuple(pods)

    def _all_pods(self, group: PodGroup) -> tuple[Pod, ...]:
        """Return the pods of a subgroup and of its parts, the newest first."""
        pods = [pod for each in subgroups.walk(group) for pod in self._pods.get(each.key, ())]
        return tuple(sorted(pods, key=lambda pod: -pod.started))

    def _start(self, group: PodGroup) -> float:
        """Return the start of the newest pod of a subgroup."""
        return max((pod.started for pod in self._all_pods(group)), default=0.0)
