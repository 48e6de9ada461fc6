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
    budget_seconds: float = 30.0
    """Interval at which the budget is read."""
