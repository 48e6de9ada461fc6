"""The tiers of the queue together: which pods wait, and in which tier each does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.active import ActiveQueue
from pyscheduler.core.queue.backoff import BackoffQueue
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.queue.unschedulable import UnschedulablePods


@dataclass(frozen=True, slots=True)
class Tiers:
    """A pod is in one of them. Those in `former` are still to be admitted under other plugins, and count as active."""

    active: ActiveQueue
    backoff: BackoffQueue
    unschedulable: UnschedulablePods
    former: Mapping[str, QueuedPod]

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable) + len(self.former)

    def __contains__(self, uid: str) -> bool:
        return uid in self.active or uid in self.unschedulable or uid in self.backoff or uid in self.former

    def get(self, uid: str) -> QueuedPod | None:
        """The pod, or None."""
        tiers = self.active, self.unschedulable, self.backoff, self.former
        return next((queued for tier in tiers if (queued := tier.get(uid)) is not None), None)

    def __iter__(self) -> Iterator[tuple[Tier, QueuedPod]]:
        """Active pods in their order, then backoff, unschedulable, gated."""
        yield from ((Tier.ACTIVE, queued) for queued in chain(self.active, self.former.values()))
        yield from ((Tier.BACKOFF, queued) for queued in self.backoff)
        for queued in self.unschedulable:
            yield (Tier.GATED if queued.gating_plugin else Tier.UNSCHEDULABLE), queued

    def counts(self) -> Mapping[str, int]:
        """Pods by tier, under the names of `scheduler_pending_pods`."""
        return {
            Tier.ACTIVE.value: len(self.active) + len(self.former),
            Tier.BACKOFF.value: len(self.backoff),
            Tier.UNSCHEDULABLE.value: self.unschedulable.rejected_count,
            Tier.GATED.value: self.unschedulable.gated_count,
        }
