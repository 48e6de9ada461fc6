"""Whom the scheduler puts aside when something comes for it: nobody, unless somebody has decided otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from pyscheduler.shell.scheduling_policy import set_batch_scheduling_policy

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has policies to choose from")
T = TypeVar("T")


@pytest.fixture(autouse=True)
def as_started() -> Iterator[None]:
    """As a process begins: threads have the policy of whoever starts them, and stories of `run` change that."""
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    yield
    os.sched_setscheduler(0, before, os.sched_param(0))


def in_a_thread(act: Callable[[], T]) -> tuple[T, int]:
    """What it answers, and the policy after it: each thread has its own, so that the suite keeps its."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: (act(), os.sched_getscheduler(0))).result()


def test_whoever_is_at_work_is_not_interrupted() -> None:
    assert in_a_thread(set_batch_scheduling_policy) == (True, os.SCHED_BATCH)


def test_a_policy_that_somebody_has_chosen_stays() -> None:
    def chosen() -> bool:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return set_batch_scheduling_policy()

    assert in_a_thread(chosen) == (False, os.SCHED_IDLE)


def test_a_sandbox_that_forbids_it_leaves_all_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    assert in_a_thread(set_batch_scheduling_policy) == (False, os.SCHED_OTHER)


def test_a_platform_without_policies_is_none_the_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setscheduler")
    assert in_a_thread(set_batch_scheduling_policy) == (False, os.SCHED_OTHER)
