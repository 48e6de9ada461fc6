"""Public behaviour of the task backend, with an in-memory cluster on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend import (
    BackendStopped,
    FixedBudget,
    InsufficientResources,
    KubernetesTaskBackend,
    NamespaceQuota,
    PodState,
    Resources,
    TaskExists,
    TaskFinal,
    TaskGang,
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
from pyscheduler.kube.paths import LEASES
from tests.properties.task_cluster import Cluster, Fate
from tests.properties.task_simulation import SETTINGS, ClusterConnection, CrashSwitch
from tests.virtual_loop import run


class ObjectsConnection(ClusterConnection):
    """Connection to a cluster that also has other objects, by plural and name."""

    def __init__(self, cluster: Cluster, switch: CrashSwitch) -> None:
        super().__init__(cluster, switch)
        self.objects: dict[str, dict[str, Json]] = {}

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        if kind == LEASES:
            return await super().create_object(kind, body)
        self.objects.setdefault(kind.plural, {})[body["metadata"]["name"]] = body
        return body

    async def delete_object(self, kind: ResourceKind, name: str) -> None:
        del self.objects[kind.plural][name]

    async def list_objects(self, kind: ResourceKind, selector: str = "") -> list[Json]:
        return list(self.objects.get(kind.plural, {}).values())


class BackendFixture:
    """Cluster, connection and state of a backend. Pods end as `fates` has it for their task, others succeed in 20 s."""

    def __init__(self, **fates: Fate) -> None:
        self.rng = random.Random(1)
        self.cluster = Cluster(self.rng, lambda task, attempt: fates.get(task, Fate.SUCCEED))
        self.connection = ObjectsConnection(self.cluster, CrashSwitch(self.rng, 0.0))
        self.state = MemoryState()

    @asynccontextmanager
    async def backend(self, cpu: str = "", **more: Any) -> AsyncIterator[KubernetesTaskBackend]:
        budget = more.pop("budget", FixedBudget(Resources.of({"cpu": cpu})) if cpu else None)
        async with KubernetesTaskBackend(
            self.connection,
            self.state,
            budget,
            rng=self.rng,
            **{"clock": Cluster.now, "settings": SETTINGS, **more},
        ) as running:
            yield running


def task(name: str, **more: Any) -> TaskSpec:
    return TaskSpec(id=name, image="x", **{"cpu": "1", **more})


AsyncTest = Callable[[], Awaitable[None]]


def on_virtual_time(function: AsyncTest) -> Callable[[], None]:
    """Run an async test on virtual time."""

    def test() -> None:
        run(function())  # type: ignore[arg-type]

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


@on_virtual_time
async def test_submitting_a_task_twice_creates_one_pod() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await asyncio.gather(*(backend.submit(task("a")) for _ in range(3)))
        await backend.wait_until_settled()
        assert (await backend.submit(task("a"))).phase is TaskPhase.SUCCEEDED
        with pytest.raises(TaskExists, match="'a' exists with another spec"):
            await backend.submit(task("a", cpu="2"))
    assert fixture.connection.calls["create"] == 1


@on_virtual_time
async def test_task_larger_than_the_offer_is_rejected() -> None:
    async with BackendFixture().backend(cpu="3") as backend:
        await backend.submit_all([task("a"), task("b", cpu="1500m")])
        with pytest.raises(InsufficientResources, match="'c' does not fit into the offer: it lacks cpu 500m"):
            await backend.submit(task("c"))
        with pytest.raises(UnknownTask):
            backend.task("c")
        assert backend.offer().free == Resources({"cpu": 500})


@on_virtual_time
async def test_submit_all_submits_in_order_as_the_offer_allows() -> None:
    started: list[str] = []

    async def record_start(record: TaskRecord) -> None:
        if record.phase is TaskPhase.PENDING and record.id not in started:
            started.append(record.id)

    fixture = BackendFixture()
    async with fixture.backend(cpu="2", on_update=record_start) as backend:
        specs = [task(f"t{i:02}") for i in range(12)]
        await backend.submit_all(specs)
        await backend.wait_until_settled()
        assert [record.phase for record in backend.tasks().values()] == [TaskPhase.SUCCEEDED] * 12
        assert sorted(started) == [spec.id for spec in specs]
        calls = {verb: fixture.connection.calls[verb] for verb in ("create", "get", "patch", "delete")}
        assert calls == {"create": 12, "get": 0, "patch": 12, "delete": 12}, "three calls per task"
        with pytest.raises(InsufficientResources, match="larger than the whole budget: it lacks cpu 1"):
            await backend.submit_all([task("huge", cpu="3")])


@on_virtual_time
async def test_waiting_tasks_go_by_priority_and_small_ones_pass_a_large_one_for_a_time() -> None:
    started: list[str] = []

    async def add_start(record: TaskRecord) -> None:
        if record.phase is TaskPhase.PENDING and record.id not in started:
            started.append(record.id)

    settings = msgspec.structs.replace(SETTINGS, backfill_seconds=60.0)
    async with BackendFixture().backend(cpu="2", on_update=add_start, settings=settings) as backend:
        filling = [task(f"low{i}") for i in range(2)]
        large, small = task("large", cpu="2"), [task(f"small{i:02}") for i in range(20)]
        await backend.submit_all(filling)
        waiting = [backend.submit_when_room(spec) for spec in (large, *small, task("urgent", priority=9))]
        await asyncio.gather(*waiting)
        await backend.wait_until_settled()
        assert started[2] == "urgent", "the highest priority first"
        assert started[3] == "small00", "a small task passes the large one"
        assert 5 < started.index("large") < 20, "the large one is not passed for ever"


@on_virtual_time
async def test_withdrawn_task_never_runs() -> None:
    fixture = BackendFixture()
    async with fixture.backend(cpu="1") as backend:
        await backend.submit(task("a"))
        cancelled, withdrawn = backend.submit_when_room(task("b")), backend.submit_when_room(task("c"))
        with pytest.raises(TaskExists, match="'b' waits with another spec"):
            await backend.submit(task("b", cpu="2"))
        cancelled.cancel()
        assert backend.withdraw("c")
        assert not backend.withdraw("c")
        assert withdrawn.cancelled()
        await backend.wait_until_settled()
        assert set(backend.tasks()) == {"a"}


@on_virtual_time
async def test_waiting_tasks_fail_when_the_backend_stops() -> None:
    async with BackendFixture().backend(cpu="1") as backend:
        await backend.submit(task("a"))
        waiting = backend.submit_when_room(task("b"))
    with pytest.raises(BackendStopped):
        await waiting


@on_virtual_time
async def test_task_rejected_by_a_quota_is_retried_once_a_pod_is_deleted() -> None:
    fixture = BackendFixture()
    fixture.cluster.pod_quota = 1
    async with fixture.backend() as backend:
        await backend.submit(task("first"))
        while not backend.task("first").pod_uid:  # noqa: ASYNC110  # virtual
            await asyncio.sleep(0.1)
        for name, priority in (("low", 1), ("high", 2)):
            await backend.submit(task(name, priority=priority))
        for name in ("first", "high", "low"):
            await asyncio.sleep(2.0)
            waiting = {record.reason for record in backend.tasks().values() if not record.pod_uid}
            assert waiting <= {"QuotaExceeded"}, "waiting for room is no failure"
            assert backend.task(name).pod_uid, f"{name} has the room now, not only after a backoff"
            while not backend.task(name).settled:  # noqa: ASYNC110  # virtual
                await asyncio.sleep(0.1)


@on_virtual_time
async def test_offer_is_yielded_when_resources_are_released() -> None:
    async with BackendFixture().backend(cpu="1") as backend:
        offers = backend.offers()
        assert (await anext(offers)).free == Resources({"cpu": 1000})
        await backend.submit(task("a"))
        again = asyncio.create_task(anext(offers))
        await asyncio.sleep(1.0)
        assert not again.done()
        assert (await again).free == Resources({"cpu": 1000})
        assert backend.task("a").phase is TaskPhase.SUCCEEDED
        await offers.aclose()


@on_virtual_time
async def test_update_applies_pod_fields_with_the_next_attempt_and_other_fields_at_once() -> None:
    fixture = BackendFixture(a=Fate.UNSCHEDULABLE)
    async with fixture.backend(cpu="4") as backend:
        await backend.submit(task("a"))
        await asyncio.sleep(5.0)
        await backend.update(task("a", owner={"team": 1}))
        updated = backend.task("a")
        assert (updated.spec.owner, updated.next_spec) == ({"team": 1}, None)
        await backend.update(task("a", cpu="3"))
        updated = backend.task("a")
        assert (updated.spec.cpu, updated.next_spec.cpu if updated.next_spec else "") == ("1", "3")
        assert backend.allocated_resources().cpu == 3000
        with pytest.raises(InsufficientResources):
            await backend.update(task("a", cpu="5"))
        await backend.kill("a")
        await backend.wait_until_settled()
        with pytest.raises(TaskFinal, match="'a' is Killed"):
            await backend.update(task("a"))


@on_virtual_time
async def test_unknown_tasks_and_invalid_specs_raise() -> None:
    with pytest.raises(TypeError, match=r"state is a store such as SqliteState\(path\), not str"):
        KubernetesTaskBackend(BackendFixture().connection, "tasks.db")  # type: ignore[arg-type]
    async with BackendFixture().backend() as backend:
        for call in (backend.kill("a"), backend.forget("a"), backend.update(task("a"))):
            with pytest.raises(UnknownTask, match="there is no task 'a'"):
                await call
        with pytest.raises(TaskProblem, match="task 'a': give either"):
            await backend.submit(TaskSpec(id="a"))


@on_virtual_time
async def test_id_of_a_forgotten_task_can_be_reused() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        with pytest.raises(TaskUnsettled, match="'a' is not over"):
            await backend.forget("a")
        await backend.wait_until_settled()
        await backend.forget("a")
        assert (backend.tasks(), fixture.state.records) == ({}, {})
        await backend.submit(task("a", cpu="2"))
        await backend.wait_until_settled()
    assert fixture.state.records["a"].spec.cpu == "2"


@on_virtual_time
async def test_task_forgotten_during_a_commit_leaves_nothing_to_the_next_of_its_id() -> None:
    class SlowState(MemoryState):
        async def commit(
            self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
        ) -> None:
            await asyncio.sleep(1.0)
            await super().commit(changed, resource_version, forgotten)

    class Connection(ObjectsConnection):
        async def create_pod(self, body: Json) -> PodState:
            self.calls["rejected"] += 1
            if self.calls["rejected"] == 1:
                raise ApiError(422, "Invalid", "spec.containers[0].image: Invalid value")
            return await super().create_pod(body)

    fixture = BackendFixture()
    fixture.state, fixture.connection = SlowState(), Connection(fixture.cluster, fixture.connection._crash_switch)
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        forgotten = False
        while not forgotten:
            with suppress(TaskUnsettled):
                await backend.forget("a")
                forgotten = True
            await asyncio.sleep(0.1)
        await backend.submit(task("a"))
        await backend.wait_until_settled()
        assert backend.task("a").phase is TaskPhase.SUCCEEDED


@on_virtual_time
async def test_final_record_is_delivered_again_until_the_next_update_is_requested() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a"))
        await backend.wait_until_settled()
        async for record in backend.updates():
            assert record.phase is TaskPhase.SUCCEEDED
            break  # the owner dies while it handles the record
    assert not fixture.state.records["a"].acknowledged
    async with fixture.backend() as backend:
        updates = backend.updates()
        again = await anext(updates)
        assert (again.id, again.version) == (record.id, record.version)
        more = asyncio.create_task(anext(updates))
        await asyncio.sleep(1.0)
        assert backend.task("a").acknowledged
        assert not more.done(), "a delivered record is not delivered again"
        more.cancel()


@on_virtual_time
async def test_calls_raise_backend_stopped_when_the_state_is_lost() -> None:
    class LostState(MemoryState):
        async def commit(
            self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
        ) -> None:
            raise StateLost("another process has the lease")

    fixture = BackendFixture()
    fixture.state = LostState()
    async with fixture.backend() as backend:
        with pytest.raises(BackendStopped, match="another process has the lease"):
            await backend.submit(task("a"))
        with pytest.raises(BackendStopped):
            await backend.wait_until_settled()
    assert fixture.connection.calls["create"] == 0, "no API call without a durable record"


@on_virtual_time
async def test_full_disk_is_an_error_within_seconds_and_nothing_is_done_meanwhile() -> None:
    class FullDiskState(MemoryState):
        async def commit(
            self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
        ) -> None:
            if Cluster.now() < full_until:
                raise StateProblem("the disk is full")
            await super().commit(changed, resource_version, forgotten)

    full_until = Cluster.now() + 20.0
    fixture = BackendFixture()
    fixture.state = FullDiskState()
    async with fixture.backend() as backend:
        queued = backend.submit_when_room(task("queued"))
        for call in (backend.submit(task("a")), backend.kill("a")):
            with pytest.raises(StateProblem, match="the disk is full"):
                await call
        assert Cluster.now() < full_until - 8.0, "the owner gets the error within seconds"
        while Cluster.now() < full_until:
            await asyncio.sleep(1.0)
            assert fixture.connection.calls["create"] == 0, "nothing is done that is not stored"
        await asyncio.sleep(60.0)
        assert backend.task("a").phase is TaskPhase.KILLED, "the calls are stored as soon as that is possible"
        await queued
        await backend.submit(task("b"))
        await backend.wait_until_settled()


@on_virtual_time
async def test_record_of_a_finished_task_is_forgotten_after_its_time_to_live() -> None:
    fixture = BackendFixture()
    settings = msgspec.structs.replace(SETTINGS, ttl_seconds_after_finished=100.0)
    delivered: list[str] = []

    async def receive(record: TaskRecord) -> None:
        if record.id == "undelivered":
            raise ConnectionError("the owner is away")
        delivered.append(record.phase)

    async with fixture.backend(settings=settings, on_update=receive) as backend:
        await backend.submit(task("a"))
        await backend.wait_until_settled()
        await asyncio.sleep(50.0)
        assert backend.task("a").acknowledged
        await asyncio.sleep(150.0)
        assert (backend.tasks(), fixture.state.records, delivered[-1]) == ({}, {}, "Succeeded")
        await backend.submit(task("undelivered"))
        await backend.wait_until_settled()
        await asyncio.sleep(300.0)
        assert set(backend.tasks()) == {"undelivered"}, "a result that was not received is kept"


@on_virtual_time
async def test_pods_without_a_task_are_reported_as_orphans_and_not_deleted() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        await backend.submit(task("a", cpu="1"))
        await asyncio.sleep(2.0)
        pod = next(iter(fixture.cluster.pods.values()))
        for name, owner in (("foreign", ""), ("copy", "a")):
            copy = msgspec.structs.replace(
                pod, name=name, uid=name, task=owner, has_finalizer=False, phase="Running", node="n"
            )
            fixture.cluster.put(copy)
        await backend.wait_until_settled()
        assert set(backend.orphans()) == set(fixture.cluster.pods) == {"foreign", "copy"}


@on_virtual_time
async def test_pod_group_exists_as_long_as_its_gang_has_tasks() -> None:
    fixture, plural = BackendFixture(), "podgroups"
    gang = TaskGang(name="crew", size=2)
    async with fixture.backend() as backend:
        await backend.submit_all([task("a", gang=gang), task("b", gang=gang)])
        await asyncio.sleep(3.0)
        assert fixture.connection.objects[plural]["crew"]["spec"] == {"minMember": 2}
        await backend.wait_until_settled()
        await asyncio.sleep(1.0)
        assert fixture.connection.objects[plural] == {}
    fixture.connection.objects[plural]["crew"] = {"metadata": {"name": "crew"}}  # left by a process that crashed
    async with fixture.backend():
        await asyncio.sleep(1.0)
        assert fixture.connection.objects[plural] == {}


@on_virtual_time
async def test_offer_follows_the_resource_quotas_of_the_namespace() -> None:
    fixture = BackendFixture()
    status = {"hard": {"requests.cpu": "4", "pods": "10", "limits.cpu": "1"}, "used": {"requests.cpu": "1500m"}}
    scoped = {"spec": {"scopes": ["Terminating"]}, "status": {"hard": {"pods": "0"}}}
    fixture.connection.objects["resourcequotas"] = {"a": {"status": status}, "b": scoped}
    async with fixture.backend(budget=NamespaceQuota(fixture.connection)) as backend:
        assert backend.offer().free == Resources({"cpu": 2500, "pods": 10})
        await backend.submit(task("a"))
        assert backend.offer().free == Resources({"cpu": 1500, "pods": 9})


@pytest.mark.parametrize("jump", [pytest.param(900.0, id="15 min forward"), pytest.param(-3600.0, id="1 h back")])
def test_system_clock_that_is_set_changes_no_outcome(jump: float) -> None:
    fixture = BackendFixture(waits=Fate.UNSCHEDULABLE)
    offset = 0.0

    async def story() -> None:
        nonlocal offset
        async with fixture.backend(clock=lambda: Cluster.now() + offset) as backend:
            await backend.submit(task("runs"))
            await backend.submit(task("waits", pending_seconds=60.0))
            await asyncio.sleep(5.0)
            offset = jump
            await backend.submit(task("later"))
            await asyncio.sleep(40.0)
            phases = {name: record.phase for name, record in backend.tasks().items()}
            assert phases == {
                "runs": TaskPhase.SUCCEEDED,
                "waits": TaskPhase.PENDING,
                "later": TaskPhase.SUCCEEDED,
            }
            await asyncio.sleep(40.0)
            assert backend.task("waits").reason == "Unschedulable"
            assert backend.task("waits").phase is TaskPhase.FAILED

    run(story())


@on_virtual_time
async def test_task_updated_while_it_runs_goes_back_to_running_with_the_new_spec() -> None:
    phases: list[tuple[int, TaskPhase]] = []

    async def add_phase(record: TaskRecord) -> None:
        phases.append((record.attempt, record.phase))

    fixture = BackendFixture()
    async with fixture.backend(on_update=add_phase) as backend:
        await backend.submit(task("a"))
        while backend.task("a").phase is not TaskPhase.RUNNING:  # noqa: ASYNC110  # virtual
            await asyncio.sleep(0.1)
        await backend.update(task("a", command=("v2",)))
        await backend.wait_until_settled()
        last = backend.task("a")
        assert (last.phase, last.spec.command, last.next_spec) == (TaskPhase.SUCCEEDED, ("v2",), None)
        assert (2, TaskPhase.RUNNING) in phases
        assert (1, TaskPhase.SUCCEEDED) not in phases, "the owner sees one end"


@on_virtual_time
async def test_calls_raise_backend_stopped_before_start_and_after_stop() -> None:
    backend = KubernetesTaskBackend(BackendFixture().connection, MemoryState())
    with pytest.raises(BackendStopped, match="not started"):
        await backend.submit(task("a"))
    fixture = BackendFixture()
    async with fixture.backend() as running:
        await running.submit(task("a"))
    with pytest.raises(BackendStopped, match="has been stopped"):
        await running.kill("a")
    assert running.task("a").phase is not TaskPhase.KILLED
