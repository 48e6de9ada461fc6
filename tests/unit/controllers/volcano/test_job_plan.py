"""Plans of Volcano Jobs: phases, policies, dependencies and restarts, as functions of the pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.controllers.volcano import job_plan
from pyscheduler.controllers.volcano.job_plan import MAX_CREATED
from pyscheduler.controllers.volcano.pods import PodRecord
from tests.unit.controllers.volcano.jobs import JobCluster, job, policy, task

ALL = ("j-a-0", "j-a-1", "j-b-0")


def cluster(**fields: Any) -> JobCluster:
    """Return a Job with two tasks, a of two pods and b of one, after the first plans."""
    made = JobCluster(job(task("a", 2), task("b", 1), **fields))
    made.run()
    return made


def started(**fields: Any) -> JobCluster:
    """Return the Job with running pods."""
    made = cluster(**fields)
    made.set("Running")
    assert made.run() == "Running"
    return made


def test_new_job_creates_its_pods_and_pod_group() -> None:
    made = cluster()
    assert (made.phase, tuple(sorted(made.pods)), made.status["pending"]) == ("Pending", ALL, 3)
    assert made.group is not None
    assert made.group["metadata"]["name"] == "j-job-uid"
    assert made.group["spec"] == {
        "minMember": 3, "minTaskMember": {"a": 2, "b": 1}, "queue": "default", "priorityClassName": "",
    }  # fmt: skip
    assert {pod.group for pod in made.pods.values()} == {"j-job-uid"}


def test_job_runs_when_its_minimum_runs() -> None:
    made = cluster(minAvailable=2)
    made.set("Running", "j-a-0")
    assert made.run() == "Pending"
    made.set("Running", "j-b-0")
    assert made.run() == "Running"
    assert made.status["taskStatusCount"] == {
        "a": {"phase": {"Running": 1, "Pending": 1}},
        "b": {"phase": {"Running": 1}},
    }


@pytest.mark.parametrize(
    ("fields", "phases", "expected"),
    [
        pytest.param({}, ("Succeeded", "Succeeded", "Succeeded"), "Completed", id="all have succeeded"),
        pytest.param({}, ("Succeeded", "Succeeded", "Running"), "Running", id="one still runs"),
        pytest.param({}, ("Succeeded", "Failed", "Succeeded"), "Failed", id="fewer than the minimum succeeded"),
        pytest.param(
            {"minAvailable": 2}, ("Succeeded", "Failed", "Succeeded"), "Completed", id="the minimum succeeded"
        ),
        pytest.param({"minSuccess": 1}, ("Succeeded", "Running", "Running"), "Completed", id="minSuccess"),
        pytest.param({"minSuccess": 3}, ("Succeeded", "Failed", "Succeeded"), "Failed", id="fewer than minSuccess"),
        pytest.param({}, ("Failed", "Running", "Running"), "Running", id="no policy for a failed pod"),
    ],
)
def test_end_of_a_job(fields: dict[str, Any], phases: tuple[str, ...], expected: str) -> None:
    made = started(**fields)
    for name, phase in zip(ALL, phases, strict=True):
        made.set(phase, name)
    assert made.run() == expected
    if expected in ("Completed", "Failed"):
        assert made.group is None
        assert all(pod.is_finished for pod in made.pods.values())


def test_counts_of_a_completed_job_stay_when_its_pods_are_deleted() -> None:
    made = started()
    made.set("Succeeded")
    made.run()
    made.remove(*ALL)
    assert (made.run(), made.status["succeeded"], made.pods) == ("Completed", 3, {})


@pytest.mark.parametrize(
    ("action", "expected", "left"),
    [
        ("AbortJob", "Aborted", {"j-a-0"}), ("TerminateJob", "Terminated", {"j-a-0"}),
        ("CompleteJob", "Completed", {"j-a-0"}), ("RestartJob", "Pending", set(ALL)),
        ("RestartTask", "Running", set(ALL)), ("RestartPod", "Running", set(ALL)),
    ],
)  # fmt: skip
def test_actions_after_a_failed_pod(action: str, expected: str, left: set[str]) -> None:
    made = started(policies=[policy("PodFailed", action)], minAvailable=1)
    before = made.uids
    made.set("Failed", "j-a-0", exit_code=3)
    assert (made.run(), set(made.pods)) == (expected, left)
    assert made.events == [made.events[0]]
    assert made.events[0].startswith("pod j-a-0 failed with exit code 3: ")
    restarted = {"RestartJob": set(ALL), "RestartTask": {"j-a-0", "j-a-1"}, "RestartPod": {"j-a-0"}}
    assert {name for name in left if made.uids[name] != before[name]} == restarted.get(action, set())


def test_pods_of_an_ending_job_are_gone_before_it_has_ended() -> None:
    made = started(policies=[policy("PodFailed", "AbortJob")])
    made.set("Failed", "j-a-0")
    made.plan()
    made.plan()
    assert (made.phase, made.status["terminating"]) == ("Aborting", 2)
    assert made.run() == "Aborted"


def test_restart_waits_until_the_old_pods_are_gone() -> None:
    made = started(policies=[policy("PodFailed", "RestartJob")])
    made.set("Failed", "j-a-0")
    made.plan()
    assert (made.phase, made.status["version"], made.status["retryCount"]) == ("Restarting", 1, 1)
    assert not list(made.plan().pods_to_create)
    assert made.run() == "Pending"
    assert {pod.version for pod in made.pods.values()} == {1}


@pytest.mark.parametrize(("max_retry", "restarts"), [(None, 2), (1, 0), (4, 3)])
def test_job_fails_at_max_retry(max_retry: int | None, restarts: int) -> None:
    fields = {} if max_retry is None else {"maxRetry": max_retry}
    made = started(policies=[policy("PodFailed", "RestartJob")], **fields)
    for _ in range(restarts):
        made.set("Failed", "j-a-0")
        assert made.run() == "Pending"
        made.set("Running")
        assert made.run() == "Running"
    made.set("Failed", "j-a-0")
    assert (made.run(), set(made.pods)) == ("Failed", {"j-a-0"})
    assert "maxRetry" in made.events[-1]


def test_evicted_pod_is_replaced_without_a_policy() -> None:
    made = started()
    made.remove("j-a-1")
    assert (made.run(), set(made.pods), made.status["version"]) == ("Pending", set(ALL), 0)


def test_evicted_pod_triggers_its_policy_once() -> None:
    made = started(policies=[policy("PodEvicted", "RestartJob")])
    made.remove("j-a-1")
    assert made.run() == "Pending"
    assert (made.status["version"], made.events) == (1, ["task a has lost pods: 1: RestartJob, retry 1 of 2"])


def test_terminating_pod_is_evicted() -> None:
    made = started(policies=[policy("PodEvicted", "AbortJob")])
    made.pods["j-a-1"] = made.pods["j-a-1"]._replace(is_deleting=True)
    made.plan()
    assert made.phase == "Aborting"


def test_restarted_pods_are_not_evicted() -> None:
    made = started(policies=[policy("PodFailed", "RestartTask"), policy("PodEvicted", "AbortJob")], minAvailable=1)
    made.set("Failed", "j-a-0")
    assert (made.run(), len(made.events)) == ("Running", 1)


def test_fewer_replicas_delete_pods_without_an_eviction() -> None:
    made = started(policies=[policy("PodEvicted", "AbortJob")], minAvailable=1)
    made.job["spec"]["tasks"][0]["replicas"] = 1
    assert (made.run(), set(made.pods)) == ("Running", {"j-a-0", "j-b-0"})


def test_completed_task_completes_the_job() -> None:
    made = JobCluster(job(task("a", 2), task("b", 1, policies=[policy("TaskCompleted", "CompleteJob")])))
    made.run()
    made.set("Running")
    made.run()
    made.set("Succeeded", "j-b-0")
    assert (made.run(), set(made.pods)) == ("Completed", {"j-b-0"})


def test_policies_of_the_task_are_before_those_of_the_job() -> None:
    made = JobCluster(
        job(task("a", 2, policies=[policy("*", "TerminateJob")]), policies=[policy("PodFailed", "AbortJob")])
    )
    made.run()
    made.set("Failed", "j-a-0")
    assert made.run() == "Terminated"


@pytest.mark.parametrize(("code", "expected"), [(3, "Aborted"), (4, "Running")])
def test_policy_by_exit_code(code: int, expected: str) -> None:
    made = started(policies=[{"exitCode": 3, "action": "AbortJob"}])
    made.set("Failed", "j-a-0", exit_code=code)
    assert made.run() == expected


def test_job_is_aborted_when_a_pod_is_pending_longer_than_the_timeout() -> None:
    made = cluster(policies=[policy("PodPending", "AbortJob", timeout="10m")])
    made.set("Running", "j-a-0", "j-a-1")
    made.now = 400
    assert (made.plan().again_after, made.phase) == (200.0, "Pending")
    made.now = 600
    assert made.run() == "Aborted"
    assert made.events == ["pod j-b-0 is pending: AbortJob"]


def test_pod_that_runs_in_time_ends_its_timeout() -> None:
    made = cluster(policies=[policy("PodPending", "AbortJob", timeout="10m")])
    made.now = 400
    made.set("Running")
    assert made.run() == "Running"
    made.now = 600
    assert (made.plan().again_after, made.phase) == (None, "Running")


def test_pending_pods_are_no_other_event() -> None:
    pending = policy("PodPending", "RestartJob", timeout="10m")
    made = cluster(policies=[policy("*", "AbortJob"), {"action": "AbortJob", "exitCode": 0}, pending])
    made.now = 60
    assert (made.plan().again_after, made.phase) == (540.0, "Pending")


def test_failed_pod_is_restarted_after_the_timeout() -> None:
    made = started(policies=[{"exitCode": 3, "action": "RestartPod", "timeout": "30s"}])
    before = made.uids
    made.now = 100
    made.set("Failed", "j-a-0", exit_code=3)
    made.now = 110
    made.set("Failed", "j-a-1", exit_code=3)
    assert (made.plan().again_after, made.uids) == (20.0, before)
    made.now = 130
    made.run()
    assert {name for name, uid in made.uids.items() if uid != before[name]} == {"j-a-0"}


def test_job_with_failed_pods_only_has_its_restart_after_the_timeout() -> None:
    made = started(policies=[policy("PodFailed", "RestartJob", timeout="30s")])
    made.set("Failed")
    assert made.run() == "Running"
    made.now = 30
    assert made.run() == "Pending"
    assert (made.status["retryCount"], len(made.pods)) == (1, 3)


def test_action_that_is_due_does_not_wait_for_a_timeout() -> None:
    made = started(policies=[policy("PodFailed", "RestartJob", timeout="30s"), policy("PodEvicted", "AbortJob")])
    made.set("Failed", "j-a-0")
    made.remove("j-b-0")
    assert made.run() == "Aborted"


def test_unknown_pod_group_triggers_its_policy_once() -> None:
    made = started(policies=[policy("Unknown", "RestartJob")])
    made.remove("j-a-1")
    assert made.run() == "Pending"
    assert made.group is not None
    made.group["status"] = {"phase": "Unknown"}
    made.plan()
    assert made.phase == "Restarting"
    assert (made.run(), len(made.events)) == ("Pending", 1)


def test_task_waits_for_the_tasks_on_which_it_depends() -> None:
    made = JobCluster(job(task("a", 2), task("b", 1, dependsOn={"name": ["a"]})))
    made.run()
    assert set(made.pods) == {"j-a-0", "j-a-1"}
    assert made.group is not None
    assert (made.group["spec"]["minMember"], made.group["spec"]["minTaskMember"]) == (2, {"a": 2})
    made.set("Running", "j-a-0")
    made.run()
    assert "j-b-0" not in made.pods
    made.set("Running", "j-a-1")
    made.run()
    assert "j-b-0" in made.pods
    assert (made.group["spec"]["minMember"], made.group["spec"]["minTaskMember"]) == (3, {"a": 2, "b": 1})
    made.set("Failed", "j-a-1")
    made.run()
    assert made.group["spec"]["minMember"] == 3


@pytest.mark.parametrize(("iteration", "created"), [("any", True), ("all", False), ("", False)])
def test_task_depends_on_any_or_all_tasks(iteration: str, created: bool) -> None:
    depends = {"name": ["a", "b"], "iteration": iteration}
    made = JobCluster(job(task("a", 1), task("b", 1), task("c", 1, dependsOn=depends)))
    made.run()
    made.set("Succeeded", "j-a-0")
    made.run()
    assert ("j-c-0" in made.pods) == created


def test_pod_that_runs_and_is_not_ready_meets_no_dependency() -> None:
    made = JobCluster(job(task("a", 1), task("b", 1, dependsOn={"name": ["a"]})))
    made.run()
    made.pods["j-a-0"] = made.pods["j-a-0"]._replace(phase="Running", is_ready=False)
    made.run()
    assert set(made.pods) == {"j-a-0"}


def test_job_is_deleted_after_its_ttl() -> None:
    made = started(ttlSecondsAfterFinished=60)
    made.set("Succeeded")
    made.run()
    made.now = 40
    plan = made.plan()
    assert (plan.again_after, plan.delete_job) == (20.0, False)
    made.now = 60
    assert made.plan().delete_job


def test_reason_of_a_pending_job_is_that_of_its_pod_group() -> None:
    made = cluster()
    assert made.group is not None
    condition = {"type": "Unschedulable", "status": "True", "reason": "Unschedulable", "message": "j-b-0 lacks 1 cpu"}
    made.group["status"] = {"conditions": [condition]}
    made.plan()
    assert made.status["state"] == {
        "phase": "Pending", "lastTransitionTime": "1970-01-01T00:00:00Z", "reason": "Unschedulable",
        "message": "j-b-0 lacks 1 cpu",
    }  # fmt: skip
    made.set("Running")
    made.plan()
    assert "reason" not in made.status["state"]


def test_unsupported_job_creates_nothing_and_is_reported_once() -> None:
    made = JobCluster(job(task("a", 1), plugins={"svc": ["--x=1"], "ssh": []}))
    assert made.plan().shared == []
    made.run()
    assert (made.pods, made.group, made.phase) == ({}, None, "Pending")
    supported = "--publish-not-ready-addresses, --disable-network-policy, --inject-hosts-env"
    assert made.events == [f"spec.plugins.svc[0]: --x is not supported: supported values: {supported}"]
    assert made.status["state"]["message"] == made.events[0]


def test_plan_does_not_depend_on_memory() -> None:
    """A controller that starts anew with the status and the pods makes the plan again after an interruption."""
    made = started(policies=[policy("PodFailed", "RestartJob")])
    made.set("Failed", "j-a-0")
    pods = dict(made.pods)
    made.plan()
    made.pods = pods  # the status was written, and no pod was deleted
    assert {pod.name for pod in made.plan().pods_to_delete} == set(ALL)
    assert (made.run(), made.status["retryCount"]) == ("Pending", 1)


def test_plan_creates_a_limited_number_of_pods() -> None:
    made = JobCluster(job(task("a", 1), task("b", 2**31 - 1)))
    for plans in (1, 2):
        made.plan()
        assert len(made.pods) == plans * MAX_CREATED
    assert made.status["pending"] == MAX_CREATED


def test_job_with_more_host_names_than_a_config_map_can_have_is_unsupported() -> None:
    problem = "spec.plugins.svc: Too long: the host names of 2147483647 pods exceed the size of a ConfigMap"
    made = JobCluster(job(task("a", 2**31 - 1), plugins={"svc": []}))
    made.run()
    assert (made.pods, made.status["state"]["message"]) == ({}, problem)
    made.job["spec"]["tasks"][0]["replicas"] = 2
    made.run()
    assert len(made.pods) == 2


def test_pods_are_looked_at_once_for_all_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    has_started = job_plan._has_started

    def count(pod: PodRecord) -> bool:
        looked_at.append(pod.name)
        return has_started(pod)

    monkeypatch.setattr(job_plan, "_has_started", count)
    tasks = [task(f"t{i}", 1, dependsOn={"name": [f"t{j}" for j in range(i)]}) for i in range(30)]
    made = JobCluster(job(*tasks))
    for i in range(30):
        made.plan()
        made.set("Running", f"j-t{i}-0")
    looked_at.clear()
    made.plan()
    assert len(looked_at) == 30


def test_last_conditions_of_a_job_that_restarts_often_are_kept() -> None:
    made = started(policies=[policy("PodFailed", "RestartJob")], maxRetry=2**31 - 1)
    for _ in range(30):
        made.set("Failed", "j-a-0")
        made.run()
        made.set("Running")
        made.run()
    assert made.status["retryCount"] == 30
    assert [each["status"] for each in made.status["conditions"][-3:]] == ["Restarting", "Pending", "Running"]
    assert len(made.status["conditions"]) == 32


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([policy("*", "AbortJob"), policy("PodFailed", "RestartJob")], "Aborting"),
        ([{"action": "RestartJob", "exitCode": 3}, policy("*", "AbortJob")], "Pending"),
        ([{"action": "RestartJob", "exitCode": 4}, policy("*", "AbortJob")], "Aborting"),
        ([policy("TaskCompleted", "RestartJob"), policy("PodFailed", "TerminateJob")], "Terminating"),
    ],
)
def test_first_policy_for_an_event_counts(policies: list[dict[str, Any]], expected: str) -> None:
    made = started(policies=policies)
    made.set("Failed", "j-a-0", exit_code=3)
    made.plan()
    assert made.phase.startswith(expected) or made.run() == expected
