"""Percentiles of histogram buckets, equal to PromQL's."""

from __future__ import annotations

import pytest

from bench.histogram import quantile, read_buckets

INF = float("inf")
TEXT = """
# HELP attempt_seconds How long it took.
# TYPE attempt_seconds histogram
attempt_seconds_bucket{profile="a",result="scheduled",le="0.1"} 3
attempt_seconds_bucket{profile="a",result="scheduled",le="+Inf"} 5
attempt_seconds_sum{profile="a",result="scheduled"} 2.5
attempt_seconds_count{profile="a",result="scheduled"} 5
attempt_seconds_bucket{profile="b",result="scheduled",le="0.1"} 1
attempt_seconds_bucket{profile="b",result="scheduled",le="+Inf"} 1
attempt_seconds_bucket{profile="a",result="error",le="0.1"} 40
attempt_seconds_bucket{profile="a",result="error",le="+Inf"} 40
# TYPE attempt_seconds_too histogram
attempt_seconds_too_bucket{result="scheduled",le="0.1"} 70
attempt_seconds_too_bucket{result="scheduled",le="+Inf"} 70
"""


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        pytest.param({1.0: 10.0, 2.0: 10.0, INF: 10.0}, 0.5, 0.5, id="interpolated from zero to the first bound"),
        pytest.param({1.0: 5.0, 2.0: 15.0, INF: 20.0}, 0.5, 1.5, id="in the middle of a bucket"),
        pytest.param({1.0: 5.0, 2.0: 10.0, INF: 10.0}, 0.5, 1.0, id="on a bound"),
        pytest.param({1.0: 0.0, 2.0: 0.0, 4.0: 8.0, INF: 8.0}, 0.25, 2.5, id="empty buckets below"),
        pytest.param({1.0: 5.0, 2.0: 9.0, INF: 10.0}, 0.99, 2.0, id="beyond the last bound"),
        pytest.param({2.0: 15.0, INF: 20.0, 1.0: 5.0}, 0.5, 1.5, id="bounds in any order"),
    ],
)
def test_quantile_is_interpolated_within_its_bucket(buckets: dict[float, float], share: float, expected: float) -> None:
    assert quantile(buckets, share) == pytest.approx(expected)


@pytest.mark.parametrize("buckets", [{}, {1.0: 0.0, INF: 0.0}])
def test_no_quantile_without_observations(buckets: dict[float, float]) -> None:
    assert quantile(buckets, 0.5) is None


def test_buckets_are_added_up_over_other_labels() -> None:
    assert read_buckets(TEXT, "attempt_seconds", {"result": "scheduled"}) == {0.1: 4.0, INF: 6.0}


def test_missing_histogram_has_no_buckets() -> None:
    assert read_buckets(TEXT, "attempt", {}) == {}
