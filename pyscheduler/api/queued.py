"""Pod in the scheduling queue with its history, for QueueSort (kube-scheduler's QueuedPodInfo)."""

from __future__ import annotations

from dataclasses import dataclass

from pyscheduler.api.pod import Pod


@dataclass(slots=True, eq=False)
class QueuedPod:
    """Pod with its history in the queue. All times are in seconds on the scheduler's clock.

    `timestamp` is the time when the pod was last queued, `initial_attempt` the time when it first became active.
    `unschedulable_count` and `error_count` determine the backoffs.
    """

    pod: Pod
    timestamp: float
    attempts: int = 0
    last_attempt: float = 0.0
    """Start of the last attempt."""
    initial_attempt: float | None = None
    unschedulable_count: int = 0
    error_count: int = 0
    backoff_expiry: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    flushed: bool = False
    """True if the pod was requeued by the 5-minute flush of unschedulable pods, not by an event."""
    last_flush: float = 0.0
    """Time of the last such flush, which may have left the pod gated; 0 if there was none."""
    last_event_number: int = 0
    """Number of the last event that was evaluated for the pod while it was pending. Used by the queue only."""

    @property
    def rejectors(self) -> frozenset[str]:
        """Names of the plugins that rejected the pod in its last attempt; their events requeue it."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins
