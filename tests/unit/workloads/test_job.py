"""A Job runs pods until it is complete or failed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.workloads import jobs
from pyscheduler.embedded.workloads.actions import Delete, Patch, Plan, RecordAction
from pyscheduler.embedded.workloads.jobs.backoff import Failures
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER, INDEX, INDEX_FAILURES
from tests.unit.workloads.builders import Json, a_pod, conditions, created, deleted, status_of, terminating, workload

STARTED = {"startTime": "1970-01-01T00:00:00Z"}


def job(**spec: Any) -> Json:
    return workload("Job", "j", status=dict(STARTED), **spec)


def tracked(name: str, phase: str = "Running", **more: Any) -> Json:
    return a_pod(name, phase, finalizers=[FINALIZER], **more)


def pods(*phases: str) -> list[Json]:
    return [tracked(f"p{number}", phase) for number, phase in enumerate(phases)]


def indexed(index: int, phase: str = "Running", failures: int = 0, **more: Any) -> Json:
    annotations = {INDEX: str(index), INDEX_FAILURES: str(failures)}
    return tracked(f"p{index}", phase, annotations=annotations, **more)


def sync(of: Json, existing: list[Json], now: float = 1000.0, failures: Failures = Failures()) -> Plan:  # noqa: B008
    return jobs.reconcile(of, existing, now, failures).plan


def without_finalizer(plan: Plan) -> list[str]:
    """Return the pods that lose their finalizer by the plan."""
    return [a.key[1] for a in plan.actions if isinstance(a, Patch) and not a.subresource]


def reasons(plan: Plan) -> list[str]:
    """Return the reasons of the Events in the plan."""
    return [action.reason for action in plan.actions if isinstance(action, RecordAction)]


@pytest.mark.parametrize(
    ("spec", "existing", "creations", "deletions"),
    [
        pytest.param({"completions": 1}, [], 1, 0, id="default parallelism is 1"),
        pytest.param({"completions": 5, "parallelism": 3}, [], 3, 0, id="parallelism limits running pods"),
        pytest.param({"completions": 5, "parallelism": 3}, ["Running"] * 3, 0, 0, id="all are running"),
        pytest.param(
            {"completions": 5, "parallelism": 3},
            ["Succeeded"] * 3 + ["Running"],
            1,
            0,
            id="two completions are missing",
        ),
        pytest.param({"completions": 2, "parallelism": 2}, ["Running", "Failed"], 1, 0, id="a failure is replaced"),
        pytest.param({"completions": 9, "parallelism": 1}, ["Running", "Pending"], 0, 1, id="parallelism was lowered"),
        pytest.param({"completions": 2, "parallelism": 0}, [], 0, 0, id="parallelism 0 starts nothing"),
        pytest.param({"parallelism": 3}, ["Running"] * 2, 1, 0, id="a work queue starts missing pods"),
        pytest.param({"parallelism": 3}, ["Running", "Succeeded"], 0, 0, id="a work queue starts none after a success"),
        pytest.param({"completions": 3, "parallelism": 3, "suspend": True}, ["Running"], 0, 1, id="suspended"),
        pytest.param(
            {"completions": 1, "managedBy": "example.com/other"}, [], 0, 0, id="managed by another controller"
        ),
        pytest.param({"completions": 900, "parallelism": 900}, [], 500, 0, id="at most 500 per sync"),
    ],
)
def test_number_of_pods_created_and_deleted(spec: Json, existing: list[str], creations: int, deletions: int) -> None:
    plan = sync(job(**spec), pods(*existing))
    assert (len(created(plan)), len(deleted(plan))) == (creations, deletions)


@pytest.mark.parametrize(
    ("policy", "count"), [("TerminatingOrFailed", 1), ("Failed", 0)], ids=["while terminating", "once failed"]
)
def test_terminating_pod_is_replaced_by_pod_replacement_policy(policy: str, count: int) -> None:
    of = job(completions=1, podReplacementPolicy=policy)
    plan = sync(of, [terminating(tracked("a"))], now=1e10)
    assert len(created(plan)) == count
    assert status_of(plan)["terminating"] == 1
    assert without_finalizer(plan) == (["a"] if count else []), "the finalizer of a pod counted as failed is removed"


def test_pod_has_the_fields_of_the_template_and_the_finalizer() -> None:
    (pod,) = created(sync(job(completions=1), []))
    assert pod["metadata"]["generateName"] == "j-"
    assert pod["metadata"]["labels"] == {"app": "j"}
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"


def test_missing_indexes_are_created_in_order() -> None:
    of = job(completions=5, parallelism=3, completionMode="Indexed")
    new = created(sync(of, [indexed(0, "Succeeded"), indexed(2), indexed(1, "Failed")]))
    assert [pod["metadata"]["annotations"][INDEX] for pod in new] == ["1", "3"]
    assert new[0]["metadata"]["generateName"] == "j-1-"
    assert new[0]["metadata"]["labels"][INDEX] == "1"
    assert new[0]["spec"]["hostname"] == "j-1"
    assert new[0]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_long_job_name_is_truncated_for_the_index() -> None:
    of = job(completions=1, completionMode="Indexed")
    of["metadata"]["name"] = "x" * 63
    (pod,) = created(sync(of, []))
    assert pod["metadata"]["generateName"] == "x" * 55 + "-0-"


def test_index_that_succeeds_twice_counts_once() -> None:
    twice = [indexed(0, "Succeeded"), {**indexed(0, "Succeeded")}, indexed(1)]
    status = status_of(sync(job(completions=2, completionMode="Indexed"), twice))
    assert (status["succeeded"], status["completedIndexes"]) == (1, "0")


def test_duplicate_pod_of_an_index_is_deleted() -> None:
    existing = [indexed(0), {**indexed(0), "metadata": {**indexed(0)["metadata"], "name": "twin", "uid": "twin"}}]
    assert len(deleted(sync(job(completions=2, parallelism=2, completionMode="Indexed"), existing))) == 1


def test_surplus_and_duplicate_pods_are_deleted_once_each() -> None:
    existing = [indexed(0), {**indexed(0), "metadata": {**indexed(0)["metadata"], "name": "twin", "uid": "twin"}}]
    names = deleted(sync(job(completions=3, parallelism=1, completionMode="Indexed"), [*existing, indexed(1)]))
    assert len(set(names)) == len(names) == 2


def test_uncounted_failure_with_finalizer_counts_once() -> None:
    of = job(completions=1, backoffLimit=1)
    of["status"]["uncountedTerminatedPods"] = {"failed": ["p0"]}
    outcome = jobs.reconcile(of, pods("Failed"), 1000.0, Failures(1, 999.0))
    assert conditions(status_of(outcome.plan)) == {}
    assert outcome.failures == (1, 999.0)


def test_success_goes_through_uncounted_pods_to_the_complete_condition() -> None:
    of, existing = job(completions=1), pods("Succeeded")
    first = sync(of, existing)
    of["status"] = status_of(first, of["status"])
    assert of["status"]["uncountedTerminatedPods"] == {"succeeded": ["p0"], "failed": None}
    assert (without_finalizer(first), conditions(of["status"])) == (["p0"], {"SuccessCriteriaMet": "True"})
    assert "succeeded" not in of["status"]
    second = sync(of, [a_pod("p0", "Succeeded")], now=60.0)
    of["status"] = status_of(second, of["status"])
    assert conditions(of["status"]) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert (of["status"]["succeeded"], of["status"]["completionTime"]) == (1, "1970-01-01T00:01:00Z")
    assert reasons(second) == ["Completed"]


def test_deleted_pod_that_was_counted_is_not_run_again() -> None:
    of = job(completions=2)
    of["status"]["succeeded"] = 1
    assert len(created(sync(of, []))) == 1


def test_deleted_pod_that_was_uncounted_still_counts() -> None:
    of = job(completions=1)
    of["status"]["uncountedTerminatedPods"] = {"succeeded": ["deleted"]}
    status = status_of(sync(of, []))
    assert (status["succeeded"], conditions(status)["Complete"]) == (1, "True")


def test_surplus_pods_are_deleted_before_the_job_is_complete() -> None:
    of = job(completions=1)
    of["status"]["succeeded"] = 1
    plan = sync(of, pods("Running"))
    assert deleted(plan) == ["p0"]
    assert conditions(status_of(plan)) == {"SuccessCriteriaMet": "True"}


def test_finalizer_of_an_uncounted_pod_is_removed_before_its_deletion() -> None:
    (deletion,) = (a for a in sync(job(completions=1, suspend=True), pods("Running")).actions if isinstance(a, Delete))
    assert deletion.pre_patch is not None
    assert "$deleteFromPrimitiveList/finalizers" in deletion.pre_patch.patch["metadata"]


@pytest.mark.parametrize(
    ("spec", "existing", "now", "reason"),
    [
        pytest.param(
            {"backoffLimit": 1}, ["Failed"] * 2, 0.0, "BackoffLimitExceeded", id="more failures than the limit"
        ),
        pytest.param({"backoffLimit": 0}, ["Failed"], 0.0, "BackoffLimitExceeded", id="limit 0"),
        pytest.param({}, ["Failed"] * 7, 0.0, "BackoffLimitExceeded", id="default limit 6"),
        pytest.param({"activeDeadlineSeconds": 30}, [], 30.0, "DeadlineExceeded", id="active deadline"),
    ],
)
def test_job_fails_beyond_its_limits(spec: Json, existing: list[str], now: float, reason: str) -> None:
    of = job(completions=1, **spec)
    first = sync(of, pods(*existing), now)
    of["status"] = status_of(first, of["status"])
    last = first if not existing else sync(of, [], now)
    status = status_of(last, of["status"])
    assert conditions(status) == {"FailureTarget": "True", "Failed": "True"}
    assert {c["reason"] for c in status["conditions"]} == {reason}
    assert status.get("failed", 0) == len(existing)
    assert reasons(last) == [reason]


def test_job_is_not_finished_while_a_pod_is_terminating() -> None:
    of = job(completions=1)
    of["status"]["conditions"] = [{"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}]
    assert conditions(status_of(sync(of, [terminating(a_pod("p"))]))) == {}
    assert conditions(status_of(sync(of, [])))["Failed"] == "True"


def test_job_survives_as_many_failures_as_its_limit() -> None:
    assert conditions(status_of(sync(job(completions=1, backoffLimit=1), pods("Failed")))) == {}


def test_running_pods_of_a_failed_job_count_as_failed() -> None:
    plan = sync(job(completions=3, parallelism=2, backoffLimit=0), pods("Failed", "Running"))
    assert deleted(plan) == ["p1"]
    assert status_of(plan)["uncountedTerminatedPods"]["failed"] == ["p0", "p1"]


def test_container_restarts_count_as_failures() -> None:
    of = job(completions=1, backoffLimit=2)
    of["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    restarting = tracked("a")
    restarting["status"]["containerStatuses"] = [{"restartCount": 2}]
    plan = sync(of, [restarting])
    assert deleted(plan) == ["a"]
    assert conditions(status_of(plan)) == {"FailureTarget": "True"}, "the Job is not finished while the pod exists"


def test_backoff_doubles_with_each_failure() -> None:
    first = jobs.reconcile(job(completions=1), [tracked("a", "Failed", since=100)], 101.0)
    assert (created(first.plan), first.plan.requeue_at) == ([], 110.0)
    second = jobs.reconcile(job(completions=1), [tracked("b", "Failed", since=110)], 129.0, first.failures)
    assert (created(second.plan), second.plan.requeue_at) == ([], 130.0)
    assert len(created(sync(job(completions=1), [], 130.0, second.failures))) == 1


@pytest.mark.parametrize(
    ("failed", "succeeded", "expected"),
    [([100], [101], Failures()), ([102, 103], [101], Failures(2, 103)), ([], [], Failures(3, 99)), ([1], [], (4, 1))],
)
def test_success_resets_earlier_failures(failed: list[int], succeeded: list[int], expected: Failures) -> None:
    finished = [[a_pod("p", "Failed", since=at) for at in times] for times in (succeeded, failed)]
    assert Failures(3, 99).after(*finished) == expected


def test_job_is_requeued_at_its_deadline() -> None:
    assert sync(job(completions=1, activeDeadlineSeconds=30), pods("Running"), 10.0).requeue_at == 30.0
    assert sync(job(completions=1), pods("Running"), 10.0).requeue_at == math.inf


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_finished_job_only_removes_finalizers(kind: str) -> None:
    finished = job(completions=3)
    finished["status"]["conditions"] = [{"type": kind, "status": "True"}]
    assert sync(finished, []).actions == []
    assert without_finalizer(sync(finished, pods("Running"))) == ["p0"]


def test_finished_job_is_deleted_after_its_ttl() -> None:
    finished = job(completions=1, ttlSecondsAfterFinished=30)
    at = "1970-01-01T00:01:00Z"
    finished["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": at}]
    assert (sync(finished, [], 89.0).actions, sync(finished, [], 89.0).requeue_at) == ([], 90.0)
    (deletion,) = sync(finished, [], 90.0).actions
    assert isinstance(deletion, Delete)
    assert deletion.key == ("default", "j")


def test_recorded_finish_reason_is_final() -> None:
    of = job(completions=1, backoffLimit=0)
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    of["status"]["conditions"] = [met]
    plan = sync(of, pods("Failed"))
    assert conditions(status_of(plan)) == {}, "no final condition before the pod is counted"
    of["status"] = status_of(plan, of["status"])
    assert conditions(status_of(sync(of, []), of["status"]))["Complete"] == "True"


def test_suspension_sets_a_condition_and_clears_the_start_time() -> None:
    of = job(completions=1, suspend=True)
    plan = sync(of, [])
    of["status"] = status_of(plan, of["status"])
    assert conditions(of["status"]) == {"Suspended": "True"}
    assert ("startTime" in of["status"], reasons(plan)) == (False, ["Suspended"])
    of["spec"]["suspend"] = False
    resumed = sync(of, [], 60.0)
    assert conditions(status_of(resumed)) == {"Suspended": "False"}
    assert (status_of(resumed)["startTime"], reasons(resumed)) == ("1970-01-01T00:01:00Z", ["Resumed"])


def test_job_in_deletion_removes_finalizers_and_creates_no_pods() -> None:
    of = job(completions=2)
    of["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    plan = sync(of, pods("Running"))
    assert (created(plan), deleted(plan), without_finalizer(plan)) == ([], [], ["p0"])
