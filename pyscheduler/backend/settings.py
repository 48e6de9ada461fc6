"""Settings of a task backend."""

from __future__ import annotations

import msgspec


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a task backend; all times in seconds."""

    name: str = "tasks"
    """Name of the backend, unique in its namespace and a valid label value: it selects the backend's pods."""
    scheduler: str = "pyscheduler"
    """Default schedulerName of tasks."""
    concurrency: int = 32
    """Concurrent API calls that change pods. The client limits calls per second."""
    poll_seconds: float = 60.0
    """Interval of full pod lists in addition to the watch."""
    scheduler_seconds: float = 30.0
    """Time until a pod that no scheduler has tried is reported as NoScheduler."""
    crash_restarts: int | None = 5
    """Restarts after which a container in CrashLoopBackOff ends the attempt; None: never."""
    sidecar_seconds: float = 30.0
    """Time that injected sidecars may run after the task's own containers have ended."""
    keep_failed_seconds: float = 0.0
    """Time that failed pods are kept, for their logs and `kubectl describe`. Their tasks settle later."""
    image_seconds: float = 120.0
    """Time that image or container configuration errors may last before the attempt ends."""
    lost_seconds: float = 120.0
    """Time after the grace period until a pod that is still being deleted is deleted by force. Its containers may keep
    running on a partitioned node; set this very high if they must never run twice."""
    finalizer: bool = True
    """False creates pods without the backend's finalizer, so that namespaces can be deleted while no backend runs. The
    end of a pod that is deleted at such a time is not observed: its attempt ends as Gone and is retried."""
    kill_grace_seconds: int | None = None
    """Grace period of killed pods; None: that of their template."""
    place_seconds: float = 5.0
    """Interval at which the watch's resourceVersion is saved when nothing else is."""
    ttl_seconds_after_finished: float | None = None
    """Time after which the record of a settled task is forgotten, if the owner has received its end; None: never."""
    backfill_seconds: float = 300.0
    """Time that smaller tasks may pass a waiting one that does not fit yet; 0: strict order."""
    update_concurrency: int = 8
    """Tasks whose updates are delivered at the same time; 1: one call of on_update at a time."""
    slow_update_seconds: float = 30.0
    """Time after which a call of on_update that has not returned is reported as a problem."""
    blocked_seconds: float = 5.0
    """Time after which code that blocks the event loop is reported."""
    hook_attempts: int = 5
    """Calls of a log store for a pod until the pod is deleted although storing its logs failed."""
    hook_seconds: float = 60.0
    """Time limit of one call of a log store."""
    budget_seconds: float = 30.0
    """Interval at which the budget is read."""
