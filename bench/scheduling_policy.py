"""The measuring process keeps out of the way of what it measures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyscheduler.shell.scheduling_policy import set_batch_scheduling_policy


@contextmanager
def batch_scheduling_policy() -> Iterator[None]:
    """Read what comes when a core is free, or when somebody's slice has ended: milliseconds later at most.

    Else each binding that is seen puts the API server aside, and most often for whoever binds fastest. To be left
    before a process is started: it would begin with the same policy.
    """
    changed = os.sched_getscheduler(0) == os.SCHED_OTHER and set_batch_scheduling_policy()
    try:
        yield
    finally:
        if changed:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
