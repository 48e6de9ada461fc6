"""Which pods belong to a task: those of its own submission, also if they lose their label."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.backend import KubernetesTaskBackend, NoOrphan, RetryPolicy, TaskExists, TaskPhase, TaskSpec
from pyscheduler.backend.adoption import adopted_record
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.task import Json, TaskRecord
from pyscheduler.backend.template import pod_body
from tests.properties.task_cluster import Fate
from tests.properties.task_simulation import SETTINGS
from tests.unit.backend.test_backend import BackendFixture, on_virtual_time, task


async def wait_for_phase(backend: KubernetesTaskBackend, task: str, phase: TaskPhase) -> None:
    async with asyncio.timeout(60.0):
        while backend.task(task).phase is not phase:  # noqa: ASYNC110  # virtual
            await asyncio.sleep(0.1)


def remove_labels(fixture: BackendFixture) -> None:
    """Remove the backend's label from all pods, as another client."""
    for pod in list(fixture.cluster.pods.values()):
        fixture.cluster.label(pod.name, pod.uid, labelled=False)


@on_virtual_time
async def test_pod_that_loses_its_label_runs_on_and_is_labelled_again() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.RUNNING)
        [pod] = fixture.cluster.pods.values()
        fixture.cluster.label(pod.name, pod.uid, labelled=False)
        await backend.wait_until_settled()
        assert (backend.task("a").phase, backend.task("a").attempt) == (TaskPhase.SUCCEEDED, 1)
    assert (fixture.cluster.created["a"], fixture.cluster.pods) == (1, {})


@on_virtual_time
async def test_pod_that_loses_its_label_while_no_backend_runs_is_found_again() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.RUNNING)
    [pod] = fixture.cluster.pods.values()
    fixture.cluster.label(pod.name, pod.uid, labelled=False)
    fixture.cluster.compact()
    async with fixture.backend() as backend:
        await backend.wait_until_settled()
        assert (backend.task("a").phase, backend.task("a").attempt) == (TaskPhase.SUCCEEDED, 1)
    assert fixture.cluster.created["a"] == 1


@on_virtual_time
async def test_pod_that_is_deleted_without_its_label_ends_the_attempt() -> None:
    fixture = BackendFixture(a=Fate.UNSCHEDULABLE)
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.PENDING)
        [pod] = fixture.cluster.pods.values()
        fixture.cluster.release(pod.name, pod.uid)
        fixture.cluster.label(pod.name, pod.uid, labelled=False)
        fixture.cluster.delete(pod.name, pod.uid)
        async with asyncio.timeout(60.0):
            while backend.task("a").attempt == 1:  # noqa: ASYNC110  # virtual
                await asyncio.sleep(0.1)
        assert backend.task("a").failures == {"infrastructure": 1}


@pytest.mark.parametrize("has_ended", [False, True])
def test_result_of_another_submission_is_never_reported(has_ended: bool) -> None:
    """The state was lost, and the task is submitted again with another command while the first pod exists."""

    @on_virtual_time
    async def scenario() -> None:
        fixture = BackendFixture(a=Fate.SUCCEED if has_ended else Fate.UNSCHEDULABLE)
        async with fixture.backend() as backend:
            await backend.submit(task("a", command=("old",)))
            await wait_for_phase(backend, "a", TaskPhase.PENDING)
        fixture.state = MemoryState()
        await asyncio.sleep(60.0)
        async with fixture.backend() as backend:
            await backend.submit(task("a", command=("new",)))
            await backend.wait_until_settled()
            record = backend.task("a")
            assert (record.phase, record.reason) == (TaskPhase.FAILED, "Refused")
            assert "is of another submission of task 'a'; `pyscheduler tasks orphans`" in record.message
            assert set(backend.orphans()) == set(fixture.cluster.pods)
        assert len(fixture.cluster.pods) == 1, "a pod of another submission is not deleted"

    scenario()


KEPT = msgspec.structs.replace(SETTINGS, keep_failed_seconds=100.0)


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("runs", [True, False], ids=["while the backend runs", "while no backend runs"])
def test_ended_pods_that_lose_their_label_are_released(attempts: int, runs: bool) -> None:
    """The pods of all attempts are kept for a time; then they are unlisted, and only the record has their uids."""

    @on_virtual_time
    async def scenario() -> None:
        fixture, retry = BackendFixture(a=Fate.FAIL), RetryPolicy(application=attempts - 1, backoff_seconds=1.0)
        async with fixture.backend(settings=KEPT) as backend:
            await backend.submit(task("a", retry=retry))
            await wait_for_phase(backend, "a", TaskPhase.FAILED)
            assert len(fixture.cluster.pods) == attempts
            if runs:
                remove_labels(fixture)
                await backend.wait_until_settled()
        if not runs:
            remove_labels(fixture)
            fixture.cluster.compact()
            async with fixture.backend(settings=KEPT) as backend:
                await backend.wait_until_settled()
        assert fixture.cluster.pods == {}

    scenario()


@on_virtual_time
async def test_failed_pod_that_loses_its_label_is_released_before_its_task_ends() -> None:
    fixture = BackendFixture(a=Fate.FAIL)
    async with fixture.backend(settings=KEPT) as backend:
        await backend.submit(task("a", retry=RetryPolicy(application=1, backoff_seconds=1000.0)))
        async with asyncio.timeout(60.0):
            while backend.task("a").attempt == 1:  # noqa: ASYNC110  # virtual
                await asyncio.sleep(0.1)
        remove_labels(fixture)
        await asyncio.sleep(150.0)
        assert 1 not in [pod.attempt for pod in fixture.cluster.pods.values()]


@on_virtual_time
async def test_pod_that_ended_and_lost_its_label_before_it_was_recorded_is_found() -> None:
    """The process is killed after the create, and the next one finds a pod that no list or watch has."""
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        submitted = dict(fixture.state.records)
        await wait_for_phase(backend, "a", TaskPhase.RUNNING)
    fixture.state.records = submitted
    remove_labels(fixture)
    await asyncio.sleep(60.0)
    fixture.cluster.compact()
    async with fixture.backend() as backend:
        await backend.submit(task("b"))
        async with asyncio.timeout(300.0):
            await backend.wait_until_settled()
        assert (backend.task("a").phase, backend.task("a").attempt) == (TaskPhase.SUCCEEDED, 1)
    assert (fixture.cluster.created["a"], fixture.cluster.pods) == (1, {})


@on_virtual_time
async def test_adopted_orphan_is_a_task_again() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.RUNNING)
    fixture.state = MemoryState()
    [name] = fixture.cluster.pods
    async with fixture.backend() as backend:
        with pytest.raises(NoOrphan, match="there is no orphan 'x'; `pyscheduler tasks orphans list` shows all"):
            await backend.adopt("x")
        record = await backend.adopt(name)
        assert (record.id, record.attempt, backend.orphans()) == ("a", 1, {})
        assert await backend.adopt(name) == record, "adopting it again changes nothing"
        await backend.wait_until_settled()
        assert backend.task("a").phase is TaskPhase.SUCCEEDED
    assert (fixture.cluster.created["a"], fixture.cluster.pods) == (1, {})


@on_virtual_time
async def test_concurrent_adoptions_of_an_orphan_return_one_record() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.RUNNING)
    fixture.state = MemoryState()
    [name] = fixture.cluster.pods
    get_object = fixture.connection.get_object

    async def get_slowly(kind: ResourceKind, name: str) -> Json:
        await asyncio.sleep(0.1)
        return await get_object(kind, name)

    fixture.connection.get_object = get_slowly  # type: ignore[method-assign]
    async with fixture.backend() as backend:
        first, second = await asyncio.gather(backend.adopt(name), backend.adopt(name))
        assert first.submission == second.submission
        await backend.wait_until_settled()
        assert backend.task("a").phase is TaskPhase.SUCCEEDED


@on_virtual_time
async def test_orphan_is_not_adopted_over_a_task_with_its_id() -> None:
    fixture = BackendFixture(a=Fate.UNSCHEDULABLE)
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await wait_for_phase(backend, "a", TaskPhase.PENDING)
    fixture.state = MemoryState()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await backend.wait_until_settled()
        [name] = backend.orphans()
        with pytest.raises(TaskExists, match=f"'a' exists; forget it before its pod {name} is adopted"):
            await backend.adopt(name)


@on_virtual_time
async def test_template_of_an_adopted_pod_has_nothing_that_the_cluster_added() -> None:
    spec = TaskSpec(
        id="a", image="x", cpu="1", labels={"team": "b"}, annotations={"note": "c"}, node_selector={"d": "e"}
    )
    body = pod_body(TaskRecord(spec=spec, submission="s"), "tasks", "ours")
    container = body["spec"]["containers"][0]
    token = {"name": "kube-api-access-x7", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    stored = {
        **body,
        "metadata": {
            **body["metadata"],
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            **body["spec"],
            "nodeName": "n1",
            "priority": 0,
            "volumes": [{"name": "kube-api-access-x7", "projected": {}}],
            "containers": [{**container, "volumeMounts": [token]}],
        },
    }

    class Client:
        async def get_object(self, *_: object) -> object:
            return stored

    name = body["metadata"]["name"]
    record = await adopted_record(Client(), {name: None}, name, "tasks")  # type: ignore[arg-type,dict-item]
    assert (record.pod_uid, record.submission, record.submitted_at) == ("u", "s", 1767225600.0)
    again = pod_body(record, "tasks", "ours")
    again["spec"].pop("volumes")
    assert again == body, "the next attempt has the pod of the first"


def test_pod_without_a_finalizer_is_created_on_request() -> None:
    record = TaskRecord(spec=task("a"))
    assert pod_body(record, "tasks", "ours", finalizer=False)["metadata"]["finalizers"] == []
