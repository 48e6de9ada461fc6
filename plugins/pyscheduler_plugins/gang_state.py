"""State of the Gang plugin between calls: reserved members, unschedulable members, and the last failure.

The state is in memory only. After a restart it is empty, and bound members are counted from their pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from pyscheduler.api import NodeTable, Pod, PodSignature
from pyscheduler_plugins.pod_group import GroupKey

RETRY_DELAY = 10.0
"""Seconds for which a gang that did not fit is not retried in an unchanged cluster: kube-scheduler's maximum backoff.

Changes of nodes that `FreeResources` does not include, such as a removed taint, end it at once.
"""
ACTIVATION_PAUSE = 1.0
"""Seconds for which members do not activate others after a plugin has rejected one before Filter.

That may be because of those that wait: of members that share a claim, the first is having it allocated.
"""

_FIRST_SWEEP = 64


@dataclass(frozen=True, slots=True)
class FreeResources:
    """Free capacity of the cluster for a gang, including the reservations of its own waiting members.

    Equal values mean that a retry is useless. Otherwise the reservations that a gang releases would requeue it forever.
    """

    resources: tuple[str, ...]
    amounts: tuple[int, ...]

    @staticmethod
    def measure(nodes: NodeTable, resources: Collection[str], held_by: Collection[Pod] = ()) -> FreeResources:
        """Return the free capacity of `nodes`, with the reservations of `held_by` counted as free."""
        names = tuple(sorted(resources))
        slots = int((nodes.allowed_pods - nodes.pod_counts).sum()) + len(held_by)
        free = (
            int((nodes.allocatable(r) - nodes.requested(r)).sum())
            + sum(p.requests.effective.get(r, 0) for p in held_by)
            for r in names
        )
        return FreeResources(names, (nodes.total, slots, *free))

    def is_unchanged(self, nodes: NodeTable) -> bool:
        """Return True if `nodes` have this free capacity."""
        return FreeResources.measure(nodes, self.resources) == self


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Failed attempt to schedule a gang: time, members, members without a node, and the cluster's free capacity."""

    at: float
    members: Mapping[str, PodSignature]
    unschedulable: frozenset[str]
    min_member: int
    room: FreeResources
    why: str

    def includes(self, pod: Pod) -> bool:
        """Return True if the pod had no node in the attempt."""
        return pod.uid in self.unschedulable

    def still_applies(self, pod: Pod, now: float, min_member: int, nodes: NodeTable) -> bool:
        """Return True if scheduling the pod now would fail again."""
        if self.members.get(pod.uid) is not pod.signature or min_member != self.min_member:
            return False
        return now < self.at + RETRY_DELAY and self.room.is_unchanged(nodes)


@dataclass(slots=True)
class GangState:
    """Progress of a gang; members are given by UID."""

    placed: dict[str, int] = field(default_factory=dict)
    """Members with a reservation, waiting or binding, with its number, in the order of reservation."""
    unseen: dict[str, str] = field(default_factory=dict)
    """resourceVersions of members that released a reservation during which no other gang failed."""
    unschedulable: set[str] = field(default_factory=set)
    """Members without a feasible node since the gang was last rejected."""
    rejected: set[str] = field(default_factory=set)
    """Rejected members with a reservation that is not released yet."""
    deadlines: dict[str, float] = field(default_factory=dict)
    """Deadlines of waiting members, from their first wait."""
    preempting: dict[str, None] = field(default_factory=dict)
    """Members that need evictions and are nominated in memory."""
    evicting: set[str] = field(default_factory=set)
    """Subset of `preempting` for which pods are being evicted because enough members can start."""
    lacks_resources: bool = False
    """True if the cluster has less free than minResources."""
    has_gated_members: bool = False
    """True if members wait because other plugins gate too many of the rest in PreEnqueue."""
    last_failure: FailedAttempt | None = None
    released_at: float = -math.inf
    """Time at which waiting members were last rejected because a plugin rejected another one before Filter."""
    activates_at: float = math.inf
    """Time at which the waiting members activate the others; infinity if they have done so."""

    @property
    def held(self) -> dict[str, None]:
        """Members with a reservation, without rejected ones."""
        return {uid: None for uid in self.placed if uid not in self.rejected}

    @property
    def in_progress(self) -> set[str]:
        """Members that are reserved, preempting or unschedulable."""
        return {*self.placed, *self.preempting, *(self.last_failure.unschedulable if self.last_failure else ())}

    def needs_room(self, pod: Pod) -> bool:
        """Return True if room may help the pod: the unschedulable members of a gang activate the rest once reserved."""
        return self.lacks_resources or (self.last_failure is not None and self.last_failure.includes(pod))

    def expire_failure(self) -> None:
        """Let members be tried although the free capacity is that of the last failure."""
        if self.last_failure is not None:
            self.last_failure = replace(self.last_failure, at=-math.inf)

    def place(self, uid: str, number: int) -> None:
        """Record the reservation of a member."""
        self.placed[uid] = number
        self.unseen.pop(uid, None)
        self.unschedulable.discard(uid)
        self.rejected.discard(uid)
        self.stop_preempting(uid)
        self.last_failure, self.lacks_resources = None, False

    def displace(self, uid: str) -> None:
        """Record that a member released its reservation."""
        self.placed.pop(uid, None)
        self.rejected.discard(uid)
        self.deadlines.pop(uid, None)

    def stop_preempting(self, uid: str) -> None:
        """Record that a member needs no evictions, or that none would help."""
        self.preempting.pop(uid, None)
        self.evicting.discard(uid)


class GangStates:
    """State of all gangs. Completed gangs are removed whenever the number of gangs has doubled."""

    def __init__(self, is_done: Callable[[GroupKey, GangState], bool]) -> None:
        self._is_done = is_done
        self._number = 0
        """Number of the last reservation or failure."""
        self._failures: dict[GroupKey, int] = {}
        """Numbers of the last failures of the two gangs that failed last."""
        self._progress: dict[GroupKey, GangState] = {}
        self._sweep_at = _FIRST_SWEEP

    def __len__(self) -> int:
        return len(self._progress)

    def find(self, group: GroupKey | None) -> GangState | None:
        """Return the state of a gang, or None."""
        return self._progress.get(group) if group is not None else None

    def open(self, group: GroupKey) -> GangState:
        """Return the state of a gang, creating it if necessary."""
        progress = self._progress.get(group)
        if progress is None:
            if len(self._progress) >= self._sweep_at:
                self._sweep()
            progress = self._progress[group] = GangState()
        return progress

    def place(self, group: GroupKey, uid: str) -> None:
        """Record the reservation of a member."""
        self._number += 1
        self.open(group).place(uid, self._number)

    def fail(self, group: GroupKey) -> None:
        """Record that a member had no node, or was rejected for lack of room."""
        self._number += 1
        self._failures.pop(group, None)
        if len(self._failures) > 1:
            del self._failures[next(iter(self._failures))]
        self._failures[group] = self._number

    def displace(self, group: GroupKey, progress: GangState, pod: Pod) -> None:
        """Record that a member released its reservation.

        Gangs that failed before it was made lack the same room afterwards, so its end concerns none of them.
        """
        made = progress.placed[pod.uid]
        if all(failed < made for other, failed in self._failures.items() if other != group):
            progress.unseen[pod.uid] = pod.resource_version
        progress.displace(pod.uid)

    def _sweep(self) -> None:
        self._progress = {g: p for g, p in self._progress.items() if not self._is_done(g, p)}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._progress))
