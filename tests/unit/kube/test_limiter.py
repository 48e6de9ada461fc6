"""Token bucket of clientConnection.qps and burst."""

from __future__ import annotations

import pytest

from pyscheduler.kube.limiter import Limiter
from tests.unit.kube.virtual import VirtualClock


@pytest.mark.parametrize(
    ("qps", "burst", "calls", "seconds"),
    [(10, 5, 5, 0.0), (10, 5, 25, 2.0), (0, 0, 150, 1.0)],
    ids=["within the burst", "beyond it", "the default: 50 and 100"],
)
def test_calls_are_limited_to_qps(qps: float, burst: int, calls: int, seconds: float) -> None:
    clock = VirtualClock()
    limiter = Limiter(qps, burst, clock)
    for _ in range(calls):
        clock.at += limiter.take()
    assert clock.at - VirtualClock().at == pytest.approx(seconds)


def test_left_is_the_number_of_calls_without_waiting() -> None:
    clock = VirtualClock()
    limiter = Limiter(10, 5, clock)
    assert [limiter.left() for _ in range(3)] == [5, 5, 5], "left takes no token"
    limiter.take()
    assert limiter.left() == 4
    for _ in range(9):
        limiter.take()
    assert limiter.left() == 0
    clock.at += 0.7
    assert limiter.left() == 2


def test_simultaneous_calls_get_consecutive_tokens() -> None:
    clock = VirtualClock()
    limiter = Limiter(1, 1, clock)
    assert [limiter.take() for _ in range(4)] == pytest.approx([0, 1, 2, 3])
    clock.at += 100
    assert limiter.take() == 0
    assert limiter.take() > 0, "tokens accumulate only up to the burst"
