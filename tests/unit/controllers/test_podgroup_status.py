"""Status of a PodGroup as a function of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.controllers.podgroup_status import Member, member_of, podgroup_status
from pyscheduler.testing import pod

PENDING, BOUND = Member("Pending", False), Member("Pending", True)
RUNNING, SUCCEEDED, FAILED = Member("Running", True), Member("Succeeded", True), Member("Failed", True)
TERMINATING = Member("Running", True, deleting=True)


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
        pytest.param([PENDING], "Pending", ("False", "MembersMissing"), id="too few pods"),
        pytest.param([PENDING, PENDING], "Scheduling", ("False", "WaitingForNodes"), id="enough pods"),
        pytest.param([BOUND, PENDING], "Scheduling", ("False", "WaitingForNodes"), id="one is bound"),
        pytest.param([BOUND, BOUND], "Scheduling", ("True", "MinMemberScheduled"), id="all are bound"),
        pytest.param([RUNNING, BOUND], "Scheduling", ("True", "MinMemberScheduled"), id="one runs"),
        pytest.param([RUNNING, RUNNING], "Running", ("True", "MinMemberScheduled"), id="all run"),
        pytest.param([RUNNING, RUNNING, PENDING], "Running", ("True", "MinMemberScheduled"), id="more than minMember"),
        pytest.param([SUCCEEDED, RUNNING], "Running", ("True", "MinMemberScheduled"), id="one succeeded"),
        pytest.param([SUCCEEDED, SUCCEEDED], "Finished", ("True", "MinMemberScheduled"), id="all succeeded"),
        pytest.param(
            [SUCCEEDED, SUCCEEDED, RUNNING], "Running", ("True", "MinMemberScheduled"), id="Job with more completions"
        ),
        pytest.param([FAILED, RUNNING], "Failed", ("False", "MembersMissing"), id="too few are left"),
        pytest.param([FAILED, RUNNING, RUNNING], "Running", ("True", "MinMemberScheduled"), id="enough are left"),
        pytest.param([FAILED, RUNNING, PENDING], "Scheduling", ("False", "WaitingForNodes"), id="replacement created"),
        pytest.param([TERMINATING, RUNNING], "Pending", ("False", "MembersMissing"), id="one is terminating"),
    ],
)
def test_phase_and_condition(members: list[Member], phase: str, condition: tuple[str, str]) -> None:
    status = podgroup_status(group(), members, 0.0)
    assert (status["phase"], scheduled(status)) == (phase, condition)


def test_member_counts() -> None:
    status = podgroup_status(group(), [PENDING, BOUND, RUNNING, RUNNING, SUCCEEDED, FAILED, TERMINATING], 0.0)
    assert [status[name] for name in ("scheduled", "running", "succeeded", "failed")] == [4, 2, 1, 1]


def test_finished_group_stays_finished_when_its_pods_are_deleted() -> None:
    before = podgroup_status(group(), [SUCCEEDED, SUCCEEDED], 0.0)
    after = podgroup_status(group(**before), [], 60.0)
    assert (after["phase"], scheduled(after)) == ("Finished", ("True", "MinMemberScheduled"))


def test_finished_group_is_running_when_a_pod_is_added() -> None:
    before = podgroup_status(group(), [SUCCEEDED, SUCCEEDED], 0.0)
    after = podgroup_status(group(**before), [SUCCEEDED, SUCCEEDED, PENDING], 1.0)
    assert after["phase"] == "Running"
    assert podgroup_status(group(**after), [SUCCEEDED, SUCCEEDED, SUCCEEDED], 2.0)["phase"] == "Finished"


def test_failed_group_is_running_when_pods_are_replaced() -> None:
    before = podgroup_status(group(), [FAILED, RUNNING], 0.0)
    assert podgroup_status(group(**before), [FAILED, RUNNING, RUNNING], 1.0)["phase"] == "Running"


def test_times_are_set_once() -> None:
    first = podgroup_status(group(), [PENDING, PENDING], 0.0)
    second = podgroup_status(group(**first), [BOUND, PENDING], 60.0)
    third = podgroup_status(group(**second), [BOUND, BOUND], 120.0)
    transitions = [s["conditions"][0]["lastTransitionTime"][-6:] for s in (first, second, third)]
    assert transitions == ["00:00Z", "00:00Z", "02:00Z"]
    assert third["scheduleStartTime"] == "1970-01-01T00:00:00Z"


def test_group_without_pods_has_no_start_time() -> None:
    assert "scheduleStartTime" not in podgroup_status(group(), [], 0.0)


def test_status_does_not_depend_on_the_order_of_pods() -> None:
    first = podgroup_status(group(), [BOUND, RUNNING], 0.0)
    assert podgroup_status(group(**first), [RUNNING, BOUND], 60.0) == first


def test_other_conditions_are_kept() -> None:
    other = {"type": "Other", "status": "True"}
    assert other in podgroup_status(group(conditions=[other]), [], 0.0)["conditions"]


def test_member_of_pod() -> None:
    assert member_of(pod("p").on("n").phase("Running").manifest) == RUNNING
    assert member_of(pod("p").manifest) == Member("", False)
    assert member_of(pod("p").on("n").phase("Running").deleting().manifest) == TERMINATING


@pytest.mark.parametrize(
    ("written", "members", "reason"),
    [
        pytest.param("False", [PENDING, PENDING], "Unschedulable", id="no room"),
        pytest.param("False", [PENDING], "MembersMissing", id="no room, then a pod was deleted"),
        pytest.param("False", [BOUND, BOUND], "MinMemberScheduled", id="bound since"),
        pytest.param("True", [BOUND, PENDING], "Unschedulable", id="the bindings have started"),
        pytest.param("True", [RUNNING], "MembersMissing", id="a pod was deleted since"),
    ],
)
def test_condition_of_the_scheduler_is_kept_until_the_pods_contradict_it(
    written: str, members: list[Member], reason: str
) -> None:
    condition = {"type": "Scheduled", "status": written, "reason": "Unschedulable", "message": "a1 lacks 1 cpu"}
    assert scheduled(podgroup_status(group(conditions=[condition]), members, 0.0))[1] == reason
