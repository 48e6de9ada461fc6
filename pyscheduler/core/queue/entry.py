"""What people see of a queued pod when they debug: where it is, and what it waits for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyscheduler.api.queued import QueuedPod


class Tier(enum.StrEnum):
    """Where a pending pod is, under the names of `scheduler_pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "inflight"
    """Being attempted; not one of kube-scheduler's queues."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One pod of a dump. Times are seconds; `until` is when its backoff ends, None where it is not in backoff."""

    tier: Tier
    pod: str
    uid: str
    priority: int
    attempts: int
    since: float
    until: float | None
    rejectors: tuple[str, ...]
    gating_plugin: str

    @staticmethod
    def of(tier: Tier, queued: QueuedPod) -> QueueEntry:
        return QueueEntry(
            tier=tier,
            pod=queued.pod.key,
            uid=queued.pod.uid,
            priority=queued.pod.priority,
            attempts=queued.attempts,
            since=queued.timestamp,
            until=queued.backoff_expiry + 1 if tier is Tier.BACKOFF else None,
            rejectors=tuple(sorted(queued.rejectors)),
            gating_plugin=queued.gating_plugin,
        )
