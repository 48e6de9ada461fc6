"""Tiers of the queue, and the debug view of a queued pod."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod


class Tier(enum.StrEnum):
    """Part of the queue that holds a pod; values as in the metric `scheduler_pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "inflight"
    """In a scheduling attempt; not one of kube-scheduler's queues."""


class PodTier(Protocol):
    """Pods of one tier; the methods are for pods that are in it."""

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod."""

    def replace(self, pod: Pod) -> None:
        """Replace the pod by its new version."""

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return the pod."""


TierIndex = dict[str, PodTier]
"""The tier of every pod in the queue by UID, updated by the tiers themselves."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One pod of a dump. Times are seconds; `until` is the end of its backoff, None if it is not in backoff."""

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
