"""A Job runs pods until its work is done, or until it must give up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.workloads.job import INDEX, reconcile
from tests.unit.workloads.builders import Json, a_pod, conditions, created, deleted, going, status_of, workload

STARTED = {"startTime": "1970-01-01T00:00:00Z"}


def job(**spec: Any) -> Json:
    return workload("Job", "j", status=dict(STARTED), **spec)


def pods(*phases: str) -> list[Json]:
    return [a_pod(f"p{number}", phase) for number, phase in enumerate(phases)]


def indexed(index: int, phase: str = "Running") -> Json:
    return a_pod(f"p{index}", phase, annotations={INDEX: str(index)})


@pytest.mark.parametrize(
    ("spec", "there", "made", "taken"),
    [
        pytest.param({"completions": 1}, [], 1, 0, id="parallelism is 1 if left out"),
        pytest.param({"completions": 5, "parallelism": 3}, [], 3, 0, id="as many as may run at once"),
        pytest.param({"completions": 5, "parallelism": 3}, ["Running"] * 3, 0, 0, id="all are running"),
        pytest.param({"completions": 5, "parallelism": 3}, ["Succeeded"] * 3 + ["Running"], 1, 0, id="two are left"),
        pytest.param({"completions": 2, "parallelism": 2}, ["Running", "Failed"], 1, 0, id="a failure is replaced"),
        pytest.param({"completions": 9, "parallelism": 1}, ["Running", "Pending"], 0, 1, id="parallelism was lowered"),
        pytest.param({"completions": 2, "parallelism": 0}, [], 0, 0, id="parallelism 0 holds it"),
        pytest.param({"parallelism": 3}, ["Running"] * 2, 1, 0, id="a work queue fills up"),
        pytest.param({"parallelism": 3}, ["Running", "Succeeded"], 0, 0, id="until the first success"),
        pytest.param({"completions": 3, "parallelism": 3, "suspend": True}, ["Running"], 0, 1, id="suspended"),
    ],
)
def test_how_many_pods_it_makes_and_takes(spec: Json, there: list[str], made: int, taken: int) -> None:
    plan = reconcile(job(**spec), pods(*there), 1000.0)
    assert (len(created(plan)), len(deleted(plan))) == (made, taken)


def test_a_pod_that_is_going_holds_its_place() -> None:
    plan = reconcile(job(completions=1), [going(a_pod("a"))], 0.0)
    assert created(plan) == []
    assert status_of(plan)["terminating"] == 1


def test_a_pod_carries_the_labels_of_its_job() -> None:
    (pod,) = created(reconcile(job(completions=1), [], 0.0))
    assert pod["metadata"]["generateName"] == "j-"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert pod["metadata"]["labels"]["app"] == "j"
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"


def test_indexes_that_are_neither_done_nor_running_are_made_in_order() -> None:
    of = job(completions=5, parallelism=3, completionMode="Indexed")
    made = created(reconcile(of, [indexed(0, "Succeeded"), indexed(2), indexed(1, "Failed")], 1000.0))
    assert [pod["metadata"]["annotations"][INDEX] for pod in made] == ["1", "3"]
    assert made[0]["metadata"]["generateName"] == "j-1-"
    assert made[0]["metadata"]["labels"][INDEX] == "1"


def test_an_index_that_succeeds_twice_counts_once() -> None:
    twice = [indexed(0, "Succeeded"), {**indexed(0, "Succeeded")}, indexed(1)]
    status = status_of(reconcile(job(completions=2, completionMode="Indexed"), twice, 0.0))
    assert (status["succeeded"], status["completedIndexes"]) == (1, "0")


def test_done_means_complete() -> None:
    status = status_of(reconcile(job(completions=2), pods("Succeeded", "Succeeded"), 60.0), STARTED)
    assert conditions(status) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert (status["succeeded"], status["completionTime"]) == (2, "1970-01-01T00:01:00Z")
    assert "active" not in status


def test_pods_beyond_the_goal_are_stopped_before_it_is_complete() -> None:
    plan = reconcile(job(completions=1), pods("Succeeded", "Running"), 0.0)
    assert deleted(plan) == ["p1"]
    assert conditions(status_of(plan)) == {"SuccessCriteriaMet": "True"}


@pytest.mark.parametrize(
    ("spec", "there", "now", "reason"),
    [
        pytest.param({"backoffLimit": 1}, ["Failed"] * 2, 0.0, "BackoffLimitExceeded", id="too many failures"),
        pytest.param({"backoffLimit": 0}, ["Failed"], 0.0, "BackoffLimitExceeded", id="none allowed"),
        pytest.param({}, ["Failed"] * 7, 0.0, "BackoffLimitExceeded", id="6 unless told otherwise"),
        pytest.param({"activeDeadlineSeconds": 30}, [], 30.0, "DeadlineExceeded", id="too long"),
    ],
)
def test_when_it_gives_up(spec: Json, there: list[str], now: float, reason: str) -> None:
    status = status_of(reconcile(job(completions=1, **spec), pods(*there), now))
    assert conditions(status) == {"FailureTarget": "True", "Failed": "True"}
    assert {c["reason"] for c in status["conditions"]} == {reason}


def test_as_many_failures_as_the_limit_are_borne() -> None:
    assert conditions(status_of(reconcile(job(completions=1, backoffLimit=1), pods("Failed"), 0.0))) == {}


def test_restarts_in_place_count_as_failures() -> None:
    restarting = a_pod("a")
    restarting["spec"]["restartPolicy"] = "OnFailure"
    restarting["status"]["containerStatuses"] = [{"restartCount": 2}]
    plan = reconcile(job(completions=1, backoffLimit=2), [restarting], 0.0)
    assert deleted(plan) == ["a"]
    assert conditions(status_of(plan)) == {"FailureTarget": "True"}, "it is not over while the pod is there"


def test_after_a_failure_it_waits_longer_each_time() -> None:
    failed = [a_pod("a", "Failed", since=100), a_pod("b", "Failed", since=110)]
    early, late = (reconcile(job(completions=1), failed, now, backoff_seconds=10) for now in (129.0, 130.0))
    assert (created(early), early.again) == ([], 130.0)
    assert len(created(late)) == 1


def test_a_success_forgives_earlier_failures() -> None:
    there = [a_pod("a", "Failed", since=100), a_pod("b", "Succeeded", since=101)]
    assert len(created(reconcile(job(completions=2), there, 102.0))) == 1


def test_it_looks_again_at_its_deadline() -> None:
    assert reconcile(job(completions=1, activeDeadlineSeconds=30), pods("Running"), 10.0).again == 30.0
    assert reconcile(job(completions=1), pods("Running"), 10.0).again == math.inf


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_what_is_over_is_over(kind: str) -> None:
    over = job(completions=3)
    over["status"]["conditions"] = [{"type": kind, "status": "True"}]
    assert reconcile(over, [], 0.0).actions == []


def test_the_reason_found_first_stands() -> None:
    of = job(completions=1, backoffLimit=0)
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    of["status"]["conditions"] = [met]
    status = status_of(reconcile(of, pods("Succeeded", "Failed"), 0.0))
    assert conditions(status)["Complete"] == "True"


def test_suspension_is_a_condition_and_stops_the_clock() -> None:
    status = status_of(reconcile(job(completions=1, suspend=True), [], 0.0), STARTED)
    assert conditions(status) == {"Suspended": "True"}
    assert "startTime" not in status
