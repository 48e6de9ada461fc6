"""Entry of a pod group in the queue: one for all its pending pods (kube-scheduler's QueuedPodGroupInfo)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.queue.hints import ObjectKey
from pyscheduler.core.queue.rejections import shared
from pyscheduler.core.state.signatures import derived

_NO_KEY = PodGroupKey("", "")
_NEVER = "~"
"""Creation time of a pod without one, after all others."""


def title_of(key: PodGroupKey, member: Pod) -> str:
    """Return a text for messages: `pod group default/a`, or `pod default/a` for a pod without a group."""
    return f"pod {member.key}" if key.api == SINGLE_POD else f"pod group {key}"


@dataclass(slots=True, eq=False)
class QueuedPodGroup(QueuedPod):
    """A pod group with its history in the queue.

    `pod` stands for the group in QueueSort and PreEnqueue: it has the spec of a member, the group's priority and a UID
    that no pod has.
    """

    key: PodGroupKey = _NO_KEY
    members: dict[str, QueuedPod] = field(default_factory=dict)
    """Pending members by UID, in the order in which they came."""
    reported: dict[str, str] = field(default_factory=dict)
    """Last reported reason why a member is pending, by UID."""
    is_delayed: bool = False
    """True if the last attempt failed because the group would delay the one for which nodes are reserved."""
    lacks_room: bool = False
    """True if the last attempt failed for lack of room, so that nodes may be reserved for the group."""
    is_head: bool = False
    """True if nodes are reserved for the group."""
    has_turn: bool = False
    """True if the last attempt failed, but groups within the shares of other queues do not delay the group."""
    waits_for_turn: bool = False
    """True if the group is above the share of its queue and no nodes are reserved for it before its turn."""
    share: float = 0.0
    """Key by which a Quota plugin orders the groups of a queue, computed when the group became ready last."""
    arrival: int = field(default_factory=count().__next__)
    """Number of the entry in the order in which they came."""
    insufficient: tuple[tuple[str, int], ...] = ()
    """What each member requests at least of the resources that were insufficient in the last attempt."""
    users: dict[ObjectKey, list[Pod]] | None = None
    """Pending members that use an object to which events are narrowed; None if that has to be determined."""
    _lowest: Pod | None = None
    """First pending member of the lowest priority; None if it has to be searched."""
    _created: str | None = None
    """First creation time of the members; None if it has not been read."""

    @staticmethod
    def of(key: PodGroupKey, first: QueuedPod, now: float) -> QueuedPodGroup:
        """Return the entry of a group with its first pending member."""
        uid = f"podgroup/{key.api}/{key.namespace}/{key.name}"
        entry = QueuedPodGroup(_stand_in(uid, key, first.pod, None), now, key=key)
        entry.members[first.pod.uid] = first
        return entry

    def add_member(self, queued: QueuedPod) -> None:
        """Add a pending member."""
        self.members[queued.pod.uid] = queued
        self.insufficient, self.users = (), None
        if self._lowest is not None and queued.pod.priority < self._lowest.priority:
            self._lowest = queued.pod
        if self._created is not None:
            self._created = min(self._created, queued.pod.created or _NEVER)

    def inherit_history(self, queued: QueuedPod) -> None:
        """Let the group count as rejected by what rejected a new member, and back off as long."""
        if queued.unschedulable_plugins or queued.pending_plugins:
            self.unschedulable_plugins = shared(self.unschedulable_plugins | queued.unschedulable_plugins)
            self.pending_plugins = shared(self.pending_plugins | queued.pending_plugins)
        if queued.backoff_expiry > self.backoff_expiry:
            self.backoff_expiry = queued.backoff_expiry
        if queued.unschedulable_count > self.unschedulable_count:
            self.unschedulable_count = queued.unschedulable_count
        if queued.error_count > self.error_count:
            self.error_count = queued.error_count

    def remove_member(self, uid: str) -> QueuedPod:
        """Remove and return a pending member."""
        if self._lowest is not None and self._lowest.uid == uid:
            self._lowest = None
        removed, self.users = self.members.pop(uid), None
        if self._created == (removed.pod.created or _NEVER):
            self._created = None
        return removed

    def replace_pod(self, pod: Pod) -> None:
        """Replace the pod of a member by its new version."""
        self.members[pod.uid].pod = pod
        self._lowest, self.insufficient, self.users = None, (), None

    def set_requirements(self, group: PodGroup) -> None:
        """Give the entry the priority of the group: its own, or the least of its pending members'."""
        lowest = self._lowest
        if lowest is None:
            # Thousands of members come one by one, so this must not be done for each.
            pods = [queued.pod for queued in self.members.values()]
            lowest = self._lowest = pods[0] if len(pods) == 1 else min(pods, key=lambda pod: pod.priority)
        priority = lowest.priority if group.priority is None else group.priority
        if self.pod.signature.priority != priority or self.pod.scheduler_name != lowest.scheduler_name:
            self.pod = _stand_in(self.pod.uid, self.key, lowest, priority)

    @property
    def order(self) -> tuple[int, float, str, int]:
        """Sort key of groups: incomplete ones are first in their priority, then those of the least share, oldest first.

        The age is that of the oldest pending pod. Neither failures nor a restart change it. Creation times are sorted
        as text: API servers write UTC.
        """
        if self._created is None:
            self._created = min((queued.pod.created or _NEVER for queued in self.members.values()), default=_NEVER)
        return -self.pod.priority, *((-1.0, "") if self.is_incomplete else (self.share, self._created)), self.arrival

    @property
    def is_incomplete(self) -> bool:
        """True if some pods of the group have a node, but fewer than it needs."""
        return self.timestamp == 0.0

    @property
    def title(self) -> str:
        """Text for messages, see `title_of`."""
        return title_of(self.key, next(iter(self.members.values())).pod)

    @property
    def pods(self) -> list[Pod]:
        """Pending members."""
        return [queued.pod for queued in self.members.values()]

    def templates(self) -> Iterator[Pod]:
        """Return a pending member for each distinct signature: for these, hints return what they do for all."""
        yield from {queued.pod.signature: queued.pod for queued in self.members.values()}.values()


class MemberPods(Collection[Pod]):
    """Pods of members, without a copy."""

    def __init__(self, members: Collection[QueuedPod]) -> None:
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Pod]:
        return (queued.pod for queued in self._members)

    def __contains__(self, pod: object) -> bool:
        return any(queued.pod is pod for queued in self._members)


def _stand_in(uid: str, key: PodGroupKey, member: Pod, priority: int | None) -> Pod:
    signature = member.signature
    if priority is not None and priority != member.priority:
        signature = derived(signature, priority=priority)
    return Pod(uid, key.name, signature)


def pods_of(queued: QueuedPod) -> tuple[QueuedPod, ...]:
    """Return the pods that an entry of the queue stands for: the members of a group, or the pod itself."""
    return tuple(queued.members.values()) if isinstance(queued, QueuedPodGroup) else (queued,)
