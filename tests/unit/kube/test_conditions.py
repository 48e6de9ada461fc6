"""Merge of conditions that several writers share."""

from __future__ import annotations

from pyscheduler.kube.conditions import Json, merge_condition

OTHER = {"type": "Other", "status": "True"}
WANTED = {"type": "Ready", "status": "True", "reason": "A"}


def test_condition_is_added_beside_others() -> None:
    assert merge_condition([OTHER], WANTED, "now") == [OTHER, {**WANTED, "lastTransitionTime": "now"}]


def test_transition_time_is_preserved_if_only_the_reason_changes() -> None:
    before = {**WANTED, "reason": "B", "lastTransitionTime": "before"}
    assert merge_condition([before], WANTED, "now") == [{**WANTED, "lastTransitionTime": "before"}]


def test_transition_time_changes_with_the_status() -> None:
    before = {**WANTED, "status": "False", "lastTransitionTime": "before"}
    assert merge_condition([before], WANTED, "now") == [{**WANTED, "lastTransitionTime": "now"}]


def test_list_with_all_wanted_fields_is_unchanged() -> None:
    before: list[Json] = [{**WANTED, "lastTransitionTime": "before", "observedGeneration": 2}, OTHER]
    assert merge_condition(before, WANTED, "now") == before


def test_condition_without_transition_time_gets_one() -> None:
    assert merge_condition([{**WANTED, "reason": "B"}], WANTED, "now") == [{**WANTED, "lastTransitionTime": "now"}]
