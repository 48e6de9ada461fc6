"""Percentages, index lists, conditions, and what a controller waits to see."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.client import PODS
from pyscheduler.embedded.workloads.actions import Patch, status_patch
from pyscheduler.embedded.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS, Expectations
from pyscheduler.embedded.workloads.int_or_percent import scale_int_or_percent
from pyscheduler.embedded.workloads.jobs.indexes import compress, expand
from pyscheduler.embedded.workloads.objects import with_condition
from tests.unit.workloads.builders import workload


@pytest.mark.parametrize(
    ("value", "up", "down"), [(3, 3, 3), ("25%", 3, 2), ("100%", 10, 10), ("0%", 0, 0), ("x", 0, 0), (-1, 0, 0)]
)
def test_a_share_of_ten(value: int | str, up: int, down: int) -> None:
    assert (scale_int_or_percent(value, 10, round_up=True), scale_int_or_percent(value, 10, round_up=False)) == (
        up,
        down,
    )


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([4], "4"), ([0, 1], "0,1"), ([2, 0, 1, 5], "0-2,5"), ([7, 7, 9], "7,9")]
)
def test_indexes_in_short(indexes: list[int], text: str) -> None:
    assert compress(indexes) == text


@pytest.mark.parametrize(
    ("text", "indexes"), [("", set()), ("1", {1}), ("0-2,4", {0, 1, 2, 4}), ("3-9", {3, 4}), ("x,2", {2}), ("7", set())]
)
def test_indexes_of_five_read_back(text: str, indexes: set[int]) -> None:
    assert expand(text, 5) == indexes


def test_a_condition_that_stays_keeps_its_time() -> None:
    first = with_condition([], "Ready", True, 0.0, reason="A")
    again = with_condition(first, "Ready", True, 60.0, reason="B")
    turned = with_condition(again, "Ready", False, 60.0, reason="B")
    assert [c[0]["lastTransitionTime"][-6:] for c in (first, again, turned)] == ["00:00Z", "00:00Z", "01:00Z"]


def test_other_conditions_stay() -> None:
    other = {"type": "Other", "status": "True"}
    assert other in with_condition([other], "Ready", True, 0.0)


def test_a_status_patch_names_only_what_changes() -> None:
    obj = workload("Job", "j", status={"active": 1, "ready": 0})
    (patch,) = status_patch(PODS, obj, {"active": 1, "ready": 2, "failed": None})
    assert isinstance(patch, Patch)
    assert patch.patch == {"status": {"ready": 2}}
    assert status_patch(PODS, obj, {"active": 1, "failed": None}) == []


def test_an_owner_waits_for_all_that_it_made() -> None:
    expected = Expectations()
    for uid in "ab":
        expected.expect("owner", uid, 0.0)
    expected.observe("a")
    assert not expected.is_satisfied("owner", 0.0)
    assert expected.observe("b") == "owner"
    assert expected.is_satisfied("owner", 0.0)


def test_it_does_not_wait_for_ever_nor_for_others() -> None:
    expected = Expectations()
    expected.expect("owner", "a", 0.0)
    assert expected.is_satisfied("other", 0.0)
    assert expected.observe("unknown") is None
    assert not expected.is_satisfied("owner", EXPECTATIONS_TIMEOUT_SECONDS - 1)
    assert expected.is_satisfied("owner", EXPECTATIONS_TIMEOUT_SECONDS)
