"""Timestamps in the Kubernetes API's formats."""

from __future__ import annotations

import pytest

from pyscheduler.clock import SystemClock, rfc3339, rfc3339_micro


@pytest.mark.parametrize(
    ("wall", "time", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1_800_000_000.25, "2027-01-15T08:00:00Z", "2027-01-15T08:00:00.250000Z"),
        (1_799_999_999.9999996, "2027-01-15T07:59:59Z", "2027-01-15T08:00:00.000000Z"),
    ],
)
def test_timestamps(wall: float, time: str, micro: str) -> None:
    assert (rfc3339(wall), rfc3339_micro(wall)) == (time, micro)


async def test_the_system_clock_runs_forward() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0.001)
    assert clock.now() > before
    assert clock.wall() > 1.7e9
