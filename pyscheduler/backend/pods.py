"""Pod states as the backend reads them, and the snapshots that sources report: plain values."""

from __future__ import annotations

import msgspec


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """Pod at one resourceVersion. Times are seconds since the epoch, None if unset."""

    name: str
    uid: str
    version: int
    """Pod's resourceVersion; resourceVersions of one kind are comparable as numbers (KEP-5504)."""
    task: str = ""
    """Task id from the pod's annotation, "" if it has none."""
    attempt: int = 0
    """Number of the attempt from the pod's annotation, 0 if it has none."""
    submission: str = ""
    """Submission from the pod's annotation, "" if it has none."""
    labelled: bool = True
    """False if the pod has lost the backend's label, so that lists and watches omit it."""
    phase: str = "Pending"
    """Pending, Running, Succeeded, Failed or Unknown."""
    node: str = ""
    has_finalizer: bool = False
    """True if the backend's finalizer is set."""
    deleting: bool = False
    grace: int = 0
    """Deletion grace period in seconds; 0 once the containers have stopped, or if the deletion is forced."""
    delete_at: float | None = None
    """End of the grace period."""
    reason: str = ""
    message: str = ""
    waiting: str = ""
    """Reason why a container waits (ErrImagePull, CrashLoopBackOff …)."""
    exit_code: int | None = None
    """Exit code of the first container with an error, of the first terminated one if there is none."""
    exit_reason: str = ""
    """OOMKilled, Error, Completed …"""
    disruption: str = ""
    """Reason of the condition DisruptionTarget."""
    unschedulable: str = ""
    """Message of the condition PodScheduled if that is False."""
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def terminal(self) -> bool:
        """True if the containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def stopped(self) -> bool:
        """True if no container runs any more: the pod is terminal, or deleted with its grace period over."""
        return self.terminal or (self.deleting and self.grace == 0)


class PodsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that a source has observed, or that are new to a subscriber."""

    pods: dict[str, PodState] = {}
    """By name."""
    deleted: dict[str, PodState] = {}
    """Last states of deleted pods, by uid; `version` is the resourceVersion of the deletion."""
    complete: bool = False
    """True if pods missing in the snapshot do not exist."""
    since: int | None = None
    """From a watch: start of the range; all changes from `since` to `resource_version` are included."""
    resource_version: int | None = None
    """resourceVersion up to which the snapshot is complete."""
