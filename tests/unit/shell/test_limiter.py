"""The token bucket of clientConnection.qps and burst."""

from __future__ import annotations

import sys

import pytest

from pyscheduler.shell.kube.limiter import Limiter

from .virtual import VirtualClock


@pytest.mark.parametrize(
    ("qps", "burst", "calls", "seconds"),
    [(10, 5, 5, 0.0), (10, 5, 25, 2.0), (-1, 1, 1000, 0.0), (0, 0, 150, 1.0)],
    ids=["within the burst", "beyond it", "no limit", "the default: 50 and 100"],
)
def test_calls_take_their_time(qps: float, burst: int, calls: int, seconds: float) -> None:
    clock = VirtualClock()
    limiter = Limiter(qps, burst, clock)
    for _ in range(calls):
        clock.at += limiter.take()
    assert clock.at - VirtualClock().at == pytest.approx(seconds)


def test_what_is_left_can_be_taken_without_waiting() -> None:
    clock = VirtualClock()
    limiter = Limiter(10, 5, clock)
    assert [limiter.left() for _ in range(3)] == [5, 5, 5], "to ask takes none"
    limiter.take()
    assert limiter.left() == 4
    for _ in range(9):
        limiter.take()
    assert limiter.left() == 0
    clock.at += 0.7
    assert limiter.left() == 2
    assert Limiter(-1, 0, clock).left() == sys.maxsize


def test_callers_at_the_same_moment_get_turns_one_after_the_other() -> None:
    clock = VirtualClock()
    limiter = Limiter(1, 1, clock)
    assert [limiter.take() for _ in range(4)] == pytest.approx([0, 1, 2, 3])
    clock.at += 100
    assert limiter.take() == 0
    assert limiter.take() > 0, "turns are saved up to the burst and no further"
