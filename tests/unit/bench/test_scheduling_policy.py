"""How the measuring process lets others have the cores."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.scheduling_policy import batch_scheduling_policy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a policy")


def test_nobody_is_interrupted_until_it_is_over() -> None:
    before = os.sched_getscheduler(0)
    with batch_scheduling_policy():
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_a_policy_that_somebody_has_chosen_stays() -> None:
    def policies() -> tuple[int, int]:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with batch_scheduling_policy():
            meanwhile = os.sched_getscheduler(0)
        return meanwhile, os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as thread:  # each has its own: the suite keeps its
        assert thread.submit(policies).result() == (os.SCHED_IDLE, os.SCHED_IDLE)
