"""Weighted max-min shares: published examples, integers, limits of the inputs."""

from __future__ import annotations

import pytest

from pyscheduler_plugins.queues.max_min import Claim, fill, max_min


@pytest.mark.parametrize(
    ("capacity", "claims", "shares"),
    [
        pytest.param(11, [Claim(5, 11), Claim(5, 2), Claim(1, 0)], [9, 2, 0], id="what a queue does not request"),
        pytest.param(
            100_000,
            [Claim(1, 100_000), Claim(2, 30_000), Claim(1, 20_000), Claim(1, 40_000, guarantee=35_000)],
            [17_500, 30_000, 17_500, 35_000],
            id="a guarantee above the common level",
        ),
        pytest.param(
            60_000,
            [Claim(3, 25_000), Claim(2, 50_000), Claim(1, 5_000, guarantee=5_000)],
            [25_000, 30_000, 5_000],
            id="a capability below the common level",
        ),
        pytest.param(10, [Claim(1, 10), Claim(3, 10), Claim(4, 10)], [1, 4, 5], id="weights"),
        pytest.param(8, [Claim(1, 9), Claim(1, 9), Claim(1, 9)], [3, 3, 2], id="units that cannot be divided"),
        pytest.param(9, [Claim(1, 4), Claim(1, 3)], [4, 3], id="less requested than there is"),
        pytest.param(0, [Claim(1, 4, guarantee=2)], [0], id="no capacity"),
        pytest.param(5, [], [], id="no queue"),
    ],
)
def test_shares(capacity: int, claims: list[Claim], shares: list[int]) -> None:
    assert max_min(capacity, claims) == shares


@pytest.mark.parametrize(
    ("capacity", "shares"), [(10, [10, 0, 0]), (14, [12, 1, 1]), (100, [12, 5, 6])], ids=["none", "a rest", "plenty"]
)
def test_queues_without_weight_get_only_what_no_other_claims(capacity: int, shares: list[int]) -> None:
    assert max_min(capacity, [Claim(1, 12), Claim(0, 5), Claim(0, 6)]) == shares


def test_queues_without_weight_share_everything_among_themselves() -> None:
    assert max_min(10, [Claim(0, 8), Claim(0, 8)]) == [5, 5]


def test_guarantee_does_not_depend_on_the_weight() -> None:
    assert max_min(10, [Claim(1, 10), Claim(0, 5, guarantee=4)]) == [6, 4]


def test_guarantees_above_the_capacity_are_reduced_in_proportion() -> None:
    assert max_min(10, [Claim(9, 30, guarantee=5), Claim(1, 30, guarantee=15)]) == [3, 7]


def test_deserved_comes_before_weights_and_after_guarantees() -> None:
    claims = [Claim(1, 4, deserved=4), Claim(9, 20), Claim(9, 20, guarantee=6, deserved=6)]
    assert max_min(12, claims) == [4, 2, 6]
    assert max_min(8, claims) == [2, 0, 6]


def test_huge_and_tiny_weights_are_exact() -> None:
    assert max_min(10**15, [Claim(10**12, 10**15), Claim(1, 10**15)]) == [10**15 - 1000, 1000]
    assert max_min(1000, [Claim(1000, 2000), *[Claim(1, 10)] * 999])[0] == 500


def test_amounts_beyond_double_precision_are_exact() -> None:
    capacity = 2**62 + 1
    assert max_min(capacity, [Claim(1, 2**62), Claim(1, 2**62)]) == [2**61 + 1, 2**61]


def test_fill_leaves_shares_without_weight_at_their_least() -> None:
    assert fill(10, [0, 1], [3, 0], [9, 9]) == [3, 7]


def test_limits_of_many_queues_are_met_one_after_the_other() -> None:
    limits = list(range(1, 1001))
    shares = max_min(sum(limits) - 1, [Claim(1, limit) for limit in limits])
    assert shares == [*limits[:-1], 999]


def test_claim_at_its_limit_takes_no_unit_that_others_had_at_a_lower_capacity() -> None:
    claims = [Claim(1, 1), Claim(1, 1), Claim(1, 1), Claim(13, 8)]
    assert max_min(9, claims) == [1, 1, 1, 6]
    assert max_min(10, claims) == [1, 1, 1, 7]
