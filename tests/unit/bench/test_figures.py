"""Figures: medians, spreads and ratios within a round."""

from __future__ import annotations

import pytest

from bench.balance import Balance
from bench.burst import Burst
from bench.contender_run import ContenderRun
from bench.figures import MEASURES, Measure, Spread, ratio, summary
from tests.unit.bench.contender_runs import turn


def measure(key: str) -> Measure:
    """Return the measure of that key."""
    return next(m for m in MEASURES if m.key == key)


@pytest.mark.parametrize(
    ("key", "of", "expected"),
    [
        ("pods_per_second", turn(bound_in=0.5), 200.0),  # 101 pods have 100 intervals between them
        ("pods_per_second", turn(bound_in=0.0), None),
        ("pods_per_second_from_ready", turn(ready=0.5, last_bind=1.5), 101.0),
        ("pods_per_second_from_ready", turn(ready=2.5, last_bind=1.5), None),
        ("pods_per_second_if_free", turn(bound_in=0.5, burst=Burst(0.1, 0.2, 0.05, 0.05)), 200.0 * 4 / 3),
        ("pods_per_second_if_free", turn(burst=None), None),
        ("pods_per_second_if_free", turn(burst=Burst(0.1, 0.0, 0.0, 0.0)), None),
        ("burst_cpu_ms_per_pod", turn(burst=Burst(0.0505, 0.2, 0.05, 0.05)), 0.5),
        ("burst_etcd_ms_per_pod", turn(burst=None), None),
        ("events_per_second", turn(first_bind=1.0, last_event=3.0, events=100), 50.0),
        ("events_per_second", turn(last_event=None), None),
        ("cpu_ms_per_pod", turn(cpu=0.202), 2.0),
        ("peak_memory_mib", turn(peak_memory=3 * 2**20), 3.0),
        ("attempt_p99_ms", turn(attempt_p99=0.25), 250.0),
        ("attempt_p99_ms", turn(attempt_p99=None), None),
        ("pending_p99_ms", turn(pending_p99=1.5), 1500.0),
        ("last_event_seconds", turn(last_event=None), None),
        ("most_on_a_node", turn(balance=Balance(2, 7, 1.0, 0.0)), 7.0),
    ],
)
def test_measure_in_its_unit(key: str, of: ContenderRun, expected: float | None) -> None:
    assert measure(key).value(of) == (None if expected is None else pytest.approx(expected))


def test_keys_are_unique() -> None:
    assert len({m.key for m in MEASURES}) == len(MEASURES)


def test_figure_is_the_median_with_its_spread() -> None:
    turns = [turn(number=n, peak_memory=n * 2**20) for n in (3, 1, 2)]

    assert summary(turns, "ours", measure("peak_memory_mib")) == Spread(2.0, 1.0, 3.0)


def test_contender_without_the_measure_has_no_figure() -> None:
    assert summary([turn(attempt_p50=None)], "ours", measure("attempt_p50_ms")) is None
    assert summary([turn()], "theirs", measure("attempt_p50_ms")) is None


def test_ratio_is_taken_within_each_round() -> None:
    """The machine was ten times slower in the second round; that affects both, and not the ratio."""
    turns = [
        turn("ours", 1, cpu=1.0),
        turn("theirs", 2, cpu=40.0),
        turn("theirs", 1, cpu=4.0),
        turn("ours", 2, cpu=10.0),
    ]

    assert ratio(turns, "ours", "theirs", measure("cpu_ms_per_pod")) == Spread(0.25, 0.25, 0.25)


def test_rounds_without_one_contender_are_excluded_from_the_ratio() -> None:
    turns = [turn("ours", 1, cpu=1.0), turn("theirs", 1, cpu=2.0), turn("ours", 2, cpu=5.0)]

    assert ratio(turns, "ours", "theirs", measure("cpu_ms_per_pod")) == Spread(0.5, 0.5, 0.5)


def test_no_ratio_to_zero_or_of_measures_without_ratio() -> None:
    turns = [turn("ours"), turn("theirs", peak_memory=0)]

    assert ratio(turns, "ours", "theirs", measure("peak_memory_mib")) is None
    assert ratio(turns, "ours", "theirs", measure("nodes_used")) is None


def test_hypothetical_figure_is_compared_with_the_other_measure() -> None:
    turns = [turn("ours", bound_in=1.0, burst=Burst(1.0, 1.0, 0.0, 0.0)), turn("theirs", bound_in=4.0)]
    if_free, speed = measure("pods_per_second_if_free"), measure("pods_per_second")

    assert ratio(turns, "ours", "theirs", if_free, speed) == Spread(8.0, 8.0, 8.0)
    assert ratio(turns, "ours", "theirs", if_free) is None
