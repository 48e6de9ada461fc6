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
    """Message of the condition PodScheduled if that is False and the pod has no scheduling gate."""
    gated: bool = False
    """True while scheduling gates keep schedulers from the pod."""
    gate_message: str = ""
    """Message of the condition PodScheduled of such a pod: what it waits for, such as the rest of its gang."""
    restarts: int = 0
    """Most restarts of one container."""
    containers: tuple[str, ...] = ()
    """Names of the task's own containers."""
    main_ended: bool = False
    """True if all containers of the task have ended for good; injected sidecars may still run."""
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


class PodTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times at which states of a pod were first observed, by the backend's clock; None if they were not.

    Durations are differences of these, so neither the clocks of other machines nor a restart end a task early.
    """

    observed: float
    tried: float | None = None
    """A scheduler had tried the pod and found no node."""
    accepted: float | None = None
    """The kubelet had accepted the pod."""
    bound: float | None = None
    running: float | None = None
    main_ended: float | None = None
    deleting: float | None = None
    stopped: float | None = None

    def after(self, pod: PodState, now: float) -> PodTimes:
        """Return the times after an observation of the pod; the given object if nothing is new."""
        states = {
            "tried": bool(pod.unschedulable),
            "accepted": pod.started_at is not None,
            "bound": bool(pod.node),
            "running": pod.phase == "Running",
            "main_ended": pod.main_ended,
            "deleting": pod.deleting,
            "stopped": pod.stopped,
        }
        new = {name: now for name, is_so in states.items() if is_so and getattr(self, name) is None}
        return msgspec.structs.replace(self, **new) if new else self


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
