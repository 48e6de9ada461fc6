"""What the owner of a backend may rely on, before a cluster in memory and on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pyscheduler.backend import (
    BackendStopped,
    FixedBudget,
    Gang,
    InsufficientResources,
    KubernetesTaskBackend,
    NamespaceQuota,
    Resources,
    TaskExists,
    TaskFinal,
    TaskPhase,
    TaskProblem,
    TaskRecord,
    TaskSpec,
    TaskUnsettled,
    UnknownTask,
)
from pyscheduler.backend.state import StateLost, StateProblem
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.task import Json
from tests.properties.task_cluster import Cluster, Fate
from tests.properties.task_simulation import SETTINGS, ClusterConnection, CrashSwitch
from tests.properties.virtual_loop import run


class Objects(ClusterConnection):
    """A wire to a cluster that has other objects too, by path and name."""

    def __init__(self, cluster: Cluster, fuse: CrashSwitch) -> None:
        super().__init__(cluster, fuse)
        self.objects: dict[str, dict[str, Json]] = {}

    async def create_object(self, path: str, body: Json) -> None:
        self.objects.setdefault(path, {})[body["metadata"]["name"]] = body

    async def delete_object(self, path: str, name: str) -> None:
        del self.objects[path][name]

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        return list(self.objects.get(path, {}).values())


class Stage:
    """A cluster in which every pod meets the fate of its task, `fates`; others run for 20 s at most and succeed."""

    def __init__(self, **fates: Fate) -> None:
        self.chance = random.Random(1)
        self.cluster = Cluster(self.chance, lambda task, attempt: fates.get(task, Fate.SUCCEED))
        self.wire = Objects(self.cluster, CrashSwitch(self.chance, 0.0))
        self.state = MemoryState()

    @asynccontextmanager
    async def backend(self, cpu: str = "", **more: Any) -> AsyncIterator[KubernetesTaskBackend]:
        budget = more.pop("budget", FixedBudget(Resources.of({"cpu": cpu})) if cpu else None)
        async with KubernetesTaskBackend(
            self.wire, self.state, budget, settings=SETTINGS, clock=Cluster.now, rng=self.chance, **more
        ) as running:
            yield running


def task(name: str, **more: Any) -> TaskSpec:
    return TaskSpec(id=name, image="x", **{"cpu": "1", **more})


Story = Callable[[], Awaitable[None]]


def virtual(story: Story) -> Callable[[], None]:
    """A test on virtual time."""

    def played() -> None:
        run(story())  # type: ignore[arg-type]

    played.__name__, played.__doc__ = story.__name__, story.__doc__
    return played


@virtual
async def test_submitting_twice_is_submitting_once() -> None:
    stage = Stage()
    async with stage.backend() as backend:
        await backend.submit(task("a"))
        await asyncio.gather(*(backend.submit(task("a")) for _ in range(3)))
        await backend.wait_until_settled()
        assert (await backend.submit(task("a"))).phase is TaskPhase.SUCCEEDED
        with pytest.raises(TaskExists, match="'a' exists with another spec"):
            await backend.submit(task("a", cpu="2"))
    assert stage.wire.calls["create"] == 1


@virtual
async def test_what_the_offer_has_no_room_for_is_refused() -> None:
    async with Stage().backend(cpu="3") as backend:
        await backend.submit_all([task("a"), task("b", cpu="1500m")])
        with pytest.raises(InsufficientResources, match="'c' does not fit into the offer: it lacks cpu 500m"):
            await backend.submit(task("c"))
        with pytest.raises(UnknownTask):
            backend.task("c")
        assert backend.offer().free == Resources({"cpu": 500})


@virtual
async def test_many_tasks_go_through_a_small_offer_in_order() -> None:
    started: list[str] = []

    def hear(record: TaskRecord) -> None:
        if record.phase is TaskPhase.PENDING and record.id not in started:
            started.append(record.id)

    stage = Stage()
    async with stage.backend(cpu="2", on_update=hear) as backend:
        specs = [task(f"t{i:02}") for i in range(12)]
        await backend.submit_all(specs)
        await backend.wait_until_settled()
        assert [record.phase for record in backend.tasks().values()] == [TaskPhase.SUCCEEDED] * 12
        assert sorted(started) == [spec.id for spec in specs]
        calls = {verb: stage.wire.calls[verb] for verb in ("create", "get", "patch", "delete")}
        assert calls == {"create": 12, "get": 0, "patch": 12, "delete": 12}, "three calls a task"
        with pytest.raises(InsufficientResources, match="larger than the whole budget: it lacks cpu 1"):
            await backend.submit_all([task("huge", cpu="3")])


@virtual
async def test_offers_are_made_again_when_resources_come_back() -> None:
    async with Stage().backend(cpu="1") as backend:
        offers = backend.offers()
        assert (await anext(offers)).free == Resources({"cpu": 1000})
        await backend.submit(task("a"))
        again = asyncio.create_task(anext(offers))
        await asyncio.sleep(1.0)
        assert not again.done()
        assert (await again).free == Resources({"cpu": 1000})
        assert backend.task("a").phase is TaskPhase.SUCCEEDED
        await offers.aclose()


@virtual
async def test_an_update_of_a_running_task_counts_at_once_where_its_pod_does_not_show_it() -> None:
    stage = Stage(a=Fate.UNSCHEDULABLE)
    async with stage.backend(cpu="4") as backend:
        await backend.submit(task("a"))
        await asyncio.sleep(5.0)
        await backend.update(task("a", owner={"team": 1}))
        found = backend.task("a")
        assert (found.spec.owner, found.next_spec) == ({"team": 1}, None)
        await backend.update(task("a", cpu="3"))
        found = backend.task("a")
        assert (found.spec.cpu, found.next_spec.cpu if found.next_spec else "") == ("1", "3")
        assert backend.allocated_resources().cpu == 3000
        with pytest.raises(InsufficientResources):
            await backend.update(task("a", cpu="5"))
        await backend.kill("a")
        await backend.wait_until_settled()
        with pytest.raises(TaskFinal, match="'a' is Killed"):
            await backend.update(task("a"))


@virtual
async def test_what_is_asked_of_tasks_that_are_not_there() -> None:
    async with Stage().backend() as backend:
        for ask in (backend.kill("a"), backend.forget("a"), backend.update(task("a"))):
            with pytest.raises(UnknownTask, match="there is no task 'a'"):
                await ask
        with pytest.raises(TaskProblem, match="task 'a': give either"):
            await backend.submit(TaskSpec(id="a"))


@virtual
async def test_a_settled_task_can_be_forgotten_and_its_id_used_again() -> None:
    stage = Stage()
    async with stage.backend() as backend:
        await backend.submit(task("a"))
        with pytest.raises(TaskUnsettled, match="'a' is not over"):
            await backend.forget("a")
        await backend.wait_until_settled()
        await backend.forget("a")
        assert (backend.tasks(), stage.state.records) == ({}, {})
        await backend.submit(task("a", cpu="2"))
        await backend.wait_until_settled()
    assert stage.state.records["a"].spec.cpu == "2"


@virtual
async def test_an_end_counts_as_told_when_the_next_update_is_asked_for() -> None:
    stage = Stage()
    async with stage.backend() as backend:
        await backend.submit(task("a"))
        await backend.wait_until_settled()
        async for record in backend.updates():
            assert record.phase is TaskPhase.SUCCEEDED
            break  # the owner dies over it
    assert not stage.state.records["a"].told
    async with stage.backend() as backend:
        updates = backend.updates()
        again = await anext(updates)
        assert (again.id, again.version) == (record.id, record.version)
        more = asyncio.create_task(anext(updates))
        await asyncio.sleep(1.0)
        assert backend.task("a").told
        assert not more.done(), "it is told once"
        more.cancel()


@virtual
async def test_whoever_waits_hears_that_the_state_is_lost() -> None:
    class Lost(MemoryState):
        async def commit(
            self, changed: Sequence[TaskRecord], place: str | None = None, forgotten: Sequence[str] = ()
        ) -> None:
            raise StateLost("another process has the lease")

    stage = Stage()
    stage.state = Lost()
    async with stage.backend() as backend:
        with pytest.raises(BackendStopped, match="another process has the lease"):
            await backend.submit(task("a"))
        with pytest.raises(BackendStopped):
            await backend.wait_until_settled()
    assert stage.wire.calls["create"] == 0, "nothing is done that is not written down"


@virtual
async def test_a_full_disk_is_waited_for() -> None:
    class Full(MemoryState):
        async def commit(
            self, changed: Sequence[TaskRecord], place: str | None = None, forgotten: Sequence[str] = ()
        ) -> None:
            if Cluster.now() < full_until:
                raise StateProblem("the disk is full")
            await super().commit(changed, place, forgotten)

    full_until = Cluster.now() + 20.0
    stage = Stage()
    stage.state = Full()
    async with stage.backend() as backend:
        await backend.submit(task("a"))
        assert Cluster.now() >= full_until
        await backend.wait_until_settled()


@virtual
async def test_pods_that_nobody_knows_are_left_alone_and_reported() -> None:
    stage = Stage()
    async with stage.backend() as backend:
        await backend.submit(task("a", cpu="1"))
        await asyncio.sleep(2.0)
        pod = next(iter(stage.cluster.pods.values()))
        for name, owner in (("foreign", ""), ("copy", "a")):
            copy = msgspec.structs.replace(
                pod, name=name, uid=name, task=owner, has_finalizer=False, phase="Running", node="n"
            )
            stage.cluster.put(copy)
        await backend.wait_until_settled()
        assert set(backend.orphans()) == set(stage.cluster.pods) == {"foreign", "copy"}


@virtual
async def test_a_gang_has_its_group_as_long_as_it_has_tasks() -> None:
    stage, path = Stage(), "apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    crew = Gang(name="crew", size=2)
    async with stage.backend() as backend:
        await backend.submit_all([task("a", gang=crew), task("b", gang=crew)])
        await asyncio.sleep(3.0)
        assert stage.wire.objects[path]["crew"]["spec"] == {"minMember": 2}
        await backend.wait_until_settled()
        await asyncio.sleep(1.0)
        assert stage.wire.objects[path] == {}
    stage.wire.objects[path]["crew"] = {"metadata": {"name": "crew"}}  # as if the process had died before
    async with stage.backend():
        await asyncio.sleep(1.0)
        assert stage.wire.objects[path] == {}


@virtual
async def test_a_quota_is_a_budget() -> None:
    stage = Stage()
    status = {"hard": {"requests.cpu": "4", "pods": "10", "limits.cpu": "1"}, "used": {"requests.cpu": "1500m"}}
    scoped = {"spec": {"scopes": ["Terminating"]}, "status": {"hard": {"pods": "0"}}}
    stage.wire.objects["api/v1/resourcequotas"] = {"a": {"status": status}, "b": scoped}
    async with stage.backend(budget=NamespaceQuota(stage.wire)) as backend:
        assert backend.offer().free == Resources({"cpu": 2500, "pods": 10})
        await backend.submit(task("a"))
        assert backend.offer().free == Resources({"cpu": 1500, "pods": 9})


@virtual
async def test_a_backend_that_is_not_started_says_so() -> None:
    backend = KubernetesTaskBackend(Stage().wire, MemoryState())
    with pytest.raises(BackendStopped, match="not started"):
        await backend.submit(task("a"))
    stage = Stage()
    async with stage.backend() as running:
        await running.submit(task("a"))
    with pytest.raises(BackendStopped, match="has been stopped"):
        await running.kill("a")
    assert running.task("a").phase is not TaskPhase.KILLED
