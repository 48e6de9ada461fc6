"""How commands are carried out: bindings by a bounded number of workers, everything else behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyscheduler.api import ApiError, ApiWriter, BindPlugin, Cycle, Pod, PostBindPlugin, PreBindPlugin, Rejection
from pyscheduler.core.commands import Bind, BindingPlan, Condition, EventType, Evict, PatchStatus, Record
from pyscheduler.core.events import BindFailed, Bound, Event, EvictFailed
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.shell.executor import Executor
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter
from pyscheduler.shell.kube.traffic import Traffic
from pyscheduler.testing import pod

from .virtual import VirtualClock


@dataclass
class World:
    """An API server that binds when it is told to, and remembers what was asked of it."""

    refusals: dict[str, Exception] = field(default_factory=dict)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: int = 0
    most_under_way: int = 0
    bound: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.let_go.wait()
        self.under_way -= 1
        if pod.name in self.refusals:
            raise self.refusals[pod.name]
        self.bound.append(pod.name)

    async def patch(self, command: PatchStatus) -> None:
        assert command.condition is not None
        self.patched.append(f"{command.pod.name}: {command.condition.message}")

    async def evict(self, command: Evict) -> None:
        raise self.refusals[command.victim.name]

    def record(self, record: Record) -> None:
        self.recorded.append(record.reason)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flush(self, timeout: float) -> int:
        return 0


class Binder(BindPlugin):
    name = "Binder"

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await api.bind(pod, node_name)


class Prepare(PreBindPlugin):
    name = "Prepare"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        return Rejection("no volume") if pod.name == "dry" else None


class Shout(PostBindPlugin):
    name = "Shout"

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        raise RuntimeError("hoarse")


HANDLE = CoreHandle()
PLAIN = BindingPlan((), (Binder(None, HANDLE),), ())
FULL = BindingPlan((Prepare(None, HANDLE),), (Binder(None, HANDLE),), (Shout(None, HANDLE),))


def bind(name: str, plan: BindingPlan = PLAIN) -> Bind:
    return Bind(pod(name).build(), "n1", Cycle(0.0, "default-scheduler", name), plan)


@asynccontextmanager
async def executing(world: World, workers: int = 4) -> AsyncIterator[Executor]:
    api, status, recorder = cast(ApiWriter, world), cast(StatusWriter, world), cast(Recorder, world)
    executor = Executor(api, status, recorder, Traffic(), VirtualClock(), workers)
    executor.tell = world.told.append
    work = asyncio.create_task(executor.run())
    yield executor
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_bindings_are_made_by_so_many_workers_at_a_time() -> None:
    world = World()
    async with executing(world, workers=4) as executor:
        for i in range(40):
            executor.carry_out(bind(f"p{i}"))
        assert executor.is_full
        await settle()
        assert world.under_way == 4
        world.let_go.set()
        await settle()
    assert (len(world.bound), world.most_under_way, executor.unfinished) == (40, 4, 0)
    assert [type(event) for event in world.told] == [Bound] * 40


async def test_a_refusal_is_told_and_the_worker_goes_on() -> None:
    world = World(refusals={"a": ApiError(409, "Conflict", "pod a is already assigned")})
    world.let_go.set()
    async with executing(world, workers=1) as executor:
        executor.carry_out(bind("a"))
        executor.carry_out(bind("b"))
        await settle()
    failed, bound = world.told
    assert isinstance(failed, BindFailed)
    assert failed.message == 'running Bind plugin "Binder": pod a is already assigned'
    assert not failed.rejected
    assert isinstance(bound, Bound)


async def test_pre_bind_may_reject_and_post_bind_cannot_undo() -> None:
    world = World()
    world.let_go.set()
    async with executing(world) as executor:
        executor.carry_out(bind("dry", FULL))
        executor.carry_out(bind("loud", FULL))
        await settle()
    by_uid: Mapping[str, Any] = {event.uid: event for event in world.told if isinstance(event, Bound | BindFailed)}
    assert (by_uid["dry"].message, by_uid["dry"].rejected) == ("no volume", True)
    assert isinstance(by_uid["loud"], Bound)


async def test_only_the_newest_condition_of_a_pod_is_written() -> None:
    world = World()
    one, other = pod("a").build(), pod("b").build()
    async with executing(world) as executor:
        for subject, message in ((one, "first"), (other, "only"), (one, "second")):
            executor.carry_out(PatchStatus(subject, Condition("Unschedulable", message)))
        executor.carry_out(Record(EventType.WARNING, "FailedScheduling", "Scheduling", "first", one))
        await settle()
    assert sorted(world.patched) == ["a: second", "b: only"]
    assert world.recorded == ["FailedScheduling"]


async def test_a_victim_that_lives_on_is_told_to_who_waits_for_its_room() -> None:
    world = World(refusals={"victim": ApiError(500, "InternalError", "etcd is down")})
    async with executing(world) as executor:
        executor.carry_out(Evict(pod("victim").build(), pod("high").build(), "preempted"))
        await settle()
    (told,) = world.told
    assert isinstance(told, EvictFailed)
    assert (told.preemptor_uid, told.message) == ("high", "etcd is down")


@pytest.mark.parametrize("let_go", [True, False])
async def test_drain_waits_for_bindings_but_not_for_ever(let_go: bool) -> None:
    world = World()
    async with executing(world) as executor:
        executor.carry_out(bind("a"))
        await settle()
        if let_go:
            world.let_go.set()
        await executor.drain(timeout=5.0)
    assert world.bound == (["a"] if let_go else [])
