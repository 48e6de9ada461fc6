"""Time-decayed usage: half-life, independence of samples."""

from __future__ import annotations

import pytest

from pyscheduler_plugins.queues.usage import DecayedUsage

HOUR = 3600.0


def test_usage_approaches_what_is_allocated_and_decays_by_half() -> None:
    usage = DecayedUsage(0.0).record(0.0, {"cpu": 8000}, HOUR)
    assert usage.average == {}
    usage = usage.advance(HOUR, HOUR)
    assert usage.average == {"cpu": 4000}
    usage = usage.record(2 * HOUR, {}, HOUR)
    assert usage.average == {"cpu": 6000}
    assert usage.advance(3 * HOUR, HOUR).average == {"cpu": 3000}
    assert usage.advance(1e12, HOUR).average == {}


def test_result_does_not_depend_on_the_number_of_samples() -> None:
    start = DecayedUsage(0.0).record(0.0, {"cpu": 1000, "nvidia.com/gpu": 3}, HOUR)
    stepwise = start
    for minute in range(1, 601):
        stepwise = stepwise.advance(minute * 60.0, HOUR)
    assert stepwise.average == pytest.approx(start.advance(600 * 60.0, HOUR).average)


def test_clock_that_was_set_back_changes_no_average() -> None:
    usage = DecayedUsage(100.0, {"cpu": 5.0}, {"cpu": 9}).advance(40.0, HOUR)
    assert usage == DecayedUsage(40.0, {"cpu": 5.0}, {"cpu": 9})


@pytest.mark.parametrize("half_life", [0.0, -1.0, float("nan")])
def test_half_life_is_positive(half_life: float) -> None:
    with pytest.raises(ValueError, match="half-life: Invalid value"):
        DecayedUsage(0.0).advance(1.0, half_life)


def test_dominant_share_of_the_average() -> None:
    usage = DecayedUsage(0.0, {"cpu": 4000.0, "nvidia.com/gpu": 3.0})
    assert usage.dominant_share({"cpu": 16_000, "nvidia.com/gpu": 4}) == 0.75
    assert usage.dominant_share({"cpu": 16_000}) == 1.0
    assert DecayedUsage(0.0).dominant_share({"cpu": 1}) == 0.0
