"""Scheduling policy of the measuring process."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.scheduling_policy import batch_scheduling_policy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux scheduling policies")


def test_batch_policy_is_set_within_the_context_only() -> None:
    before = os.sched_getscheduler(0)
    with batch_scheduling_policy():
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_other_policies_are_not_changed() -> None:
    def policies() -> tuple[int, int]:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with batch_scheduling_policy():
            meanwhile = os.sched_getscheduler(0)
        return meanwhile, os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as thread:  # policies are per thread, so the test process is not affected
        assert thread.submit(policies).result() == (os.SCHED_IDLE, os.SCHED_IDLE)
