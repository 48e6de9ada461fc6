"""podFailurePolicy, successPolicy, and backoff limits per index."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads import jobs
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER, INDEX, INDEX_FAILURES, INDEX_IGNORED, finished_at
from pyscheduler.embedded.workloads.jobs.policies import match_failure_policy, match_success_policy
from tests.unit.workloads.builders import Json, a_pod, created, status_of, workload

ON_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
NOT_3 = {"onExitCodes": {"operator": "NotIn", "values": [3], "containerName": "c"}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}


def exited(code: int, container: str = "c", *conditions: str) -> Json:
    """Return a failed pod with a container that exited with `code`."""
    pod = a_pod("p", "Failed")
    pod["status"]["containerStatuses"] = [{"name": container, "state": {"terminated": {"exitCode": code}}}]
    pod["status"]["conditions"] = [{"type": kind, "status": "True"} for kind in conditions]
    return pod


def with_rules(*rules: tuple[str, Json], **spec: Any) -> Json:
    """Return a Job with these podFailurePolicy rules: action and pattern."""
    policy = {"rules": [{"action": action, **pattern} for action, pattern in rules]}
    return workload("Job", "j", podFailurePolicy=policy, **spec)


@pytest.mark.parametrize(
    ("rules", "pod", "action"),
    [
        pytest.param([("FailJob", ON_42)], exited(42), "FailJob", id="a listed code"),
        pytest.param([("FailJob", ON_42)], exited(1), "", id="another code"),
        pytest.param([("FailJob", NOT_3)], exited(1), "FailJob", id="NotIn: an unlisted code"),
        pytest.param([("FailJob", NOT_3)], exited(3), "", id="NotIn: a listed code"),
        pytest.param([("FailJob", NOT_3)], exited(0), "", id="NotIn: success is no failure"),
        pytest.param([("FailJob", NOT_3)], exited(1, "sidecar"), "", id="another container"),
        pytest.param([("Ignore", DISRUPTED)], exited(1, "c", "DisruptionTarget"), "Ignore", id="a condition"),
        pytest.param([("Ignore", DISRUPTED)], exited(1, "c", "Ready"), "", id="another condition"),
        pytest.param(
            [("Ignore", DISRUPTED), ("FailJob", ON_42)],
            exited(42, "c", "DisruptionTarget"),
            "Ignore",
            id="the first rule applies",
        ),
        pytest.param([("Count", ON_42), ("FailJob", ON_42)], exited(42), "Count", id="later rules are ignored"),
    ],
)
def test_failure_policy_rule_of_a_failed_pod(rules: list[tuple[str, Json]], pod: Json, action: str) -> None:
    assert match_failure_policy(with_rules(*rules), pod).action == action


def test_message_of_a_job_that_its_failure_policy_fails() -> None:
    of = with_rules(("Ignore", DISRUPTED), ("FailJob", ON_42), completions=1)
    failed = {**exited(42), "metadata": {**exited(42)["metadata"], "finalizers": [FINALIZER]}}
    (condition,) = status_of(jobs.reconcile(of, [failed], 9.0).plan)["conditions"]
    assert (condition["type"], condition["reason"]) == ("FailureTarget", "PodFailurePolicy")
    assert (
        condition["message"]
        == "Container c for pod default/p failed with exit code 42 matching FailJob rule at index 1"
    )


def test_ignored_failure_loses_its_finalizer_and_is_not_counted() -> None:
    of = with_rules(("Ignore", ON_42), completions=1, backoffLimit=0)
    failed = {**exited(42), "metadata": {**exited(42)["metadata"], "finalizers": [FINALIZER]}}
    plan = jobs.reconcile(of, [failed], 9.0).plan
    assert "conditions" not in status_of(plan)
    assert status_of(plan).get("uncountedTerminatedPods", {}).get("failed") is None
    assert any(getattr(action, "type", "") == "strategic-merge" for action in plan.actions)


@pytest.mark.parametrize(
    ("rules", "done", "message"),
    [
        ([{"succeededIndexes": "0,2-3"}], {0, 2, 3}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3"}], {0, 2}, ""),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], {0, 2}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0", "succeededCount": 1}], {1}, ""),
        ([{"succeededCount": 3}], {1, 4}, ""),
        ([{"succeededIndexes": "9"}, {"succeededCount": 2}], {1, 4}, "Matched rules at index 1"),
        ([{"succeededCount": 0}], set(), ""),
    ],
)
def test_success_policy_rule_is_met(rules: list[Json], done: set[int], message: str) -> None:
    assert match_success_policy(workload("Job", "j", successPolicy={"rules": rules}), done, 5) == message


def index_pod(index: int, failures: int = 0, ignored: int = 0, since: float = 0.0, phase: str = "Failed") -> Json:
    annotations = {INDEX: str(index), INDEX_FAILURES: str(failures), INDEX_IGNORED: str(ignored)}
    return a_pod(f"p{index}-{failures}", phase, since=since, finalizers=[FINALIZER], annotations=annotations)


def per_index(**spec: Any) -> Json:
    limits = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2}
    return workload("Job", "j", **{"backoffLimit": 2**31 - 1, **limits, **spec})


def test_replacement_inherits_the_failure_count_after_the_backoff_of_its_index() -> None:
    existing = [index_pod(0, 1, since=100), index_pod(1, 0, phase="Running"), index_pod(2, 0, phase="Running")]
    early, late = (jobs.reconcile(per_index(), existing, now).plan for now in (119.0, 120.0))
    assert (created(early), early.requeue_at) == ([], 120.0)
    (new,) = created(late)
    assert (new["metadata"]["annotations"][INDEX], new["metadata"]["annotations"][INDEX_FAILURES]) == ("0", "2")


def test_failed_pod_is_not_counted_until_its_replacement_exists() -> None:
    waiting = jobs.reconcile(per_index(), [index_pod(0, 0, since=100)], 105.0).plan
    assert status_of(waiting)["uncountedTerminatedPods"] == {"succeeded": None, "failed": None}
    replaced = [index_pod(0, 0, since=100), index_pod(0, 1, phase="Running")]
    assert status_of(jobs.reconcile(per_index(), replaced, 105.0).plan)["uncountedTerminatedPods"]["failed"] == ["p0-0"]


@pytest.mark.parametrize(
    ("pods", "spec", "failed", "reason"),
    [
        pytest.param([index_pod(0, 2)], {}, "0", "", id="one index over its limit"),
        pytest.param([index_pod(0, 1)], {}, "", "", id="within the limit"),
        pytest.param([index_pod(0, 2)], {"maxFailedIndexes": 1}, "0", "", id="as many as maxFailedIndexes"),
        pytest.param([index_pod(0, 2), index_pod(1, 2)], {"maxFailedIndexes": 1}, "0,1", "MaxFailedIndexesExceeded",
                              id="more than maxFailedIndexes"),
        pytest.param([index_pod(n, 2) for n in range(3)], {}, "0-2", "FailedIndexes", id="all indexes"),
    ],
)  # fmt: skip
def test_failed_indexes(pods: list[Json], spec: Json, failed: str, reason: str) -> None:
    status = status_of(jobs.reconcile(per_index(**spec), pods, 1e6).plan)
    assert status["failedIndexes"] == failed
    assert [condition["reason"] for condition in status.get("conditions", [])] == ([reason] if reason else [])


def test_fail_index_rule_fails_the_index_at_once() -> None:
    of = per_index(podFailurePolicy={"rules": [{"action": "FailIndex", **ON_42}]})
    failed = index_pod(1)
    failed["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 42}}}]
    assert status_of(jobs.reconcile(of, [failed], 1e6).plan)["failedIndexes"] == "1"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod("p", "Failed", since=50), 50.0, id="its container finished"),
        pytest.param({**a_pod("p", ready=False, since=40)}, 40.0, id="it became unready"),
        pytest.param(
            {**a_pod("p"), "metadata": {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}},
            30.0,
            id="it was deleted",
        ),
        pytest.param(
            {**a_pod("p"), "metadata": {"creationTimestamp": "1970-01-01T00:00:07Z"}}, 7.0, id="it was created"
        ),
    ],
)
def test_finish_time_of_a_pod(pod: Json, expected: float) -> None:
    assert finished_at(pod) == expected
