"""A pod with its history in the scheduling queue: what QueueSort orders by (kube-scheduler's QueuedPodInfo)."""

from __future__ import annotations

from dataclasses import dataclass

from pyscheduler.api.pod import Pod


@dataclass(slots=True, eq=False)
class QueuedPod:
    """All times are seconds on the scheduler's clock.

    `timestamp` is the last time the pod was added or put back, `initial_attempt` when it first became active.
    `unschedulable_count` and `error_count` drive the two backoffs; `rejectors` are the plugins whose events wake it.
    """

    pod: Pod
    timestamp: float
    attempts: int = 0
    last_attempt: float = 0.0
    """When the last attempt began."""
    initial_attempt: float | None = None
    unschedulable_count: int = 0
    error_count: int = 0
    backoff_expiry: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    flushed: bool = False
    """Whether the pod came back only because it had waited too long (the 5-minute flush)."""
    last_event_number: int = 0
    """The number of the last event that the pod was weighed against while it waited; the queue's own bookkeeping."""

    @property
    def rejectors(self) -> frozenset[str]:
        """Every plugin that rejected the pod in its last attempt."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins
