"""The task backend with an API server: submit, fail, retry, kill, deletion by others, gangs, offers, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from pyscheduler.backend import (
    BackendSettings,
    FixedBudget,
    InsufficientResources,
    KubernetesClient,
    KubernetesTaskBackend,
    Resources,
    RetryPolicy,
    TaskGang,
    TaskPhase,
    TaskRecord,
    TaskSpec,
)
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.template import FINALIZER
from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, hollow_nodes
from tests.faults import waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUNS, FAILS = "pyscheduler.io/run-seconds", "pyscheduler.io/fail-after-seconds"
GANG = {"multiPoint": {"enabled": [{"name": "Gang"}]}}
QUICK = RetryPolicy(backoff_seconds=0.2)
SECONDS, POLL_SECONDS = 60.0, 0.05


class Stage:
    """The test's namespace, with nodes and a scheduler that all tests share (`ground` names both)."""

    def __init__(self, plane: Plane, namespace: str, ground: str) -> None:
        self.plane, self.namespace, self.ground = plane, namespace, ground
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.calls: dict[str, int] = {}

    def task(self, name: str, seconds: float | None = None, fails: float | None = None, **more: object) -> TaskSpec:
        """Return a task that succeeds or fails after so many seconds; with neither it runs forever."""
        notes = {RUNS: seconds, FAILS: fails}
        return TaskSpec(
            id=name,
            image="busybox:1.37",
            cpu="100m",
            memory="32Mi",
            annotations={note: str(value) for note, value in notes.items() if value is not None},
            **{"retry": QUICK, "node_selector": {POOL: self.ground}, **more},  # type: ignore[arg-type]
        )

    @asynccontextmanager
    async def backend(
        self, state: MemoryState | None = None, budget: FixedBudget | None = None
    ) -> AsyncIterator[KubernetesTaskBackend]:
        """Run a backend."""
        settings = BackendSettings(name=self.namespace, scheduler=self.ground, kill_grace_seconds=2)
        async with KubernetesClient(self.namespace, kubeconfig=self.plane.kubeconfig) as client:
            try:
                async with KubernetesTaskBackend(client, state or MemoryState(), budget, settings=settings) as running:
                    yield running
            finally:
                self.calls = dict(client.calls)

    async def pod_of(self, backend: KubernetesTaskBackend, task: str, phase: TaskPhase) -> str:
        """Wait until the task is in the phase; return the name of its pod."""
        await until(backend, task, lambda record: record.phase is phase)
        found = await self.plane.api.get(self.pods)
        uid = backend.task(task).pod_uid
        names: dict[str, str] = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in found["items"]}
        return names[uid]

    async def left(self) -> list[Json]:
        """Return the existing pods."""
        items: list[Json] = (await self.plane.api.get(self.pods))["items"]
        return items


async def until(backend: KubernetesTaskBackend, task: str, holds: Callable[[TaskRecord], bool]) -> TaskRecord:
    """Wait until a predicate of the task's record is true; return the record."""
    for _ in range(int(SECONDS / POLL_SECONDS)):
        if holds(backend.task(task)):
            return backend.task(task)
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(f"not as expected after {SECONDS:g} s: {backend.task(task)}")


async def settle(backend: KubernetesTaskBackend) -> None:
    async with asyncio.timeout(SECONDS):
        await backend.wait_until_settled()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ground(control_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    name, folder = "tasks-ground", tmp_path_factory.mktemp("tasks")
    async with hollow_nodes(control_plane, name, 3), scheduler(control_plane, Configured(name, GANG), folder):
        yield name


@pytest.fixture
def stage(control_plane: Plane, namespace: str, ground: str) -> Stage:
    return Stage(control_plane, namespace, ground)


async def test_tasks_succeed_and_fail_without_leaving_objects(stage: Stage) -> None:
    well = [stage.task(f"well-{i}", seconds=0.5) for i in range(10)]
    ill = [stage.task(f"ill-{i}", fails=0.5) for i in range(3)]
    async with stage.backend() as backend:
        records: dict[str, TaskRecord] = {}
        await backend.submit_all([*well, *ill])
        async with asyncio.timeout(SECONDS):
            async for record in backend.updates():
                records[record.id] = record
                if len(records) == 13 and all(record.final for record in records.values()):
                    break
        await settle(backend)
        assert {r.id for r in records.values() if r.phase is TaskPhase.SUCCEEDED} == {spec.id for spec in well}
        failed = [record for record in records.values() if record.phase is TaskPhase.FAILED]
        assert {(r.reason, r.exit_code, r.attempt) for r in failed} == {("Failed", 1, 1)}
        assert not backend.allocated_resources()
    assert await stage.left() == []
    calls = {method: stage.calls[method] for method in ("POST", "PATCH", "DELETE")}
    assert calls == {"POST": 14, "PATCH": 13, "DELETE": 13}, "three calls a task, and a Lease"


async def test_failing_task_is_retried_by_its_policy(stage: Stage) -> None:
    retry = RetryPolicy(application=2, backoff_seconds=0.1)
    async with stage.backend() as backend:
        await backend.submit(stage.task("stubborn", fails=0.3, retry=retry))
        await settle(backend)
        record = backend.task("stubborn")
        assert (record.phase, record.attempt, record.failures) == (TaskPhase.FAILED, 3, {"application": 3})
    assert await stage.left() == []


async def test_task_is_killed_in_every_phase(stage: Stage) -> None:
    nowhere = stage.task("nowhere", node_selector={POOL: "there-is-none"})
    async with stage.backend() as backend:
        await backend.submit_all([stage.task("runs"), nowhere])
        await until(backend, "runs", lambda record: record.phase is TaskPhase.RUNNING)
        waits = await until(backend, "nowhere", lambda record: record.reason == "Unschedulable")
        assert waits.phase is TaskPhase.PENDING
        for task in ("runs", "nowhere"):
            await backend.kill(task)
        await settle(backend)
        assert {record.phase for record in backend.tasks().values()} == {TaskPhase.KILLED}
        assert not backend.allocated_resources()
    assert await stage.left() == []


async def test_pods_deleted_by_others_are_recreated(stage: Stage) -> None:
    api = stage.plane.api
    async with stage.backend() as backend:
        await backend.submit_all([stage.task("one"), stage.task("two"), stage.task("three")])
        gently = await stage.pod_of(backend, "one", TaskPhase.RUNNING)
        force = await stage.pod_of(backend, "two", TaskPhase.RUNNING)
        evicted = await stage.pod_of(backend, "three", TaskPhase.RUNNING)
        await api.delete(f"{stage.pods}/{gently}", {"gracePeriodSeconds": 1})
        await api.delete(f"{stage.pods}/{force}", {"gracePeriodSeconds": 0})
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
        await api.create(f"{stage.pods}/{evicted}/eviction", {**eviction, "deleteOptions": {"gracePeriodSeconds": 1}})
        for task in ("one", "two", "three"):
            again = await until(backend, task, lambda r: (r.attempt, r.phase) == (2, TaskPhase.RUNNING))
            assert again.failures == {"infrastructure": 1}
            await backend.kill(task)
        await settle(backend)
    assert await stage.left() == []


async def test_outcome_while_the_backend_is_down_is_recorded(stage: Stage) -> None:
    """Pods end, one is deleted, and one is force-deleted, while the backend is down."""
    state, api = MemoryState(), stage.plane.api
    async with stage.backend(state) as backend:
        await backend.submit(stage.task("taken"))
        taken = await stage.pod_of(backend, "taken", TaskPhase.RUNNING)
        await backend.submit_all([stage.task("ended", seconds=5), stage.task("deleted", seconds=5)])
        deleted = await stage.pod_of(backend, "deleted", TaskPhase.RUNNING)
    await api.until(f"{stage.pods}/{deleted}", lambda pod: pod["status"]["phase"] == "Succeeded")
    await api.delete(f"{stage.pods}/{deleted}")
    kept = await api.get(f"{stage.pods}/{deleted}")
    assert kept["metadata"]["finalizers"] == [FINALIZER]
    await api.patch(f"{stage.pods}/{taken}", {"metadata": {"finalizers": None}})
    await api.delete(f"{stage.pods}/{taken}", {"gracePeriodSeconds": 0})
    async with stage.backend(state) as backend:
        await until(backend, "taken", lambda record: (record.attempt, record.phase) == (2, TaskPhase.RUNNING))
        await backend.kill("taken")
        await settle(backend)
        found = {task: (record.phase, record.attempt) for task, record in backend.tasks().items()}
    assert found["ended"] == found["deleted"] == (TaskPhase.SUCCEEDED, 1)
    assert await stage.left() == []


async def test_impossible_task_fails_with_a_reason(stage: Stage) -> None:
    broken = TaskSpec(id="broken", pod={"spec": {"containers": [{"name": "Not A Name", "image": "x"}]}})
    async with stage.backend() as backend:
        await backend.submit(broken)
        await settle(backend)
        record = backend.task("broken")
    assert (record.phase, record.reason) == (TaskPhase.FAILED, "Refused")
    assert "spec.containers[0].name" in record.message


async def test_offer_shrinks_and_recovers(stage: Stage) -> None:
    budget = FixedBudget(Resources.of({"cpu": "250m"}))
    async with stage.backend(budget=budget) as backend:
        await backend.submit_all([stage.task("a", seconds=0.5), stage.task("b")])
        with pytest.raises(InsufficientResources, match="lacks cpu 50m"):
            await backend.submit(stage.task("c", seconds=0.5))
        async with asyncio.timeout(SECONDS):
            async for offer in backend.offers():
                if offer.free is not None and offer.free.cpu >= 100:
                    break
        await backend.submit(stage.task("c", seconds=0.5))
        await backend.kill("b")
        await settle(backend)
        assert backend.offer().free == Resources.of({"cpu": "250m"})


async def test_gang_starts_together_and_its_group_is_deleted(stage: Stage) -> None:
    api, groups = stage.plane.api, f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{stage.namespace}/podgroups"
    crew = [stage.task(f"crew-{i}", seconds=0.5, gang=TaskGang(name="crew", size=4)) for i in range(4)]
    async with stage.backend() as backend:
        await backend.submit_all(crew[:3])
        waits = await until(backend, "crew-0", lambda record: record.phase is TaskPhase.PENDING)
        assert not waits.node
        assert (await api.get(f"{groups}/crew"))["spec"]["minMember"] == 4
        assert {record.phase for record in backend.tasks().values()} <= {TaskPhase.PENDING, TaskPhase.SUBMITTED}
        await backend.submit(crew[3])
        await settle(backend)
        assert {record.phase for record in backend.tasks().values()} == {TaskPhase.SUCCEEDED}
        await api.until(groups, lambda found: found["items"] == [])


async def test_preempted_task_is_retried(stage: Stage) -> None:
    """Uses a priority class and the scheduler's preemption."""
    api, name = stage.plane.api, f"{stage.namespace}-high"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(classes, {"metadata": {"name": name}, "value": 1000})
    try:
        async with stage.backend() as backend:
            await backend.submit_all(_of_cpu(stage, f"low-{i}", "3500m") for i in range(3))
            for i in range(3):
                await until(backend, f"low-{i}", lambda record: record.phase is TaskPhase.RUNNING)
            await backend.submit(_of_cpu(stage, "high", "3500m", priority_class=name))
            await until(backend, "high", lambda record: record.phase is TaskPhase.RUNNING)

            async def tried_again() -> bool:
                return any(record.attempt == 2 for record in backend.tasks().values())

            await waiting.until(tried_again)
            again = [record for record in backend.tasks().values() if record.attempt == 2]
            assert [record.failures for record in again] == [{"infrastructure": 1}]
            for task in list(backend.tasks()):
                await backend.kill(task)
            await settle(backend)
    finally:
        await api.delete(f"{classes}/{name}")
    assert await stage.left() == []


def _of_cpu(stage: Stage, name: str, cpu: str, **more: object) -> TaskSpec:
    template = {
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "busybox:1.37", "resources": {"requests": {"cpu": cpu}}}],
        }
    }
    return TaskSpec(id=name, pod=template, node_selector={POOL: stage.ground}, retry=QUICK, **more)  # type: ignore[arg-type]
