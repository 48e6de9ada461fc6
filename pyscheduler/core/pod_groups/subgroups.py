"""Subgroups of a pod group: which of them have their minimum, and what the group lacks.

A group is a tree. A subgroup is scheduled as a whole or not at all: it needs a number of pods, of subgroups of its own,
or both (children of a CompositePodGroup, Volcano's subGroupPolicy).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey

Counts = Mapping[PodGroupKey, int]
"""Number of pods in each subgroup, without those in parts of it."""


class SubgroupKeys:
    """Subgroup of each member of a group, as long as its requirements do not change."""

    __slots__ = ("_call", "_group", "_keys", "_known")

    def __init__(self, group: PodGroup, call: Callable[..., PodGroupKey | None]) -> None:
        """Create it; `call` calls a function of the plugin and returns None if it raises."""
        self._group, self._call = group, call
        self._known = {node.key for node in walk(group)}
        self._keys: dict[str, PodGroupKey] = {}

    def is_of(self, group: PodGroup) -> bool:
        """Return True if these are subgroups of this version of the requirements."""
        return self._group is group

    def key_of(self, pod: Pod) -> PodGroupKey:
        """Return the subgroup of a pod; the key of the whole group for a pod in no subgroup that exists."""
        key = self._keys.get(pod.uid)
        if key is None:
            found = None if self._group.subgroup_of is None else self._call(self._group.subgroup_of, pod)
            key = self._keys[pod.uid] = self._group.key if found is None or found not in self._known else found
        return key

    def count(self, pods: Iterable[Pod]) -> Counter[PodGroupKey]:
        """Return the number of these pods in each subgroup."""
        return Counter(map(self.key_of, pods))


def walk(group: PodGroup) -> Iterator[PodGroup]:
    """Return the group, its subgroups, and theirs."""
    yield group
    for subgroup in group.subgroups:
        yield from walk(subgroup)


def pods_in(group: PodGroup, counts: Counts) -> int:
    """Return the number of pods in a group or subgroup and all of its parts."""
    return counts.get(group.key, 0) + sum(pods_in(subgroup, counts) for subgroup in group.subgroups)


def has_minimum(group: PodGroup, counts: Counts) -> bool:
    """Return True if a group or subgroup has its minimum of pods and of subgroups with these pods."""
    if group.subgroups and complete_subgroups(group, counts) < group.min_subgroups:
        return False
    return pods_in(group, counts) >= group.min_count


def complete_subgroups(group: PodGroup, counts: Counts) -> int:
    """Return the number of direct subgroups that have their minimum."""
    return sum(has_minimum(subgroup, counts) for subgroup in group.subgroups)


def shortage(group: PodGroup, counts: Counts) -> str:
    """Return what the group lacks of its minimums of pods and subgroups, as text; "" if nothing."""
    complete = complete_subgroups(group, counts)
    if complete < group.min_subgroups:
        return f"{complete} of the {group.min_subgroups} groups"
    pods = pods_in(group, counts)
    return f"{pods} of the {group.min_count} pods" if pods < group.min_count else ""


def first_incomplete(group: PodGroup, counts: Counts) -> str:
    """Return what the first subgroup without its minimum lacks, as text; "" if all have it.

    Subgroups with some pods come before those without any.
    """
    incomplete = [subgroup for subgroup in group.subgroups if not has_minimum(subgroup, counts)]
    if not incomplete:
        return ""
    subgroup = next((each for each in incomplete if pods_in(each, counts)), incomplete[0])
    return first_incomplete(subgroup, counts) or f"{subgroup.key} has only {shortage(subgroup, counts)}"


def keeps_subgroups(group: PodGroup, before: Counts, after: Counts) -> bool:
    """Return True if no subgroup loses its minimum without losing all of its pods, given the pods before and after."""
    left = pods_in(group, after)
    if left == pods_in(group, before) or not left:
        return True
    if has_minimum(group, before) and not has_minimum(group, after):
        return False
    return all(keeps_subgroups(subgroup, before, after) for subgroup in group.subgroups)
