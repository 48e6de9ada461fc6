"""CPU scheduling policy of the measuring process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyscheduler.shell.scheduling_policy import set_batch_scheduling_policy


@contextmanager
def batch_scheduling_policy() -> Iterator[None]:
    """Switch to SCHED_BATCH: wait for an idle core or the end of a time slice, milliseconds at most.

    Otherwise each observed binding preempts the API server, most often for the fastest contender. Leave the context
    before starting a process: it would inherit the policy.
    """
    changed = os.sched_getscheduler(0) == os.SCHED_OTHER and set_batch_scheduling_policy()
    try:
        yield
    finally:
        if changed:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
