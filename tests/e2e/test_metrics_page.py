"""Tests of the comparison itself."""

from __future__ import annotations

import pytest

from tests.e2e.metrics_page import differences, named, page

THEIRS = """
# HELP attempts_total Attempts.
# TYPE attempts_total counter
attempts_total{result="scheduled"} 3
# HELP pending Pods.
# TYPE pending gauge
pending{queue="active"} 1
# HELP seconds Seconds.
# TYPE seconds histogram
seconds_bucket{point="Bind",le="0.1"} 1
seconds_bucket{point="Bind",le="1"} 2
seconds_bucket{point="Bind",le="+Inf"} 2
seconds_sum{point="Bind"} 0.4
seconds_count{point="Bind"} 2
"""


def test_page_is_parsed() -> None:
    found = page(THEIRS)
    assert {name: family.type for name, family in found.items()} == {
        "attempts_total": "counter",
        "pending": "gauge",
        "seconds": "histogram",
    }
    assert found["seconds"].buckets == {("0.1", "1", "+Inf")}
    assert found["seconds"].label_values("point") == {"Bind"}
    assert found["pending"].values == (({"queue": "active"}, 1.0),)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param('result="scheduled"', 'result="error"', {}, id="values of labels may differ"),
        pytest.param("pending gauge", "pending counter", {}, id="another type is another name to a counter"),
        pytest.param('queue="', 'tier="', {"pending": "has labels ['tier'] instead of ['queue']"}, id="label"),
        pytest.param('{queue="active"}', "", {"pending": "has labels [] instead of ['queue']"}, id="no label"),
        pytest.param('pending{queue="active"} 1\n', "", {"pending": "has nothing to show"}, id="no series"),
        pytest.param("seconds histogram", "seconds gauge", {"seconds": "is a gauge instead of a histogram"}, id="type"),
    ],
)
def test_difference_is_reported(before: str, after: str, expected: dict[str, str]) -> None:
    assert differences(page(THEIRS), page(THEIRS.replace(before, after))) == expected


@pytest.mark.parametrize(("before", "after"), [('le="1"', 'le="1.0"'), ('le="0.1"', 'le="0.2"')])
def test_buckets_are_compared_literally(before: str, after: str) -> None:
    assert list(differences(page(THEIRS), page(THEIRS.replace(before, after)))) == ["seconds"]


def test_lists_may_contain_prefixes() -> None:
    assert named("go_threads", ["go_*"])
    assert not named("cargo_threads", ["go_*", "cargo"])
