"""All tiers of the queue, with lookup and removal of a pod in any of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue.active_by_queue import ActiveByQueue
from pyscheduler.core.queue.backoff import BackoffQueue
from pyscheduler.core.queue.entry import Tier, TierIndex
from pyscheduler.core.queue.event_evaluator import EventEvaluator
from pyscheduler.core.queue.gates import Gates
from pyscheduler.core.queue.ordered import ActiveQueue
from pyscheduler.core.queue.pod_groups import PodGroupMembers
from pyscheduler.core.queue.profile import QueueProfile
from pyscheduler.core.queue.queued_pod_group import pods_of
from pyscheduler.core.queue.unschedulable import HintGroup, HintReaders, UnschedulablePods


class Tiers:
    """Tiers of the queue; a pod is in one of them.

    Pods in the `previous` tiers wait for admission by new plugins after a reconfiguration, and count as active.
    """

    def __init__(
        self,
        profile: QueueProfile,
        instrument: Instrument,
        events: EventEvaluator,
        gates: Gates,
        groups: PodGroupManager,
        in_flight: Container[str],
        previous: Tiers | None = None,
    ) -> None:
        self.index: TierIndex = {}
        """The tier of every pod, previous tiers excluded."""
        sort, index = profile.sort, self.index
        by_queue = profile.orders_queues
        self.active: ActiveQueue | ActiveByQueue = (
            ActiveByQueue(sort, instrument, index, groups) if by_queue else ActiveQueue(sort, instrument, index)
        )
        self.backoff = BackoffQueue(sort, instrument, index)
        readers = HintReaders(events.scope_of, events.objects_of, gates.gate_object)
        self.unschedulable = UnschedulablePods(self.index, readers)
        self.members = PodGroupMembers(self.index, groups, gates.forget)
        self._in_flight = in_flight
        self.previous = previous

    def __len__(self) -> int:
        count = len(self.index) + (0 if self.previous is None else len(self.previous))
        for entry in self.members.entries.values():
            if entry.pod.uid in self.index:
                count -= 1
            elif entry.pod.uid in self._in_flight:
                count -= len(entry.members)
        return count

    def __contains__(self, uid: str) -> bool:
        return uid in self.index or (self.previous is not None and uid in self.previous)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod, or None."""
        tier = self.index.get(uid)
        if tier is not None:
            return tier.get(uid)
        return None if self.previous is None else self.previous.get(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove and return the pod, or return None."""
        tier = self.index.get(uid)
        if tier is not None:
            return tier.remove(uid)
        return None if self.previous is None else self.previous.remove(uid)

    def drain(self) -> Iterator[QueuedPod]:
        """Remove and yield the pods one by one; others may be removed in between."""
        if self.previous is not None:
            yield from self.previous.drain()
        yield from self.members.drain()
        for tier in (self.active, self.backoff):
            while (queued := tier.pop()) is not None:
                yield queued
        for waiting in list(self.unschedulable):
            if self.unschedulable.discard(waiting):
                yield waiting

    def __iter__(self) -> Iterator[tuple[Tier, QueuedPod]]:
        """Iterate over active pods in their order, then backoff, unschedulable, gated; members instead of groups."""
        for tier, queued in self._entries():
            yield from ((tier, pod) for pod in pods_of(queued))

    def _entries(self) -> Iterator[tuple[Tier, QueuedPod]]:
        yield from ((Tier.ACTIVE, queued) for queued in self.active)
        if self.previous is not None:
            yield from ((Tier.ACTIVE, queued) for _, queued in self.previous)
        yield from ((Tier.BACKOFF, queued) for queued in self.backoff)
        for queued in self.unschedulable:
            yield (Tier.GATED if queued.gating_plugin else Tier.UNSCHEDULABLE), queued
        yield from ((Tier.GATED, entry) for entry in self.members.waiting() if entry.pod.uid not in self._in_flight)

    def counts(self) -> Mapping[str, int]:
        """Return the number of pods by tier, with the label values of `scheduler_pending_pods`."""
        backoff, rejected, gated = len(self.backoff), self.unschedulable.rejected, self.unschedulable.gated
        for entry in self.members.entries.values():
            tier, more = self.index.get(entry.pod.uid), len(entry.members) - 1
            if tier is None:
                gated += 0 if entry.pod.uid in self._in_flight else more + 1
            elif isinstance(tier, HintGroup):
                gated, rejected = (gated + more, rejected) if tier.is_gated else (gated, rejected + more)
            elif entry.pod.uid not in self.active.entries:
                backoff += more
        return {
            Tier.ACTIVE.value: len(self) - backoff - rejected - gated,
            Tier.BACKOFF.value: backoff,
            Tier.UNSCHEDULABLE.value: rejected,
            Tier.GATED.value: gated,
        }
