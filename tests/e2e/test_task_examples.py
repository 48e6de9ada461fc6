"""Examples that build platforms on the task backend, and its blocking form, on an API server."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import pytest_asyncio

from pyscheduler.backend import (
    BackendStopped,
    BlockingTaskBackend,
    KubernetesClient,
    TaskPhase,
    TaskRecord,
    TaskSpec,
    UnknownTask,
    UpdatePolicy,
)
from pyscheduler.backend.state import StateInUse
from pyscheduler.backend.state.memory import MemoryState
from tests.docs.pages import EXAMPLES
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, hollow_nodes

pytestmark = pytest.mark.asyncio(loop_scope="session")
GROUND = "examples-ground"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quick(control_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TaskSpec]:
    """A task that takes half a second, with nodes and a scheduler for it."""
    folder = tmp_path_factory.mktemp("examples")
    async with hollow_nodes(control_plane, GROUND, 2), scheduler(control_plane, Configured(GROUND), folder):
        yield TaskSpec(
            id="template",
            image="busybox:1.37",
            cpu="100m",
            scheduler=GROUND,
            node_selector={POOL: GROUND},
            annotations={"pyscheduler.io/run-seconds": "0.5"},
        )


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def example(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.usefixtures("examples")
async def test_executor_adopts_the_jobs_of_an_earlier_process(
    control_plane: Plane, namespace: str, quick: TaskSpec, tmp_path: Path
) -> None:
    run = example("task_executor").main
    events: dict[str, TaskRecord] = await asyncio.to_thread(
        run, str(control_plane.kubeconfig), str(tmp_path / "tasks.db"), namespace, quick
    )
    assert {key: (record.phase, record.attempt) for key, record in events.items()} == {
        f"job-{i}": (TaskPhase.SUCCEEDED, 1) for i in range(3)
    }


@pytest.mark.usefixtures("examples")
async def test_elastic_cluster_follows_the_load(control_plane: Plane, namespace: str, quick: TaskSpec) -> None:
    worker = msgspec.structs.replace(quick, annotations={})
    sizes = await example("elastic_cluster").main(str(control_plane.kubeconfig), namespace, worker)
    assert sizes == [1, 4, 2, 1]


@pytest.mark.usefixtures("examples")
async def test_graph_runs_each_step_after_those_that_it_needs(
    control_plane: Plane, namespace: str, quick: TaskSpec
) -> None:
    phases = await example("task_graph").main(str(control_plane.kubeconfig), namespace, quick)
    assert phases == dict.fromkeys(("extract", "clean", "train", "report", "publish"), "Succeeded")


async def test_blocking_backend_has_the_guarantees_of_the_other(
    control_plane: Plane, namespace: str, quick: TaskSpec
) -> None:
    def story() -> None:
        seen: list[tuple[str, TaskPhase]] = []
        state = MemoryState()
        client = KubernetesClient(namespace, kubeconfig=control_plane.kubeconfig)
        with BlockingTaskBackend(client, state, on_update=lambda r: seen.append((r.id, r.phase))) as backend:
            records = backend.submit_all(msgspec.structs.replace(quick, id=f"t{i}") for i in range(3))
            assert [record.id for record in records] == ["t0", "t1", "t2"]
            backend.submit_when_room(msgspec.structs.replace(quick, id="later")).result(timeout=30.0)
            with pytest.raises(UnknownTask):
                backend.kill("nowhere")
            with (
                pytest.raises(StateInUse),
                BlockingTaskBackend(KubernetesClient(namespace, kubeconfig=control_plane.kubeconfig), state),
            ):
                pass
            backend.wait_until_settled(timeout=60.0)
            assert {record.phase for record in backend.tasks().values()} == {TaskPhase.SUCCEEDED}
            assert backend.problem == ""
            assert 'pyscheduler_tasks{phase="Succeeded"} 4.0' in backend.backend.metrics.text()
        assert {task for task, phase in seen if phase.final} == {"t0", "t1", "t2", "later"}

    await asyncio.to_thread(story)


async def test_calls_of_other_threads_end_when_the_blocking_backend_is_closed(
    control_plane: Plane, namespace: str
) -> None:
    begun = threading.Event()

    async def never_done() -> None:
        begun.set()
        await asyncio.Event().wait()

    def story() -> None:
        client = KubernetesClient(namespace, kubeconfig=control_plane.kubeconfig)
        with ThreadPoolExecutor() as others:
            with BlockingTaskBackend(client, MemoryState()) as backend:
                waiting = others.submit(backend._await, never_done)
                assert begun.wait(timeout=10.0)
            with pytest.raises(BackendStopped, match="closed during the call"):
                waiting.result(timeout=10.0)
        with pytest.raises(BackendStopped, match="is closed"):
            backend.tasks()

    await asyncio.to_thread(story)


async def test_updated_task_runs_again_with_the_new_spec(control_plane: Plane, namespace: str, quick: TaskSpec) -> None:
    def story() -> None:
        client = KubernetesClient(namespace, kubeconfig=control_plane.kubeconfig)
        spec = msgspec.structs.replace(quick, id="up", annotations={"pyscheduler.io/run-seconds": "2"})
        with BlockingTaskBackend(client, MemoryState()) as backend:
            backend.submit(spec)
            for record in backend.updates():
                if record.phase is TaskPhase.RUNNING and record.attempt == 1 and record.next_spec is None:
                    backend.update(msgspec.structs.replace(spec, command=("v2",), update_policy=UpdatePolicy.RUN))
                if record.final:
                    break
            assert (record.phase, record.attempt, record.spec.command) == (TaskPhase.SUCCEEDED, 2, ("v2",))
            backend.wait_until_settled(timeout=60.0)

    await asyncio.to_thread(story)
