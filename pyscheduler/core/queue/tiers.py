"""All tiers of the queue, with lookup and removal of a pod in any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.active import ActiveQueue
from pyscheduler.core.queue.backoff import BackoffQueue
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.queue.unschedulable import UnschedulablePods


@dataclass(slots=True, eq=False)
class Tiers:
    """Tiers of the queue; a pod is in one of them.

    Pods in the `former` tiers wait for admission by new plugins after a reconfiguration, and count as active.
    """

    active: ActiveQueue
    backoff: BackoffQueue
    unschedulable: UnschedulablePods
    former: Tiers | None = None

    def __len__(self) -> int:
        former = 0 if self.former is None else len(self.former)
        return len(self.active) + len(self.backoff) + len(self.unschedulable) + former

    def __contains__(self, uid: str) -> bool:
        if uid in self.active or uid in self.unschedulable or uid in self.backoff:
            return True
        return self.former is not None and uid in self.former

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod, or None."""
        queued = self.active.get(uid) or self.unschedulable.get(uid) or self.backoff.get(uid)
        return queued if queued is not None or self.former is None else self.former.get(uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove and return the pod, or return None."""
        queued = self.active.remove(uid) or self.backoff.remove(uid) or self.unschedulable.remove(uid)
        return queued if queued is not None or self.former is None else self.former.remove(uid)

    def drain(self) -> Iterator[QueuedPod]:
        """Remove and yield the pods one by one; others may be removed in between."""
        if self.former is not None:
            yield from self.former.drain()
        for tier in (self.active, self.backoff):
            while (queued := tier.pop()) is not None:
                yield queued
        for waiting in (*self.unschedulable.rejected(), *self.unschedulable.gated()):
            if self.unschedulable.remove(waiting.pod.uid) is not None:
                yield waiting

    def __iter__(self) -> Iterator[tuple[Tier, QueuedPod]]:
        """Iterate over active pods in their order, then backoff, unschedulable, gated."""
        yield from ((Tier.ACTIVE, queued) for queued in self.active)
        if self.former is not None:
            yield from ((Tier.ACTIVE, queued) for _, queued in self.former)
        yield from ((Tier.BACKOFF, queued) for queued in self.backoff)
        for queued in self.unschedulable:
            yield (Tier.GATED if queued.gating_plugin else Tier.UNSCHEDULABLE), queued

    def counts(self) -> Mapping[str, int]:
        """Return the number of pods by tier, with the label values of `scheduler_pending_pods`."""
        return {
            Tier.ACTIVE.value: len(self.active) + (0 if self.former is None else len(self.former)),
            Tier.BACKOFF.value: len(self.backoff),
            Tier.UNSCHEDULABLE.value: self.unschedulable.rejected_count,
            Tier.GATED.value: self.unschedulable.gated_count,
        }
