"""A Job runs pods until its work is done, or until it must give up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.workloads import jobs
from pyscheduler.embedded.workloads.actions import Delete, Patch, Plan, Record
from pyscheduler.embedded.workloads.jobs.backoff import Failures
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER, INDEX, INDEX_FAILURES
from tests.unit.workloads.builders import Json, a_pod, conditions, created, deleted, going, status_of, workload

STARTED = {"startTime": "1970-01-01T00:00:00Z"}


def job(**spec: Any) -> Json:
    return workload("Job", "j", status=dict(STARTED), **spec)


def tracked(name: str, phase: str = "Running", **more: Any) -> Json:
    return a_pod(name, phase, finalizers=[FINALIZER], **more)


def pods(*phases: str) -> list[Json]:
    return [tracked(f"p{number}", phase) for number, phase in enumerate(phases)]


def indexed(index: int, phase: str = "Running", failures: int = 0, **more: Any) -> Json:
    notes = {INDEX: str(index), INDEX_FAILURES: str(failures)}
    return tracked(f"p{index}", phase, annotations=notes, **more)


def look(of: Json, there: list[Json], now: float = 1000.0, failures: Failures = Failures()) -> Plan:  # noqa: B008
    return jobs.reconcile(of, there, now, failures).plan


def released(plan: Plan) -> list[str]:
    """The pods whose finalizer the plan takes off."""
    return [a.key[1] for a in plan.actions if isinstance(a, Patch) and not a.subresource]


def reasons(plan: Plan) -> list[str]:
    """The reasons of the Events that the plan writes."""
    return [action.reason for action in plan.actions if isinstance(action, Record)]


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
        pytest.param({"completions": 1, "managedBy": "example.com/other"}, [], 0, 0, id="managed by another"),
        pytest.param({"completions": 900, "parallelism": 900}, [], 500, 0, id="not more than 500 at once"),
    ],
)
def test_how_many_pods_it_makes_and_takes(spec: Json, there: list[str], made: int, taken: int) -> None:
    plan = look(job(**spec), pods(*there))
    assert (len(created(plan)), len(deleted(plan))) == (made, taken)


@pytest.mark.parametrize(
    ("policy", "made"), [("TerminatingOrFailed", 1), ("Failed", 0)], ids=["at once", "when it has ended"]
)
def test_when_a_pod_that_is_going_is_replaced(policy: str, made: int) -> None:
    of = job(completions=1, podReplacementPolicy=policy)
    plan = look(of, [going(tracked("a"))], now=1e10)
    assert len(created(plan)) == made
    assert status_of(plan)["terminating"] == 1
    assert released(plan) == (["a"] if made else []), "what counts as failed is let go"


def test_a_pod_carries_what_its_template_says_and_the_finalizer() -> None:
    (pod,) = created(look(job(completions=1), []))
    assert pod["metadata"]["generateName"] == "j-"
    assert pod["metadata"]["labels"] == {"app": "j"}
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"


def test_indexes_that_are_neither_done_nor_running_are_made_in_order() -> None:
    of = job(completions=5, parallelism=3, completionMode="Indexed")
    made = created(look(of, [indexed(0, "Succeeded"), indexed(2), indexed(1, "Failed")]))
    assert [pod["metadata"]["annotations"][INDEX] for pod in made] == ["1", "3"]
    assert made[0]["metadata"]["generateName"] == "j-1-"
    assert made[0]["metadata"]["labels"][INDEX] == "1"
    assert made[0]["spec"]["hostname"] == "j-1"
    assert made[0]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_a_long_name_leaves_room_for_the_index() -> None:
    of = job(completions=1, completionMode="Indexed")
    of["metadata"]["name"] = "x" * 63
    (pod,) = created(look(of, []))
    assert pod["metadata"]["generateName"] == "x" * 55 + "-0-"


def test_an_index_that_succeeds_twice_counts_once() -> None:
    twice = [indexed(0, "Succeeded"), {**indexed(0, "Succeeded")}, indexed(1)]
    status = status_of(look(job(completions=2, completionMode="Indexed"), twice))
    assert (status["succeeded"], status["completedIndexes"]) == (1, "0")


def test_pods_that_share_an_index_are_one_too_many() -> None:
    there = [indexed(0), {**indexed(0), "metadata": {**indexed(0)["metadata"], "name": "twin", "uid": "twin"}}]
    assert len(deleted(look(job(completions=2, parallelism=2, completionMode="Indexed"), there))) == 1


def test_no_pod_is_taken_twice_where_indexes_are_shared_and_there_are_too_many() -> None:
    there = [indexed(0), {**indexed(0), "metadata": {**indexed(0)["metadata"], "name": "twin", "uid": "twin"}}]
    taken = deleted(look(job(completions=3, parallelism=1, completionMode="Indexed"), [*there, indexed(1)]))
    assert len(set(taken)) == len(taken) == 2


def test_a_failure_that_is_noted_and_not_let_go_yet_counts_once() -> None:
    of = job(completions=1, backoffLimit=1)
    of["status"]["uncountedTerminatedPods"] = {"failed": ["p0"]}
    outcome = jobs.reconcile(of, pods("Failed"), 1000.0, Failures(1, 999.0))
    assert conditions(status_of(outcome.plan)) == {}
    assert outcome.failures == (1, 999.0)


def test_a_success_is_noted_then_let_go_then_counted_then_the_job_is_complete() -> None:
    of, there = job(completions=1), pods("Succeeded")
    first = look(of, there)
    of["status"] = status_of(first, of["status"])
    assert of["status"]["uncountedTerminatedPods"] == {"succeeded": ["p0"], "failed": None}
    assert (released(first), conditions(of["status"])) == (["p0"], {"SuccessCriteriaMet": "True"})
    assert "succeeded" not in of["status"]
    second = look(of, [a_pod("p0", "Succeeded")], now=60.0)
    of["status"] = status_of(second, of["status"])
    assert conditions(of["status"]) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert (of["status"]["succeeded"], of["status"]["completionTime"]) == (1, "1970-01-01T00:01:00Z")
    assert reasons(second) == ["Completed"]


def test_a_counted_pod_may_be_deleted_without_being_run_again() -> None:
    of = job(completions=2)
    of["status"]["succeeded"] = 1
    assert len(created(look(of, []))) == 1


def test_a_pod_that_was_deleted_while_it_was_uncounted_still_counts() -> None:
    of = job(completions=1)
    of["status"]["uncountedTerminatedPods"] = {"succeeded": ["gone"]}
    status = status_of(look(of, []))
    assert (status["succeeded"], conditions(status)["Complete"]) == (1, "True")


def test_pods_beyond_the_goal_are_stopped_before_it_is_complete() -> None:
    of = job(completions=1)
    of["status"]["succeeded"] = 1
    plan = look(of, pods("Running"))
    assert deleted(plan) == ["p0"]
    assert conditions(status_of(plan)) == {"SuccessCriteriaMet": "True"}


def test_a_pod_that_is_not_to_count_is_let_go_before_it_is_deleted() -> None:
    (taken,) = (a for a in look(job(completions=1, suspend=True), pods("Running")).actions if isinstance(a, Delete))
    assert taken.pre_patch is not None
    assert "$deleteFromPrimitiveList/finalizers" in taken.pre_patch.patch["metadata"]


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
    of = job(completions=1, **spec)
    first = look(of, pods(*there), now)
    of["status"] = status_of(first, of["status"])
    last = first if not there else look(of, [], now)
    status = status_of(last, of["status"])
    assert conditions(status) == {"FailureTarget": "True", "Failed": "True"}
    assert {c["reason"] for c in status["conditions"]} == {reason}
    assert status.get("failed", 0) == len(there)
    assert reasons(last) == [reason]


def test_it_is_not_over_while_a_pod_is_still_going() -> None:
    of = job(completions=1)
    of["status"]["conditions"] = [{"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}]
    assert conditions(status_of(look(of, [going(a_pod("p"))]))) == {}
    assert conditions(status_of(look(of, [])))["Failed"] == "True"


def test_as_many_failures_as_the_limit_are_borne() -> None:
    assert conditions(status_of(look(job(completions=1, backoffLimit=1), pods("Failed")))) == {}


def test_what_still_runs_when_a_job_fails_counts_as_failed() -> None:
    plan = look(job(completions=3, parallelism=2, backoffLimit=0), pods("Failed", "Running"))
    assert deleted(plan) == ["p1"]
    assert status_of(plan)["uncountedTerminatedPods"]["failed"] == ["p0", "p1"]


def test_restarts_in_place_count_as_failures() -> None:
    of = job(completions=1, backoffLimit=2)
    of["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    restarting = tracked("a")
    restarting["status"]["containerStatuses"] = [{"restartCount": 2}]
    plan = look(of, [restarting])
    assert deleted(plan) == ["a"]
    assert conditions(status_of(plan)) == {"FailureTarget": "True"}, "it is not over while the pod is there"


def test_after_a_failure_it_waits_longer_each_time() -> None:
    first = jobs.reconcile(job(completions=1), [tracked("a", "Failed", since=100)], 101.0)
    assert (created(first.plan), first.plan.requeue_at) == ([], 110.0)
    second = jobs.reconcile(job(completions=1), [tracked("b", "Failed", since=110)], 129.0, first.failures)
    assert (created(second.plan), second.plan.requeue_at) == ([], 130.0)
    assert len(created(look(job(completions=1), [], 130.0, second.failures))) == 1


@pytest.mark.parametrize(
    ("failed", "succeeded", "left"),
    [([100], [101], Failures()), ([102, 103], [101], Failures(2, 103)), ([], [], Failures(3, 99)), ([1], [], (4, 1))],
)
def test_a_success_forgives_earlier_failures(failed: list[int], succeeded: list[int], left: Failures) -> None:
    ended = [[a_pod("p", "Failed", since=at) for at in times] for times in (succeeded, failed)]
    assert Failures(3, 99).after(*ended) == left


def test_it_looks_again_at_its_deadline() -> None:
    assert look(job(completions=1, activeDeadlineSeconds=30), pods("Running"), 10.0).requeue_at == 30.0
    assert look(job(completions=1), pods("Running"), 10.0).requeue_at == math.inf


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_what_is_over_is_over_but_lets_its_pods_go(kind: str) -> None:
    over = job(completions=3)
    over["status"]["conditions"] = [{"type": kind, "status": "True"}]
    assert look(over, []).actions == []
    assert released(look(over, pods("Running"))) == ["p0"]


def test_a_finished_job_goes_when_its_time_is_up() -> None:
    over = job(completions=1, ttlSecondsAfterFinished=30)
    at = "1970-01-01T00:01:00Z"
    over["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": at}]
    assert (look(over, [], 89.0).actions, look(over, [], 89.0).requeue_at) == ([], 90.0)
    (gone,) = look(over, [], 90.0).actions
    assert isinstance(gone, Delete)
    assert gone.key == ("default", "j")


def test_the_reason_found_first_stands() -> None:
    of = job(completions=1, backoffLimit=0)
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    of["status"]["conditions"] = [met]
    plan = look(of, pods("Failed"))
    assert conditions(status_of(plan)) == {}, "nothing new is said before the pod is counted"
    of["status"] = status_of(plan, of["status"])
    assert conditions(status_of(look(of, []), of["status"]))["Complete"] == "True"


def test_suspension_is_a_condition_and_stops_the_clock() -> None:
    of = job(completions=1, suspend=True)
    plan = look(of, [])
    of["status"] = status_of(plan, of["status"])
    assert conditions(of["status"]) == {"Suspended": "True"}
    assert ("startTime" in of["status"], reasons(plan)) == (False, ["Suspended"])
    of["spec"]["suspend"] = False
    resumed = look(of, [], 60.0)
    assert conditions(status_of(resumed)) == {"Suspended": "False"}
    assert (status_of(resumed)["startTime"], reasons(resumed)) == ("1970-01-01T00:01:00Z", ["Resumed"])


def test_a_job_that_is_going_lets_its_pods_go_and_makes_none() -> None:
    of = job(completions=2)
    of["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    plan = look(of, pods("Running"))
    assert (created(plan), deleted(plan), released(plan)) == ([], [], ["p0"])
