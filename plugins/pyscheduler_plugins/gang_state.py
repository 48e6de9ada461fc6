"""What the Gang plugin remembers between its calls: who holds a place, who did not fit, and how the last try ended.

Nothing here is written down anywhere else; after a restart the books start empty and bound members speak for
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyscheduler.api import NodeTable, Pod, PodSignature
from pyscheduler_plugins.pod_group import GroupKey

RETRY_DELAY = 10.0
"""Seconds for which a gang that did not fit is not tried again in an unchanged cluster; kube-scheduler's longest
backoff. A change that `FreeCapacity` cannot see, such as a taint that went, is waited for no longer than that."""

_FIRST_SWEEP = 64


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """How much room the cluster has for a gang, apart from what its waiting members hold: equal while nothing that
    matters has happened. Without it, the places that a gang gives back would wake that same gang, for ever."""

    resources: tuple[str, ...]
    amounts: tuple[int, ...]

    @staticmethod
    def measure(nodes: NodeTable, resources: Collection[str], held_by: Collection[Pod] = ()) -> FreeCapacity:
        """The room on `nodes`, with the places of `held_by` counted as free."""
        names = tuple(sorted(resources))
        slots = int((nodes.allowed_pods - nodes.pod_counts).sum()) + len(held_by)
        free = (
            int((nodes.allocatable(r) - nodes.requested(r)).sum())
            + sum(p.requests.effective.get(r, 0) for p in held_by)
            for r in names
        )
        return FreeCapacity(names, (nodes.total, slots, *free))

    def is_unchanged(self, nodes: NodeTable) -> bool:
        return FreeCapacity.measure(nodes, self.resources) == self


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A gang did not fit as a whole: when, who its members were, which had no place, and what the cluster was like."""

    at: float
    members: Mapping[str, PodSignature]
    unschedulable: frozenset[str]
    min_member: int
    room: FreeCapacity
    why: str

    def includes(self, pod: Pod) -> bool:
        """Return True if the pod is one of those that had no place."""
        return pod.uid in self.unschedulable

    def still_applies(self, pod: Pod, now: float, min_member: int, nodes: NodeTable) -> bool:
        """Whether trying the pod now could only end in the same way."""
        if self.members.get(pod.uid) is not pod.signature or min_member != self.min_member:
            return False
        return now < self.at + RETRY_DELAY and self.room.is_unchanged(nodes)


@dataclass(slots=True)
class GangState:
    """How far a gang has come, in UIDs of its members."""

    placed: dict[str, None] = field(default_factory=dict)
    """Reserved a node: waiting, or on their way to it. In the order in which they came, so that replay is exact."""
    unschedulable: set[str] = field(default_factory=set)
    """Found no node since the gang was last sent back."""
    rejected: set[str] = field(default_factory=set)
    """Told to give their place back, and have not yet."""
    deadlines: dict[str, float] = field(default_factory=dict)
    """Until when a member waits for the others, from when it began to."""
    preempting: dict[str, None] = field(default_factory=dict)
    """Could start if pods were evicted, and hold that room in memory."""
    evicting: set[str] = field(default_factory=set)
    """Those of `preempting` for which pods are being evicted, now that enough members can start."""
    lacks_resources: bool = False
    """The cluster has less free than minResources."""
    last_failure: FailedAttempt | None = None

    @property
    def held(self) -> dict[str, None]:
        """The members whose place the gang can count on."""
        return {uid: None for uid in self.placed if uid not in self.rejected}

    @property
    def in_progress(self) -> set[str]:
        """The members that are on their way to a node, or wait for room."""
        return {*self.placed, *self.preempting, *(self.last_failure.unschedulable if self.last_failure else ())}

    def place(self, uid: str) -> None:
        """A member has reserved a node."""
        self.placed[uid] = None
        self.unschedulable.discard(uid)
        self.rejected.discard(uid)
        self.stop_preempting(uid)
        self.last_failure, self.lacks_resources = None, False

    def displace(self, uid: str) -> None:
        """A member has given its node back."""
        self.placed.pop(uid, None)
        self.rejected.discard(uid)
        self.deadlines.pop(uid, None)

    def stop_preempting(self, uid: str) -> None:
        """A member needs no evictions, or none would help."""
        self.preempting.pop(uid, None)
        self.evicting.discard(uid)


class GangStates:
    """The progress of every gang. Gangs that are done are forgotten, in a sweep each time their number has doubled."""

    def __init__(self, is_done: Callable[[GroupKey, GangState], bool]) -> None:
        self._is_done = is_done
        self._progress: dict[GroupKey, GangState] = {}
        self._sweep_at = _FIRST_SWEEP

    def __len__(self) -> int:
        return len(self._progress)

    def find(self, group: GroupKey | None) -> GangState | None:
        """The progress of a gang, None if it has made none."""
        return self._progress.get(group) if group is not None else None

    def open(self, group: GroupKey) -> GangState:
        """The progress of a gang, begun if need be."""
        progress = self._progress.get(group)
        if progress is None:
            if len(self._progress) >= self._sweep_at:
                self._sweep()
            progress = self._progress[group] = GangState()
        return progress

    def _sweep(self) -> None:
        self._progress = {g: p for g, p in self._progress.items() if not self._is_done(g, p)}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._progress))
