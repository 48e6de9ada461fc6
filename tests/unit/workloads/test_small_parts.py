"""Percentages, index lists, conditions, status patches and expectations."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.workloads.actions import Patch, status_patch
from pyscheduler.embedded.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS, Expectations
from pyscheduler.embedded.workloads.int_or_percent import scale_int_or_percent
from pyscheduler.embedded.workloads.jobs.indexes import compress, expand
from pyscheduler.embedded.workloads.objects import with_condition
from pyscheduler.kube.paths import PODS
from tests.unit.workloads.builders import workload


@pytest.mark.parametrize(
    ("value", "up", "down"), [(3, 3, 3), ("25%", 3, 2), ("100%", 10, 10), ("0%", 0, 0), ("x", 0, 0), (-1, 0, 0)]
)
def test_int_or_percent_of_ten(value: int | str, up: int, down: int) -> None:
    assert (scale_int_or_percent(value, 10, round_up=True), scale_int_or_percent(value, 10, round_up=False)) == (
        up,
        down,
    )


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([4], "4"), ([0, 1], "0,1"), ([2, 0, 1, 5], "0-2,5"), ([7, 7, 9], "7,9")]
)
def test_indexes_are_compressed(indexes: list[int], text: str) -> None:
    assert compress(indexes) == text


@pytest.mark.parametrize(
    ("text", "indexes"), [("", set()), ("1", {1}), ("0-2,4", {0, 1, 2, 4}), ("3-9", {3, 4}), ("x,2", {2}), ("7", set())]
)
def test_indexes_below_five_are_expanded(text: str, indexes: set[int]) -> None:
    assert expand(text, 5) == indexes


def test_transition_time_changes_only_with_the_status() -> None:
    first = with_condition([], "Ready", True, 0.0, reason="A")
    again = with_condition(first, "Ready", True, 60.0, reason="B")
    changed = with_condition(again, "Ready", False, 60.0, reason="B")
    assert [c[0]["lastTransitionTime"][-6:] for c in (first, again, changed)] == ["00:00Z", "00:00Z", "01:00Z"]


def test_other_conditions_are_preserved() -> None:
    other = {"type": "Other", "status": "True"}
    assert other in with_condition([other], "Ready", True, 0.0)


def test_status_patch_has_only_changed_fields() -> None:
    obj = workload("Job", "j", status={"active": 1, "ready": 0})
    (patch,) = status_patch(PODS, obj, {"active": 1, "ready": 2, "failed": None})
    assert isinstance(patch, Patch)
    assert patch.patch == {"status": {"ready": 2}}
    assert status_patch(PODS, obj, {"active": 1, "failed": None}) == []


def test_owner_waits_for_all_its_writes() -> None:
    expected = Expectations()
    for uid in "ab":
        expected.expect("owner", uid, 0.0)
    expected.observe("a")
    assert not expected.is_satisfied("owner", 0.0)
    assert expected.observe("b") == "owner"
    assert expected.is_satisfied("owner", 0.0)


def test_expectations_time_out_and_are_per_owner() -> None:
    expected = Expectations()
    expected.expect("owner", "a", 0.0)
    assert expected.is_satisfied("other", 0.0)
    assert expected.observe("unknown") is None
    assert not expected.is_satisfied("owner", EXPECTATIONS_TIMEOUT_SECONDS - 1)
    assert expected.is_satisfied("owner", EXPECTATIONS_TIMEOUT_SECONDS)
