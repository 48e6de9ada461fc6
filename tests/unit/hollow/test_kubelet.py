"""Next step for a pod on a node: a status, a deletion, or nothing until later."""

from __future__ import annotations

import math

from pyscheduler.embedded.hollow.kubelet import SyncResult, sync_pod
from pyscheduler.embedded.hollow.node_capacity import AdmissionFailure
from pyscheduler.embedded.hollow.pod_lifecycle import LifecycleTimings
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.testing import pod
from tests.unit.hollow.builders import PLACE, hollow, with_status

TIMINGS = LifecycleTimings(start_seconds=1)


def next_step(of: HollowPod, now: float, failure: AdmissionFailure | None = None) -> SyncResult:
    return sync_pod(of, PLACE, failure, TIMINGS, now)


def conditions(decision: SyncResult) -> dict[str, str]:
    assert decision.status is not None
    return {c["type"]: c["status"] for c in decision.status["conditions"]}


def test_new_pod_is_in_container_creating() -> None:
    step = next_step(hollow(), 100.0)
    assert step.status is not None
    assert step.status["phase"] == "Pending"
    assert step.status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert step.status["startTime"] == "1970-01-01T00:01:40Z"
    assert step.requeue_at == 101.0


def test_started_pod_is_running_and_has_an_ip() -> None:
    step = next_step(hollow(), 101.0)
    assert step.status is not None
    assert (step.status["phase"], step.status["podIP"], step.status["hostIP"]) == ("Running", "10.128.0.1", "10.64.0.1")
    assert conditions(step) == {
        "PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True", "ContainersReady": "True",
    }  # fmt: skip
    assert step.requeue_at == math.inf


def test_current_status_is_not_written_again() -> None:
    created = next_step(hollow(), 100.0)
    assert created.status is not None
    assert next_step(with_status(hollow(), created.status), 100.5) == SyncResult(requeue_at=101.0)


def test_pod_that_a_controller_marked_not_ready_is_set_to_ready() -> None:
    running = next_step(hollow(), 101.0)
    assert running.status is not None
    marked = {**running.status, "conditions": [{"type": "Ready", "status": "False"}]}
    assert conditions(next_step(with_status(hollow(), marked), 102.0))["Ready"] == "True"


def test_finished_pod_is_not_ready_and_not_synced_again() -> None:
    done = next_step(hollow(policy="Never", run_seconds=5), 106.0)
    assert done.status is not None
    assert conditions(done)["Ready"] == "False"
    ended = done.status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["startedAt"], ended["finishedAt"]) == (
        0, "1970-01-01T00:01:41Z", "1970-01-01T00:01:46Z",
    )  # fmt: skip
    assert next_step(with_status(hollow(policy="Never"), done.status), 107.0) == SyncResult()


def test_restart_sets_restart_count_and_last_state() -> None:
    again = next_step(hollow(fail_after_seconds=2), 104.0)
    assert again.status is not None
    container = again.status["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 1


def test_rejected_pod_fails_at_once() -> None:
    step = next_step(hollow(), 100.0, AdmissionFailure("OutOfcpu", "Pod was rejected: ..."))
    assert step.status is not None
    assert (step.status["phase"], step.status["reason"]) == ("Failed", "OutOfcpu")


def test_deleted_pod_is_terminated_before_it_is_removed() -> None:
    leaving = hollow(pod("p").deleting())
    step = next_step(leaving, 103.0)
    assert step.status is not None
    assert step.status["phase"] == "Failed"
    assert step.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert next_step(with_status(leaving, step.status), 103.0) == SyncResult(delete=True)


def test_force_deleted_pod_with_finalizers_is_not_synced() -> None:
    deleted = hollow(pod("p").deleting()._with("metadata.deletionGracePeriodSeconds", 0))
    assert next_step(deleted, 103.0) == SyncResult()


def test_pod_is_stopped_at_its_active_deadline() -> None:
    of = hollow(pod("p").spec(activeDeadlineSeconds=5))
    running = next_step(of, 101.0)
    assert running.requeue_at == 105.0
    over = next_step(of, 105.0).status
    assert over is not None
    assert (over["phase"], over["reason"]) == ("Failed", "DeadlineExceeded")
    assert over["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_pod_past_its_deadline_fails_even_if_synced_after_its_end() -> None:
    over = next_step(hollow(pod("p").spec(activeDeadlineSeconds=5), policy="Never", run_seconds=10), 200.0).status
    assert over is not None
    assert (over["phase"], over["reason"]) == ("Failed", "DeadlineExceeded")


def test_pod_that_ended_before_its_deadline_succeeds() -> None:
    done = next_step(hollow(pod("p").spec(activeDeadlineSeconds=5), policy="Never", run_seconds=2), 110.0).status
    assert done is not None
    assert done["phase"] == "Succeeded"


def test_running_pod_has_finished_init_containers_and_running_sidecars() -> None:
    of = hollow(pod("p").init_container(name="setup").init_container(name="proxy", restartPolicy="Always"))
    step = next_step(of, 101.0)
    assert step.status is not None
    setup, proxy = step.status["initContainerStatuses"]
    assert setup["state"]["terminated"]["reason"] == "Completed"
    assert "running" in proxy["state"]
