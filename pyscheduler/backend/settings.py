"""What a backend can be told beside its client, state and budget."""

from __future__ import annotations

import msgspec


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All times in seconds."""

    name: str = "tasks"
    """Which of several backends in a namespace: a label value. Two of one name would fight over the same pods."""
    scheduler: str = "pyscheduler"
    """The schedulerName of tasks that name none."""
    concurrency: int = 32
    """Calls under way at once that change pods. How many a second is up to the client."""
    poll_seconds: float = 60.0
    """How often all pods are listed beside the watch."""
    image_seconds: float = 120.0
    """How long an image or a container's configuration may be at fault before the attempt ends."""
    lost_seconds: float = 120.0
    """How long after the end of its grace period a pod that is being deleted may still be there before it is deleted by
    force. Its containers may go on running on a node that is cut off; who cannot bear that makes this very long."""
    kill_grace_seconds: int | None = None
    """What killed pods are given to stop; None: what their template says."""
    place_seconds: float = 5.0
    """How often the place in the watch is kept when nothing else is."""
    budget_seconds: float = 30.0
    """How often the budget is asked."""
