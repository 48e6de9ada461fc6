"""Requests of each group's pods, with a node and without one, for the Quota plugin."""

from __future__ import annotations

from collections import Counter

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroupKey


class GroupUsage:
    """Requests of one group."""

    __slots__ = ("allocated", "pending")

    def __init__(self) -> None:
        self.allocated = Counter[str]()
        """Sum over the pods that are assigned or assumed."""
        self.pending = Counter[str]()
        """Sum over the others."""


Usage = tuple[str, dict[str, int], dict[str, int]]
"""Queue, allocated and pending amounts of a group."""


class ReportedUsage:
    """Usage of all groups as the Quota plugin has it, and whether that has changed since it was compared last."""

    def __init__(self) -> None:
        self._now: dict[PodGroupKey, Usage] = {}
        self._before: dict[PodGroupKey, Usage | None] = {}
        """Usage at the last comparison of the groups for which it was reported since then."""

    def set(self, key: PodGroupKey, usage: Usage | None) -> None:
        """Record the usage of a group; None for a removed one."""
        old = self._now.get(key)
        self._before.setdefault(key, old)
        if usage is not None:
            self._now[key] = usage
        elif old is not None:
            del self._now[key]

    def take_changed(self) -> bool:
        """Return True if the usage is another one than at the last call; an attempt that was undone changes nothing."""
        changed = any(self._now.get(key) != before for key, before in self._before.items())
        self._before.clear()
        return changed


class UsageByGroup:
    """Requests of all groups, updated with each pod: a group may have thousands."""

    def __init__(self) -> None:
        self._groups: dict[PodGroupKey, GroupUsage] = {}
        self._stale: dict[PodGroupKey, None] = {}
        self.reserved: dict[PodGroupKey, Counter[str]] = {}
        """Requests of members that are nominated to nodes where pods are being evicted for them."""

    def reserve(self, key: PodGroupKey, requests: Counter[str] | None) -> None:
        """Count these pending requests of a group as allocated; None for none."""
        if requests:
            self.reserved[key] = requests
            self.touch(key)
        elif self.reserved.pop(key, None) is not None:
            self.touch(key)

    def add(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Add a pod of a group."""
        usage = self._groups.get(key)
        if usage is None:
            usage = self._groups[key] = GroupUsage()
        (usage.allocated if placed else usage.pending).update(pod.requests.effective)
        self._stale[key] = None

    def remove(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Remove a pod of a group."""
        usage = self._groups[key]
        (usage.allocated if placed else usage.pending).subtract(pod.requests.effective)
        self._stale[key] = None

    def move(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Count a pod as placed, or as pending again."""
        self.remove(key, pod, placed=not placed)
        self.add(key, pod, placed=placed)

    def touch(self, key: PodGroupKey) -> None:
        """Return the group from `take_stale` although its pods are the same."""
        if key in self._groups:
            self._stale[key] = None

    def drop(self, key: PodGroupKey) -> None:
        """Remove a group without pods."""
        self._groups.pop(key, None)
        self.reserved.pop(key, None)
        self._stale[key] = None

    def take_stale(self) -> list[tuple[PodGroupKey, GroupUsage | None]]:
        """Return the groups that have changed since the last call; None for removed ones."""
        if not self._stale:
            return []
        stale = [(key, self._groups.get(key)) for key in self._stale]
        self._stale.clear()
        return stale
