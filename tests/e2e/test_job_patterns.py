"""The shipped job patterns of docs/jobs.md, on the embedded cluster and on the real control plane.

Assertions on conditions, counts and Events hold on both: that is how the embedded Job controller is kept to the
real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.client import ApiError, Json
from tests.e2e.jobs import (
    Bench,
    condition_reasons,
    counts,
    crew_with_scheduler,
    ended,
    endless,
    in_phase,
    index,
    nodes_of,
    not_terminating,
    phases,
)
from tests.e2e.plane import Plane

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

NOTHING_LEFT = {"ready": 0, "terminating": 0, "uncounted": {}}
COMPLETE = {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
TRACKING = "batch.kubernetes.io/job-tracking"


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def placing(control_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Three nodes and a scheduler for the whole module."""
    async with crew_with_scheduler(control_plane, "jobs", tmp_path_factory.mktemp("jobs")):
        yield


@pytest.fixture
def bench(control_plane: Plane, namespace: str) -> Bench:
    return Bench(control_plane.api, namespace)


async def test_one_job_per_item(bench: Bench) -> None:
    items = ("orders", "customers", "clicks")
    for item in items:
        await bench.apply("per-item.yaml", items={"ITEM": item})
    for item in items:
        job = await bench.complete(f"report-{item}")
        assert condition_reasons(job) == COMPLETE
        assert counts(job) == {**NOTHING_LEFT, "succeeded": 1}
    pods = await bench.pods()
    assert sorted(pod["metadata"]["labels"]["item"] for pod in pods) == sorted(items)
    assert all(TRACKING not in pod["metadata"].get("finalizers", ()) for pod in pods)
    reasons = {"SuccessfulCreate", "Completed"}
    assert await bench.reasons("Job", "report-orders", *reasons) == reasons


async def test_job_status_and_events_have_the_expected_fields(bench: Bench) -> None:
    await bench.apply("per-item.yaml", items={"ITEM": "orders"})
    status = (await bench.complete("report-orders"))["status"]
    assert set(status) == {
        "completionTime", "conditions", "ready", "startTime", "succeeded", "terminating", "uncountedTerminatedPods",
    }  # fmt: skip
    fields = {"type", "status", "reason", "message", "lastProbeTime", "lastTransitionTime"}
    assert [set(condition) for condition in status["conditions"]] == [fields, fields]
    words = "Reached expected number of succeeded pods"
    assert [condition["message"] for condition in status["conditions"]] == [words, words]
    (pod,) = await bench.pods()
    events = await bench.events("Job", "report-orders", "SuccessfulCreate", "Completed")
    assert sorted((event["type"], event["message"], event["source"]["component"]) for event in events) == [
        ("Normal", f"Created pod: {pod['metadata']['name']}", "job-controller"),
        ("Normal", "Job completed", "job-controller"),
    ]


async def test_queue_with_one_pod_per_item(bench: Bench) -> None:
    await bench.apply("queue.yaml")
    await bench.apply("queue-pod-per-item.yaml")
    job = await bench.complete("queue-pod-per-item")
    assert (condition_reasons(job), counts(job)) == (COMPLETE, {**NOTHING_LEFT, "succeeded": 6})
    assert len(await bench.pods("queue-pod-per-item")) == 6
    queue = bench.at("Deployment", "queue")
    await bench.api.until(queue, lambda found: found.get("status", {}).get("availableReplicas") == 1)


async def test_queue_with_a_varying_number_of_pods(bench: Bench) -> None:
    await bench.apply("queue-varying-pods.yaml", endless)
    name = "queue-varying-pods"
    await bench.pods(name, in_phase("Running", 3))
    await bench.patch("Job", name, {"spec": {"parallelism": 5}})
    await bench.pods(name, in_phase("Running", 5))
    await bench.patch("Job", name, {"spec": {"parallelism": 2}})
    await bench.job(name, lambda job: job["status"].get("active") == 2)
    await bench.end(not_terminating(await bench.pods(name, lambda pods: len(not_terminating(pods)) == 2)))
    job = await bench.complete(name)
    assert (condition_reasons(job), counts(job)) == (COMPLETE, {**NOTHING_LEFT, "succeeded": 2})
    reasons = {"SuccessfulCreate", "SuccessfulDelete", "Completed"}
    assert await bench.reasons("Job", name, *reasons) == reasons


async def test_fixed_completions_start_when_resumed(bench: Bench) -> None:
    await bench.apply("fixed-completions.yaml")
    name = "fixed-completions"
    held = await bench.job(name, lambda job: ended(job) == ["Suspended"])
    assert "startTime" not in held["status"]
    assert await bench.pods(name) == []
    await bench.patch("Job", name, {"spec": {"suspend": False}})
    await bench.job(name, lambda job: job["status"].get("active") == 3)
    await bench.patch("Job", name, {"spec": {"suspend": True}})
    paused = await bench.job(name, lambda job: "Suspended" in ended(job) and not job["status"]["terminating"])
    assert "failed" not in paused["status"]
    await bench.patch("Job", name, {"spec": {"suspend": False}})
    job = await bench.complete(name)
    assert (condition_reasons(job), counts(job)) == (COMPLETE, {**NOTHING_LEFT, "succeeded": 8})
    assert {"Suspended", "Resumed"} <= await bench.reasons("Job", name, "Suspended", "Resumed", "Completed")


async def test_indexed_pods_have_their_index_and_are_spread(bench: Bench) -> None:
    await bench.apply("indexed.yaml", endless)
    pods = await bench.pods("indexed", in_phase("Running", 5))
    assert sorted(map(index, pods)) == list("01234")
    for pod in pods:
        meta, spec, number = pod["metadata"], pod["spec"], index(pod)
        assert meta["labels"]["batch.kubernetes.io/job-completion-index"] == number
        assert meta["name"].startswith(f"indexed-{number}-")
        assert spec["hostname"] == f"indexed-{number}"
        assert [variable["name"] for variable in spec["containers"][0]["env"]] == ["JOB_COMPLETION_INDEX"]
        assert TRACKING in meta["finalizers"]
    assert max(Counter(pod["spec"]["nodeName"] for pod in pods).values()) == 2
    await bench.end(pods)
    job = await bench.complete("indexed")
    assert counts(job) == {**NOTHING_LEFT, "succeeded": 5, "completedIndexes": "0-4"}


async def test_indexes_fail_independently(bench: Bench) -> None:
    await bench.apply("indexed-limits.yaml")
    name = "indexed-limits"
    job = await bench.failed(name)
    assert condition_reasons(job) == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    expected = {"succeeded": 2, "failed": 4, "completedIndexes": "0,1", "failedIndexes": "2,3"}
    assert counts(job) == {**NOTHING_LEFT, **expected}
    pods = await bench.pods(name)
    tries = Counter(map(index, pods))
    assert tries == {"0": 1, "1": 2, "2": 2, "3": 1}
    note = "batch.kubernetes.io/job-index-failure-count"
    assert Counter((index(p), p["metadata"]["annotations"][note]) for p in pods) == {
        ("0", "0"): 1, ("1", "0"): 1, ("1", "1"): 1, ("2", "0"): 1, ("2", "1"): 1, ("3", "0"): 1,
    }  # fmt: skip
    assert "FailedIndexes" in await bench.reasons("Job", name, "FailedIndexes")


async def test_success_of_the_leader_completes_the_gang(bench: Bench) -> None:
    await bench.apply("indexed-leader.yaml")
    name = "indexed-leader"
    job = await bench.complete(name)
    assert condition_reasons(job) == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}
    assert job["status"]["conditions"][-1]["message"] == "Matched rules at index 0"
    assert counts(job) == {**NOTHING_LEFT, "succeeded": 1, "completedIndexes": "0"}
    assert phases(await bench.pods(name, lambda pods: len(pods) == 1)) == ["Succeeded"]


async def test_bare_pods_restart_by_their_policy(bench: Bench) -> None:
    await bench.apply("bare-pods.yaml")

    def over(pods: list[Json]) -> bool:
        return phases(pods) == ["Failed", "Running", "Succeeded"] and restarts(pods)["bare-always"] >= 1

    pods = await bench.pods(holds=over)
    assert {name: n for name, n in restarts(pods).items() if name != "bare-always"} == {
        "bare-never": 0,
        "bare-on-failure": 1,
    }
    never = next(pod for pod in pods if pod["metadata"]["name"] == "bare-never")
    assert never["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert nodes_of(pods) <= {"jobs-1", "jobs-2", "jobs-3"}


def restarts(pods: list[Json]) -> dict[str, int]:
    """Return the restarts of each pod's container."""
    return {p["metadata"]["name"]: p["status"]["containerStatuses"][0]["restartCount"] for p in pods}


async def test_restart_policy_on_failure_retries_in_place(bench: Bench) -> None:
    await bench.apply("retry-in-place.yaml")
    job = await bench.complete("retry-in-place")
    assert counts(job) == {**NOTHING_LEFT, "succeeded": 1}
    (pod,) = await bench.pods("retry-in-place")
    assert list(restarts([pod]).values()) == [1]


async def test_restart_policy_never_retries_with_another_pod(bench: Bench) -> None:
    await bench.apply("retry-elsewhere.yaml")
    job = await bench.complete("retry-elsewhere")
    assert (condition_reasons(job), counts(job)) == (COMPLETE, {**NOTHING_LEFT, "succeeded": 1, "failed": 1})
    assert phases(await bench.pods("retry-elsewhere")) == ["Failed", "Succeeded"]


async def test_job_fails_at_its_backoff_limit(bench: Bench) -> None:
    await bench.apply("backoff-limit.yaml")
    job = await bench.failed("backoff-limit")
    assert condition_reasons(job) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert counts(job) == {**NOTHING_LEFT, "failed": 2}
    assert "BackoffLimitExceeded" in await bench.reasons("Job", "backoff-limit", "BackoffLimitExceeded")


async def test_failure_policy_fails_on_exit_code_and_ignores_eviction(bench: Bench) -> None:
    await bench.apply("pod-failure-policy.yaml", endless)
    name = "pod-failure-policy"
    first = await bench.pods(name, in_phase("Running", 2))
    evicted = next(pod["metadata"]["name"] for pod in first if index(pod) == "0")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
    await bench.api.create(f"{bench.at('Pod', evicted)}/eviction", eviction)
    await bench.end([pod for pod in first if index(pod) == "1"])
    job = await bench.failed(name)
    assert condition_reasons(job) == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    message = job["status"]["conditions"][-1]["message"]
    assert message.startswith(f"Container work for pod {bench.namespace}/{name}-1-")
    assert message.endswith("failed with exit code 42 matching FailJob rule at index 1")
    assert job["status"]["failed"] >= 1
    assert counts(job)["uncounted"] == {}


async def test_job_is_stopped_at_its_deadline_and_deleted(bench: Bench) -> None:
    await bench.apply("deadline.yaml")
    job = await bench.failed("deadline")
    assert condition_reasons(job) == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
    assert counts(job) == {**NOTHING_LEFT, "failed": 1}
    await bench.gone("Job", "deadline")
    assert await bench.pods("deadline", lambda pods: pods == []) == []


async def test_sync_workers_run_and_are_replaced_one_by_one(bench: Bench) -> None:
    await bench.apply("sync-workers.yaml")
    path = bench.at("Deployment", "sync-workers")
    await bench.api.until(path, lambda found: found.get("status", {}).get("availableReplicas") == 3)
    assert len(nodes_of(await bench.pods())) == 3
    newer = {"spec": {"template": {"spec": {"containers": [{"name": "worker", "image": "busybox:1.37.1"}]}}}}
    await bench.api.patch(path, newer, "strategic")
    pods = await bench.pods(holds=lambda pods: len(pods) == 3 and {image(pod) for pod in pods} == {"busybox:1.37.1"})
    assert len(nodes_of(pods)) == 3


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("pod-failure-policy.yaml", {"template": {"spec": {"restartPolicy": "OnFailure"}}},
         'restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy'),
        ("indexed-limits.yaml", {"completionMode": "NonIndexed"},
         "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        ("indexed.yaml", {"completions": None}, "spec.completions: Required value: when completion mode is Indexed"),
        ("deadline.yaml", {"ttlSecondsAfterFinished": -1},
         "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0"),
        ("cronjob-allow.yaml", {"schedule": "* * * *"}, "expected exactly 5 fields, found 4: [* * * *]"),
        ("cronjob-allow.yaml", {"schedule": "TZ=UTC * * * * *"}, "use timeZone field instead"),
        ("cronjob-allow.yaml", {"timeZone": "Mars/Olympus"},
         'spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus'),
        ("cronjob-allow.yaml", {"jobTemplate": {"spec": {"backoffLimit": -1}}},
         "spec.jobTemplate.spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
    ],
)  # fmt: skip
async def test_invalid_jobs_are_rejected_with_the_same_message(
    bench: Bench, file: str, change: Json, words: str
) -> None:
    def spoil(document: Json) -> None:
        document["spec"] = merged(document["spec"], change)

    with pytest.raises(ApiError) as refused:
        await bench.apply(file, spoil)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert words in refused.value.message


def merged(spec: Json, change: Json) -> Json:
    """Return the spec with a merge patch applied."""
    both = {name: merged(spec.get(name, {}), part) if isinstance(part, dict) else part for name, part in change.items()}
    return {name: part for name, part in {**spec, **both}.items() if part is not None}


def image(pod: Json) -> str:
    """Return the image of a pod's container."""
    return str(pod["spec"]["containers"][0]["image"])
