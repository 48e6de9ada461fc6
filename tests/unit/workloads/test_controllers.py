"""Nothing is created or deleted twice while the watch event of the first write is outstanding."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.embedded.client import JOBS, REPLICASETS, Informer
from pyscheduler.embedded.client.kinds import CLAIMS, REVISIONS, STATEFULSETS
from pyscheduler.embedded.workloads.apply_actions import MAX_CONCURRENT_WRITES
from pyscheduler.embedded.workloads.controllers import JOB, REPLICASET, QueueItem, WorkloadControllers
from pyscheduler.embedded.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Deleted, Upsert, Watched
from tests.unit.kube.virtual import VirtualClock
from tests.unit.workloads.builders import Json, a_pod, conditions, workload
from tests.unit.workloads.recording import RecordingClient

ITEM = QueueItem(REPLICASET, ("default", "rs"))


class ReplicaSetFixture:
    """A ReplicaSet and its controller; the pod cache changes only when a test puts a pod."""

    def __init__(self, replicas: int, quota: int | None = None) -> None:
        self.client, self.clock = RecordingClient(quota=quota), VirtualClock(wall=0.0)
        self.pods = Informer(Watched(PODS), Json)
        self.jobs = Informer(Watched(JOBS), Json)
        main = {REPLICASET: Informer(Watched(REPLICASETS), Json), JOB: self.jobs}
        self.workloads = WorkloadControllers(self.client, self.clock, self.pods, main, 10.0)
        main[REPLICASET].objects[ITEM.key] = workload("ReplicaSet", "rs", replicas=replicas)

    def put_pod(self, pod: Json) -> None:
        """Deliver a watch event of a pod."""
        self.pods.handle(Upsert(pod))

    def put_job(self, job: Json) -> None:
        """Deliver a watch event of the Job."""
        self.jobs.handle(Upsert(job))

    def drop_job(self) -> None:
        """Deliver the deletion of the Job."""
        self.jobs.handle(Deleted(*JOB_ITEM.key, "j"))

    async def reconcile(self) -> None:
        await self.workloads.reconcile(ITEM)
        self.workloads.queue.close()


async def test_pods_are_not_created_again_before_the_first_are_observed() -> None:
    fixture = ReplicaSetFixture(2)
    await fixture.reconcile()
    await fixture.reconcile()
    fixture.put_pod(fixture.client.created[0])
    await fixture.reconcile()
    assert len(fixture.client.created) == 2


async def test_controller_continues_once_all_pods_are_observed() -> None:
    fixture = ReplicaSetFixture(2)
    await fixture.reconcile()
    for pod in list(fixture.client.created):
        fixture.put_pod(pod)
    fixture.put_pod({**fixture.client.created[0], "status": {"phase": "Failed"}})
    await fixture.reconcile()
    assert len(fixture.client.created) == 3


async def test_expectations_time_out() -> None:
    fixture = ReplicaSetFixture(1)
    await fixture.reconcile()
    fixture.clock.at += EXPECTATIONS_TIMEOUT_SECONDS
    await fixture.reconcile()
    assert len(fixture.client.created) == 2


def failures(client: RecordingClient) -> list[tuple[str, str, str]]:
    """Return kind of the object, type and text of each FailedCreate Event."""
    return [
        (event["involvedObject"]["kind"], event["type"], event["message"])
        for event in client.bodies_of("create", "events")
        if event["reason"] == "FailedCreate"
    ]


async def test_replica_set_beyond_a_quota_has_the_status_of_its_pods_and_an_event() -> None:
    fixture = ReplicaSetFixture(10, quota=5)
    with pytest.raises(ApiError, match="exceeded quota"):
        await fixture.reconcile()
    for pod in list(fixture.client.created):
        fixture.put_pod(pod)
    with pytest.raises(ApiError, match="exceeded quota"):
        await fixture.reconcile()
    status = fixture.client.bodies_of("patch", "replicasets")[-1]["status"]
    assert (status["replicas"], conditions({"conditions": status["conditions"]})) == (5, {"ReplicaFailure": "True"})
    assert failures(fixture.client) == [("ReplicaSet", "Warning", "Error creating: exceeded quota: q")]


async def test_no_more_pods_are_tried_after_a_group_with_a_rejected_one() -> None:
    fixture = ReplicaSetFixture(100, quota=5)
    with pytest.raises(ApiError):
        await fixture.reconcile()
    assert fixture.client.attempts == MAX_CONCURRENT_WRITES


async def test_job_beyond_a_quota_counts_its_pods() -> None:
    fixture = ReplicaSetFixture(1, quota=2)
    job = a_job("1")
    job["spec"] |= {"completions": 4, "parallelism": 4}
    fixture.put_job(job)
    with pytest.raises(ApiError, match="exceeded quota"):
        await fixture.workloads.reconcile(JOB_ITEM)
    assert fixture.client.bodies_of("patch", "jobs")[-1]["status"]["active"] == 2
    for pod in list(fixture.client.created):
        fixture.put_pod({**pod, "status": {"phase": "Succeeded"}})
    fixture.put_job({**job, "metadata": {**job["metadata"], "resourceVersion": "2"}})
    with pytest.raises(ApiError, match="exceeded quota"):
        await fixture.workloads.reconcile(JOB_ITEM)
    fixture.workloads.queue.close()
    uncounted = fixture.client.bodies_of("patch", "jobs")[-1]["status"]["uncountedTerminatedPods"]
    assert len(uncounted["succeeded"]) == 2
    assert [list(each["metadata"])[-1] for each in fixture.client.bodies_of("patch", "pods")] == [
        "$deleteFromPrimitiveList/finalizers"
    ] * 2
    assert failures(fixture.client) == [("Job", "Warning", "Error creating: exceeded quota: q")]


class StatefulSetFixture:
    """A StatefulSet of two pods with a claim each, and its controller."""

    def __init__(self, client: RecordingClient) -> None:
        self.item = QueueItem(STATEFULSETS.kind, ("default", "s"))
        self.pods = Informer(Watched(PODS), Json)
        self.main = {each.kind: Informer(Watched(each), Json) for each in (STATEFULSETS, REVISIONS, CLAIMS)}
        self.workloads = WorkloadControllers(client, VirtualClock(wall=0.0), self.pods, self.main, 10.0)
        template = {"metadata": {"name": "data"}, "spec": {}}
        spec: Json = {"replicas": 2, "volumeClaimTemplates": [template], "podManagementPolicy": "Parallel"}
        self.main[STATEFULSETS.kind].handle(Upsert(workload("StatefulSet", "s", **spec)))

    async def reconcile(self) -> None:
        await self.workloads.reconcile(self.item)
        self.workloads.queue.close()


async def test_stateful_set_creates_no_pod_without_its_claim() -> None:
    client = RecordingClient("create persistentvolumeclaims")
    with pytest.raises(ApiError):
        await StatefulSetFixture(client).reconcile()
    assert [each["kind"] for each in client.created] == ["ControllerRevision"]
    assert client.bodies_of("patch", "statefulsets")[-1]["status"]["replicas"] == 0
    text = "Create Claim data-s-0 for Pod s-0 in StatefulSet s failed error: create"
    assert failures(client) == [("StatefulSet", "Warning", text)]


async def test_stateful_set_continues_once_its_claims_are_observed() -> None:
    client = RecordingClient()
    fixture = StatefulSetFixture(client)
    await fixture.reconcile()
    made = list(client.created)
    assert sorted(each["kind"] for each in made) == [
        *["ControllerRevision", "PersistentVolumeClaim", "PersistentVolumeClaim", "Pod", "Pod"]
    ]
    for each in made:
        fixture.main.get(each["kind"], fixture.pods).handle(Upsert(each))
    assert fixture.workloads._expected.is_satisfied(fixture.item, 0.0)
    fixture.workloads.queue.close()


JOB_ITEM = QueueItem(JOB, ("default", "j"))


def a_job(version: str, **status: Any) -> Json:
    job = workload("Job", "j", completions=1, status=status)
    job["metadata"]["resourceVersion"] = version
    return job


async def test_job_is_not_reconciled_until_its_status_update_is_observed() -> None:
    fixture = ReplicaSetFixture(1)
    fixture.put_job(a_job("1"))
    await fixture.workloads.reconcile(JOB_ITEM)
    created_pod = fixture.client.created[0]
    fixture.put_pod(created_pod)
    fixture.put_pod({**created_pod, "status": {"phase": "Failed"}})
    fixture.clock.at += 20
    await fixture.workloads.reconcile(JOB_ITEM)
    assert len(fixture.client.created) == 1, "the cached Job is older than the last write"
    fixture.put_job(a_job("2", active=1))
    await fixture.workloads.reconcile(JOB_ITEM)
    fixture.workloads.queue.close()
    assert len(fixture.client.created) == 2


async def test_pods_of_a_deleted_job_are_queued() -> None:
    fixture = ReplicaSetFixture(1)
    owner = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    fixture.put_job(a_job("1"))
    fixture.put_pod(a_pod("p", ownerReferences=owner))
    before = len(fixture.workloads.queue)
    fixture.drop_job()
    assert len(fixture.workloads.queue) == before + 1


async def test_pods_are_not_deleted_again_before_the_first_deletion_is_observed() -> None:
    fixture = ReplicaSetFixture(1)
    owner = [{"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]
    for name in "abc":
        fixture.put_pod(a_pod(name, ownerReferences=owner))
    await fixture.reconcile()
    await fixture.reconcile()
    assert len(fixture.client.deleted) == 2
