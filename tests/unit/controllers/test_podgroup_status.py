"""A PodGroup's status follows from its pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.controllers import Member, member_of, podgroup_status
from pyscheduler.testing import pod

WAITS, BOUND = Member("Pending", False), Member("Pending", True)
RUNS, DONE, FAILED = Member("Running", True), Member("Succeeded", True), Member("Failed", True)
GOING = Member("Running", True, deleting=True)


def group(minimum: int = 2, **status: Any) -> dict[str, Any]:
    meta = {"name": "g", "namespace": "default", "generation": 3}
    return {"metadata": meta, "spec": {"minMember": minimum}, "status": status}


def scheduled(status: dict[str, Any]) -> tuple[str, str]:
    (condition,) = [c for c in status["conditions"] if c["type"] == "Scheduled"]
    return condition["status"], condition["reason"]


@pytest.mark.parametrize(
    ("members", "phase", "condition"),
    [
        pytest.param([], "Pending", ("False", "MembersMissing"), id="no pods"),
        pytest.param([WAITS], "Pending", ("False", "MembersMissing"), id="too few pods"),
        pytest.param([WAITS, WAITS], "Scheduling", ("False", "WaitingForNodes"), id="enough pods"),
        pytest.param([BOUND, WAITS], "Scheduling", ("False", "WaitingForNodes"), id="one has a node"),
        pytest.param([BOUND, BOUND], "Scheduling", ("True", "MinMemberScheduled"), id="all have a node"),
        pytest.param([RUNS, BOUND], "Scheduling", ("True", "MinMemberScheduled"), id="one runs"),
        pytest.param([RUNS, RUNS], "Running", ("True", "MinMemberScheduled"), id="all run"),
        pytest.param([RUNS, RUNS, WAITS], "Running", ("True", "MinMemberScheduled"), id="more than needed"),
        pytest.param([DONE, RUNS], "Running", ("True", "MinMemberScheduled"), id="one is done"),
        pytest.param([DONE, DONE], "Finished", ("True", "MinMemberScheduled"), id="all are done"),
        pytest.param([DONE, DONE, RUNS], "Running", ("True", "MinMemberScheduled"), id="a Job has more completions"),
        pytest.param([FAILED, RUNS], "Failed", ("False", "MembersMissing"), id="too few are left"),
        pytest.param([FAILED, RUNS, RUNS], "Running", ("True", "MinMemberScheduled"), id="enough are left"),
        pytest.param([FAILED, RUNS, WAITS], "Scheduling", ("False", "WaitingForNodes"), id="a new one has come"),
        pytest.param([GOING, RUNS], "Pending", ("False", "MembersMissing"), id="one is being deleted"),
    ],
)
def test_the_phase(members: list[Member], phase: str, condition: tuple[str, str]) -> None:
    status = podgroup_status(group(), members, 0.0)
    assert (status["phase"], scheduled(status)) == (phase, condition)


def test_the_counts() -> None:
    status = podgroup_status(group(), [WAITS, BOUND, RUNS, RUNS, DONE, FAILED, GOING], 0.0)
    assert [status[name] for name in ("scheduled", "running", "succeeded", "failed")] == [4, 2, 1, 1]


def test_a_finished_group_stays_finished_when_its_pods_are_cleaned_up() -> None:
    before = podgroup_status(group(), [DONE, DONE], 0.0)
    after = podgroup_status(group(**before), [], 60.0)
    assert (after["phase"], scheduled(after)) == ("Finished", ("True", "MinMemberScheduled"))


def test_a_finished_group_runs_again_when_another_pod_comes() -> None:
    before = podgroup_status(group(), [DONE, DONE], 0.0)
    after = podgroup_status(group(**before), [DONE, DONE, WAITS], 1.0)
    assert after["phase"] == "Running"
    assert podgroup_status(group(**after), [DONE, DONE, DONE], 2.0)["phase"] == "Finished"


def test_a_failed_group_may_come_back() -> None:
    before = podgroup_status(group(), [FAILED, RUNS], 0.0)
    assert podgroup_status(group(**before), [FAILED, RUNS, RUNS], 1.0)["phase"] == "Running"


def test_times_are_stamped_once() -> None:
    first = podgroup_status(group(), [WAITS, WAITS], 0.0)
    second = podgroup_status(group(**first), [BOUND, WAITS], 60.0)
    third = podgroup_status(group(**second), [BOUND, BOUND], 120.0)
    moved = [s["conditions"][0]["lastTransitionTime"][-6:] for s in (first, second, third)]
    assert moved == ["00:00Z", "00:00Z", "02:00Z"]
    assert third["scheduleStartTime"] == "1970-01-01T00:00:00Z"


def test_a_group_without_pods_has_not_started() -> None:
    assert "scheduleStartTime" not in podgroup_status(group(), [], 0.0)


def test_the_same_pods_give_the_same_status() -> None:
    first = podgroup_status(group(), [BOUND, RUNS], 0.0)
    assert podgroup_status(group(**first), [RUNS, BOUND], 60.0) == first


def test_conditions_of_others_are_kept() -> None:
    other = {"type": "Other", "status": "True"}
    assert other in podgroup_status(group(conditions=[other]), [], 0.0)["conditions"]


def test_what_counts_of_a_pod() -> None:
    assert member_of(pod("p").on("n").phase("Running").manifest) == RUNS
    assert member_of(pod("p").manifest) == Member("", False)
    assert member_of(pod("p").on("n").phase("Running").deleting().manifest) == GOING
