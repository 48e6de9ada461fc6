"""Contents of the scheduling queue, for readers: lookups, counts and the debug dump."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.entry import QueueEntry, Tier
from pyscheduler.core.queue.inflight import InFlight
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup, pods_of
from pyscheduler.core.queue.rejections import RejectionCounts
from pyscheduler.core.queue.tiers import Tiers


class QueueContents:
    """Pods in the tiers and in flight. Members of pod groups are listed, not their groups."""

    _tiers: Tiers

    def __init__(self) -> None:
        self._rejections = RejectionCounts()
        self._in_flight = InFlight()

    def __len__(self) -> int:
        return len(self._tiers)

    def __contains__(self, uid: str) -> bool:
        """Return True if the pod is in one of the tiers; a pod in flight is not."""
        previous = self._tiers.previous
        return uid in self._tiers.index or (previous is not None and uid in previous)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod if it is in one of the tiers, or None."""
        return self._tiers.get(uid)

    def group_stand_in(self, uid: str) -> Pod | None:
        """Return the pod with that UID that stands for a pod group, or None."""
        entries = self._tiers.members.entries.values()
        return next((entry.pod for entry in entries if entry.pod.uid == uid), None)

    @property
    def pod_groups(self) -> Collection[QueuedPodGroup]:
        """Pod groups with pending members, those that are held included."""
        return self._tiers.members.entries.values()

    def is_queued(self, group: QueuedPodGroup) -> bool:
        """Return True if the group has pending members and is neither held nor gated."""
        uid = group.pod.uid
        is_current = self._tiers.members.entries.get(group.key) is group
        return is_current and not group.gating_plugin and (uid in self._tiers.index or uid in self._in_flight.pods)

    def in_flight(self, uid: str) -> bool:
        """Return True if the pod has been popped and is not done."""
        return uid in self._in_flight.pods

    @property
    def in_flight_count(self) -> int:
        """Number of pods in flight."""
        return len(self._in_flight.pods)

    def pending(self) -> list[QueuedPod]:
        """Return all pods in the tiers: active ones in their order, then backoff, unschedulable, gated."""
        return [queued for _, queued in self._tiers]

    def pending_counts(self) -> Mapping[str, int]:
        """Return the number of pods by tier, with the label values of `scheduler_pending_pods`."""
        return self._tiers.counts()

    def rejected_by(self) -> Mapping[tuple[str, ...], int]:
        """Return the number of pods in all tiers by (plugin that rejected them last, scheduler name)."""
        return self._rejections.counts(excluded=self._in_flight.pods)

    def in_flight_counts(self) -> Mapping[str, int]:
        """Return the number of recorded events by label, and that of the pods in flight under `PodPopped`."""
        return self._in_flight.counts()

    def dump(self) -> list[QueueEntry]:
        """Return the debug view of every pod in the tiers and in flight."""
        return [QueueEntry.of(tier, queued) for tier, queued in self.known()]

    def known(self) -> Iterator[tuple[Tier, QueuedPod]]:
        """Iterate over the pods in the tiers and in flight; the queue must not change meanwhile."""
        yield from self._tiers
        yield from ((Tier.IN_FLIGHT, pod) for queued in self._in_flight for pod in pods_of(queued))
