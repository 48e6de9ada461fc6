"""CPU scheduling policy of the process."""

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
    """Set the default policy: threads inherit it from their creator, and tests of `run` change it."""
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    yield
    os.sched_setscheduler(0, before, os.sched_param(0))


def in_a_thread(act: Callable[[], T]) -> tuple[T, int]:
    """Return the result of `act` and the policy after it, in a thread, because the policy is per thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: (act(), os.sched_getscheduler(0))).result()


def test_batch_policy_is_set() -> None:
    assert in_a_thread(set_batch_scheduling_policy) == (True, os.SCHED_BATCH)


def test_non_default_policy_stays() -> None:
    def chosen() -> bool:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return set_batch_scheduling_policy()

    assert in_a_thread(chosen) == (False, os.SCHED_IDLE)


def test_policy_stays_when_setting_it_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    assert in_a_thread(set_batch_scheduling_policy) == (False, os.SCHED_OTHER)


def test_platform_without_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setscheduler")
    assert in_a_thread(set_batch_scheduling_policy) == (False, os.SCHED_OTHER)
