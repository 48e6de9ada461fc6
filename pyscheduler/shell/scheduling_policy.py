"""How the kernel shares the cores between us and whoever else is at work there, such as the API server.

A process that mostly waits is given a core as soon as something comes for it, and whoever has the core is put aside.
For a scheduler that may be two thousand times a second: the API server, which has most of the work, is put aside for
each of its own answers, and they are taken one by one, with cold caches.
"""

from __future__ import annotations

import os


def set_batch_scheduling_policy() -> bool:
    """Wait for a free core, or for a slice to end (SCHED_BATCH of sched(7)); whether the kernel has it so now.

    Our share of the cores stays the same, and where one is idle nothing changes. It holds for this thread and those
    that it starts. A policy that somebody has chosen for the process stays as it is.
    """
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(0) == os.SCHED_BATCH
    except (AttributeError, OSError):
        return False  # not Linux, or a sandbox that knows of no policies
