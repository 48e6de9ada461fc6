"""Statuses of Volcano's PodGroups and Queues as functions of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.controllers.status_writer import status_patch
from pyscheduler.controllers.volcano.pod_group_status import pod_group_status
from pyscheduler.controllers.volcano.pods import PodRecord
from pyscheduler.controllers.volcano.queue_status import is_open, queue_status

WAITING = PodRecord("ns", "w")
BOUND = PodRecord("ns", "b", is_bound=True, requests={"cpu": 1500, "memory": 2**30})
RUNNING = BOUND._replace(phase="Running")
TERMINATING = RUNNING._replace(is_deleting=True)
SUCCEEDED, FAILED = BOUND._replace(phase="Succeeded"), BOUND._replace(phase="Failed")
UNSCHEDULABLE = {"type": "Unschedulable", "status": "True"}


def group(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": {"minMember": 2}, "status": status}


@pytest.mark.parametrize(
    ("before", "pods", "phase"),
    [
        pytest.param({}, [], "Inqueue", id="no pods"),
        pytest.param({}, [WAITING, WAITING], "Inqueue", id="waiting"),
        pytest.param({}, [BOUND, WAITING], "Inqueue", id="too few are bound"),
        pytest.param({}, [BOUND, BOUND], "Running", id="bound"),
        pytest.param({}, [RUNNING, TERMINATING], "Running", id="one terminates on its node"),
        pytest.param({}, [SUCCEEDED, RUNNING], "Running", id="one succeeded"),
        pytest.param({}, [SUCCEEDED, FAILED], "Completed", id="all have finished"),
        pytest.param({}, [SUCCEEDED, FAILED, WAITING], "Running", id="surplus waits"),
        pytest.param({"phase": "Completed"}, [], "Completed", id="pods were deleted"),
        pytest.param({"phase": "Running"}, [RUNNING, WAITING], "Inqueue", id="one was replaced"),
        pytest.param(
            {"phase": "Running", "conditions": [UNSCHEDULABLE]}, [RUNNING, WAITING], "Unknown", id="one was lost"
        ),
        pytest.param(
            {"phase": "Unknown", "conditions": [UNSCHEDULABLE]}, [RUNNING, WAITING], "Unknown", id="still one lost"
        ),
        pytest.param({"phase": "Inqueue", "conditions": [UNSCHEDULABLE]}, [RUNNING, WAITING], "Inqueue", id="starting"),
        pytest.param({"phase": "Running", "conditions": [UNSCHEDULABLE]}, [WAITING], "Inqueue", id="all were lost"),
    ],
)
def test_phase_of_a_pod_group(before: dict[str, Any], pods: list[PodRecord], phase: str) -> None:
    assert pod_group_status(group(**before), pods, queue_is_open=True)["phase"] == phase


@pytest.mark.parametrize(("before", "phase"), [("", "Pending"), ("Pending", "Pending"), ("Inqueue", "Inqueue")])
def test_group_of_a_closed_queue_is_pending_unless_it_was_inqueue(before: str, phase: str) -> None:
    assert pod_group_status(group(phase=before), [WAITING], queue_is_open=False)["phase"] == phase


def test_counts_of_a_pod_group() -> None:
    status = pod_group_status(group(), [WAITING, BOUND, RUNNING, TERMINATING, SUCCEEDED, FAILED], queue_is_open=True)
    assert [status[name] for name in ("running", "succeeded", "failed")] == [1, 1, 1]


def test_update_of_an_operator_that_omits_zeros_is_not_reverted() -> None:
    """The MPI operator updates the PodGroup at each of its events: each write after one would cause the next."""
    pods = [RUNNING, RUNNING]
    written = status_patch(group(), pod_group_status(group(), pods, queue_is_open=True))
    assert written == {"status": {"phase": "Running", "running": 2}}
    updated = group(**written["status"])
    assert status_patch(updated, pod_group_status(updated, pods, queue_is_open=True)) is None


def test_count_that_falls_to_zero_is_removed() -> None:
    before = group(phase="Running", running=2, failed=0)
    written = status_patch(before, pod_group_status(before, [SUCCEEDED, SUCCEEDED], queue_is_open=True))
    assert written == {"status": {"phase": "Completed", "running": None, "succeeded": 2, "failed": None}}


def test_group_without_a_minimum_needs_one_pod() -> None:
    assert pod_group_status({"spec": {}}, [BOUND], queue_is_open=True)["phase"] == "Running"


def test_queue_counts_groups_by_phase() -> None:
    phases = ["Pending", "Inqueue", "Inqueue", "Running", "Unknown", "Completed"]
    allocated = {"cpu": 3000, "memory": 2 * 2**30, "nvidia.com/gpu": 4}
    assert queue_status({}, phases, allocated) == {
        "state": "Open", "pending": 1, "inqueue": 2, "running": 1, "unknown": 1, "completed": 1,
        "allocated": {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "4"},
    }  # fmt: skip


def test_status_of_a_queue_lists_a_limited_number_of_resources() -> None:
    requested = {f"example.com/{number}": 1 for number in range(50_000)}
    queue = {"spec": {"capability": {"example.com/gpu": 8}}}
    listed = queue_status(queue, [], requested | {"cpu": 1000, "example.com/gpu": 4})["allocated"]
    assert (len(listed), listed["cpu"], listed["example.com/gpu"]) == (100, "1", "4")


@pytest.mark.parametrize(
    ("before", "phases", "allocated", "state"),
    [
        ("", [], 0, "Open"), ("Open", ["Running"], 1, "Open"),
        ("Closing", ["Running"], 0, "Closing"), ("Closing", ["Unknown"], 0, "Closing"), ("Closing", [], 1, "Closing"),
        ("Closing", ["Pending", "Inqueue", "Completed"], 0, "Closed"), ("Closing", [], 0, "Closed"),
        ("Closed", ["Running"], 1, "Closed"), ("Closed", [], 0, "Closed"),
    ],
)  # fmt: skip
def test_state_of_a_queue(before: str, phases: list[str], allocated: int, state: str) -> None:
    queue = {"status": {"state": before}}
    assert queue_status(queue, phases, {"cpu": allocated})["state"] == state
    assert is_open(queue) == (before in ("", "Open"))
