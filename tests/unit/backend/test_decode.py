"""Pod states decoded from the API server's pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.backend import PodState
from pyscheduler.backend.decode import pod_of

RUNS: dict[str, Any] = {"running": {}}


def ended(code: int, message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "message": message}}


def decoded(containers: dict[str, dict[str, Any]], policy: str = "Never", **status: Any) -> PodState:
    """Return the state of a pod of a task with the container `task`."""
    return pod_of(
        {
            "metadata": {"name": "p", "annotations": {"pyscheduler.io/task-containers": "task"}},
            "spec": {"restartPolicy": policy},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": name, "state": state} for name, state in containers.items()],
                **status,
            },
        }
    )


@pytest.mark.parametrize(
    ("containers", "policy", "main"),
    [
        pytest.param({"task": ended(0), "istio-proxy": RUNS}, "Never", (True, 0), id="sidecar runs"),
        pytest.param({"istio-proxy": ended(143), "task": ended(0)}, "Never", (True, 0), id="sidecar was stopped"),
        pytest.param({"istio-proxy": ended(1), "task": RUNS}, "Never", (False, 1), id="sidecar failed"),
        pytest.param({"task": ended(3), "istio-proxy": RUNS}, "OnFailure", (False, 3), id="will be restarted"),
        pytest.param({"task": ended(0), "istio-proxy": RUNS}, "OnFailure", (True, 0), id="not restarted"),
        pytest.param({"task": ended(0), "istio-proxy": RUNS}, "Always", (False, 0), id="always restarted"),
    ],
)
def test_injected_sidecar_does_not_decide_the_end_of_a_task(
    containers: dict[str, dict[str, Any]], policy: str, main: tuple[bool, int]
) -> None:
    pod = decoded(containers, policy)
    assert (pod.main_ended, pod.exit_code) == main


def test_crash_loop_has_restarts_and_the_last_exit() -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    status = {"name": "task", "state": waits, "lastState": ended(3), "restartCount": 4}
    pod = decoded({}, "OnFailure", containerStatuses=[status])
    assert (pod.waiting, pod.restarts, pod.exit_code, pod.main_ended) == ("CrashLoopBackOff", 4, 3, False)


def test_gated_pod_is_not_unschedulable() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "is blocked"}
    pod = decoded({}, phase="Pending", conditions=[gated])
    assert (pod.gated, pod.unschedulable, pod.gate_message) == (True, "", "is blocked")
