"""DefaultNormalizeScore: integer scores from any range to 0..100."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import DefaultNormalizeScore


@pytest.mark.parametrize(
    ("raw", "expected", "reversed_scores"),
    [
        pytest.param([0, 0], [0, 0], [100, 100], id="all zero"),
        pytest.param([1, 2, 4], [25, 50, 100], [75, 50, 0], id="scaled"),
        pytest.param([1, 3], [33, 100], [67, 0], id="truncated before it is reversed"),
        pytest.param([7], [100], [0], id="one node"),
        pytest.param([10**15, 10**16], [10, 100], [90, 0], id="large numbers"),
    ],
)
def test_scores_are_scaled_to_the_maximum(raw: list[int], expected: list[int], reversed_scores: list[int]) -> None:
    scores = np.array(raw, np.int64)
    for normalizer, result in (
        (DefaultNormalizeScore(), expected),
        (DefaultNormalizeScore(reverse=True), reversed_scores),
    ):
        assert normalizer.rescale(scores, normalizer.span(scores)).tolist() == result


def test_single_nodes_can_be_rescaled_with_the_span_of_all() -> None:
    by_max = DefaultNormalizeScore()
    span = by_max.span(np.array([1, 2, 4], np.int64))
    assert by_max.rescale(np.array([2], np.int64), span).tolist() == [50]
