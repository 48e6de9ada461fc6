"""CPU scheduling policy of the process, which often shares its cores with the API server.

The kernel wakes a process that mostly waits as soon as data arrives, and preempts the process on that core. For a
scheduler this happens up to two thousand times a second: the API server, which does most of the work, would be
preempted by each of its own responses, and they would be handled one by one with cold caches.
"""

from __future__ import annotations

import os


def set_batch_scheduling_policy() -> bool:
    """Set SCHED_BATCH (sched(7)), under which a woken process preempts no other. Return True if it is in effect.

    The share of CPU time stays the same, and with idle cores nothing changes. It applies to this thread and those that
    it starts. A policy other than the default is not changed.
    """
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(0) == os.SCHED_BATCH
    except (AttributeError, OSError):
        return False  # not Linux, or a sandbox without scheduling policies
