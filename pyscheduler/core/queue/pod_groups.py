"""Pending members of pod groups. The other tiers hold their groups, each as one entry.

A group is in no other tier while pods of its minimum or its object are missing. Its members get a condition with the
reason after a while: most groups are complete within a second, and a write for each of their pods would double the load
of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroupKey
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.pod_groups import subgroups
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue.backoff import RetryBudget
from pyscheduler.core.queue.entry import PodTier, TierIndex
from pyscheduler.core.queue.queued_pod_group import MemberPods, QueuedPodGroup, pods_of
from pyscheduler.core.queue.unschedulable import HintGroup

REPORT_DELAY = 2.0
"""Seconds that a group is held before its members get a condition with the reason."""


class PodGroupMembers:
    """Pending members of all groups, by UID. In the index, members are in this tier and groups in others."""

    def __init__(self, index: TierIndex, manager: PodGroupManager, forget: Callable[[str], None]) -> None:
        """`forget` is called with the UID of the entry of a group that has no pending members any more."""
        self._index = index
        self._manager = manager
        self._forget = forget
        self._entry_of: dict[str, QueuedPodGroup] = {}
        self.entries: dict[PodGroupKey, QueuedPodGroup] = {}
        """Groups with pending members."""
        self._report_at: dict[PodGroupKey, float] = {}
        """Times at which the reasons of held groups are due to be reported, ascending."""
        self._retries = RetryBudget()

    def __len__(self) -> int:
        return len(self._entry_of)

    def add(self, queued: QueuedPod, key: PodGroupKey, now: float) -> QueuedPodGroup:
        """Add a pending member and return the entry of its group."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = QueuedPodGroup.of(key, queued, now)
        else:
            entry.add_member(queued)
        self._entry_of[queued.pod.uid] = entry
        self._index[queued.pod.uid] = self
        return entry

    def entry_of(self, uid: str) -> QueuedPodGroup | None:
        """Return the entry of a member's group; None for another pod."""
        return self._entry_of.get(uid)

    def key_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group with which a pod is attempted; a pod on its node is attempted alone, for its resize."""
        return None if pod.node_name else self._manager.key_of(pod)

    def has_other_group(self, pod: Pod, tier: PodTier) -> bool:
        """Return True if an update has moved a pod of this tier into a pod group, or out of it."""
        if isinstance(tier, HintGroup) and tier.is_gated:
            return False  # it is not in the group before its gates are removed
        entry = self.entry_of(pod.uid)
        return self.key_of(pod) != (None if entry is None else entry.key)

    def get(self, uid: str) -> QueuedPod:
        return self._entry_of[uid].members[uid]

    def replace(self, pod: Pod) -> None:
        """Replace a member by its new version."""
        self._entry_of[pod.uid].replace_pod(pod)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a member. Without any, the group leaves its tier."""
        entry = self._entry_of.pop(uid)
        del self._index[uid]
        queued = entry.remove_member(uid)
        if not entry.members:
            del self.entries[entry.key]
            self._forget(entry.pod.uid)
            tier = self._index.get(entry.pod.uid)
            if tier is not None:
                tier.remove(entry.pod.uid)
        return queued

    def take_regrouped(self, in_flight: Container[str]) -> list[QueuedPod]:
        """Remove and return the members that an object has moved to another group; those in an attempt later."""
        regrouped = []
        for uid in list(self._manager.regrouped):
            entry = self._entry_of.get(uid)
            if entry is not None and entry.pod.uid in in_flight:
                continue
            del self._manager.regrouped[uid]
            if entry is not None and self._manager.key_of(entry.members[uid].pod) != entry.key:
                regrouped.append(self.remove(uid))
        return regrouped

    def reason_to_wait(self, entry: QueuedPodGroup) -> str:
        """Return why the group cannot be scheduled yet; "" if it can, and the entry then has the group's priority."""
        reason = self._manager.reason_to_wait(entry.key, MemberPods(entry.members.values()))
        if not reason:
            self.rank(entry)
        return reason

    def rank(self, entry: QueuedPodGroup) -> None:
        """Give a group that is about to be queued its priority, and its place among the groups of that priority."""
        requirements = self._manager.requirements(entry.key)
        if not isinstance(requirements, Rejection):
            entry.set_requirements(requirements)
            if self._manager.is_broken(requirements):
                entry.timestamp = 0.0  # before all others: what has started is of no use without the rest

    def skips_backoff(self, queued: QueuedPod, now: float) -> bool:
        """Return True for a group with only a part of its minimum on nodes, or with reserved ones, if an event has made
        room.

        Pods that are not backing off would take the room. A group with an error backs off, and so does any above the
        budget: each of a thousand events a second might cost an attempt.
        """
        if not isinstance(queued, QueuedPodGroup) or queued.error_count:
            return False
        return (queued.is_incomplete or queued.is_head) and self._retries.take(len(pods_of(queued)), now)

    def restore_claim(self, queued: QueuedPod) -> None:
        """Give a group that may fit now a claim to its share again, so that others leave it that until its attempt."""
        if isinstance(queued, QueuedPodGroup):
            self._manager.usage.set_infeasible(queued.key, is_infeasible=False)

    def hold(self, entry: QueuedPodGroup, now: float) -> None:
        """Report the reason of a group that cannot be scheduled yet, if it still holds after a while."""
        self._report_at.setdefault(entry.key, now + REPORT_DELAY)

    @property
    def next_report(self) -> float | None:
        """Time of the next report, or None."""
        return next(iter(self._report_at.values()), None)

    def take_reports(self, now: float) -> list[tuple[Pod, str]]:
        """Return the members of groups that have been held long enough, with the reasons that they do not have yet."""
        reports: list[tuple[Pod, str]] = []
        while self._report_at and next(iter(self._report_at.values())) <= now:
            key = next(iter(self._report_at))
            del self._report_at[key]
            entry = self.entries.get(key)
            if entry is None or entry.pod.uid in self._index:
                continue
            self._manager.requirements(key)  # those that the members have declared by now
            reason = self.reason_to_wait(entry)
            if reason and (incomplete := self._incomplete_subgroup(entry)):
                reason += f", {incomplete}"
            reports += [(pod, reason) for pod in entry.pods if reason and entry.reported.get(pod.uid) != reason]
            entry.reported.update(dict.fromkeys(entry.members, reason))
        return reports

    def _incomplete_subgroup(self, entry: QueuedPodGroup) -> str:
        """Return what the first subgroup lacks that has too few pods; "" if that is not why the group waits."""
        group = self._manager.requirements(entry.key)
        if isinstance(group, Rejection) or not group.subgroups:
            return ""
        counts = self._manager.subgroup_keys(group).count((*entry.pods, *self._manager[entry.key].started))
        return subgroups.first_incomplete(group, counts) if subgroups.shortage(group, counts) else ""

    def waiting(self) -> Iterator[QueuedPodGroup]:
        """Return the groups that cannot be scheduled yet, or are in an attempt."""
        return (entry for entry in self.entries.values() if entry.pod.uid not in self._index)

    def drain(self) -> Iterator[QueuedPod]:
        """Remove and yield the members one by one; others may be removed in between."""
        for uid in list(self._entry_of):
            if uid in self._entry_of:
                yield self.remove(uid)
