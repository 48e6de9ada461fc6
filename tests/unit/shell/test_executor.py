"""How commands are carried out: bindings by a bounded number of workers, everything else behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import Mock

import pytest

from pyscheduler.api import ApiError, ApiWriter, BindPlugin, Cycle, Pod, PostBindPlugin, PreBindPlugin, Rejection
from pyscheduler.core.commands import (
    Bind,
    BindingPlan,
    CallExtenders,
    CancelBinding,
    Condition,
    EventType,
    Evict,
    PatchStatus,
    Record,
)
from pyscheduler.core.events import BindFailed, Bound, Event, EvictFailed
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.binding.concurrency import LARGE_QUEUE, SMALL, SMALL_QUEUE, ConcurrencyLimit
from pyscheduler.shell.evictor import REST
from pyscheduler.shell.executor import Executor
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter
from pyscheduler.shell.patcher import WORKERS as PATCHERS
from pyscheduler.testing import pod

from .virtual import VirtualClock


@dataclass
class ExecutorFixture:
    """An API server that binds when it is told to, and remembers what was asked of it."""

    refusals: dict[str, Exception] = field(default_factory=dict)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: int = 0
    most_under_way: int = 0
    bound: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.let_go.wait()
        self.under_way -= 1
        if pod.name in self.refusals:
            raise self.refusals[pod.name]
        self.bound.append(pod.name)

    async def sleep(self, seconds: float) -> None:
        await self.awake.wait()

    async def patch(self, command: PatchStatus) -> None:
        assert command.condition is not None
        self.patched.append(f"{command.pod.name}: {command.condition.message}")

    async def evict(self, command: Evict) -> bool:
        if command.victim.name in self.refusals:
            raise self.refusals[command.victim.name]
        return command.victim.name != "gone"

    def record(self, record: Record) -> None:
        self.recorded.append(record.reason)
        self.notes.append(record.note)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flush(self, timeout: float) -> int:
        return 0


class Slow(ExecutorFixture):
    """What is said of pod `a` first takes until the test lets go."""

    patching = 0

    async def patch(self, command: PatchStatus) -> None:
        assert command.condition is not None
        self.patching += 1
        if command.condition.message == "first":
            await self.awake.wait()
        await super().patch(command)


@dataclass
class Late(ExecutorFixture):
    """Each binding takes so many seconds."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    seconds: float = 0.0

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.clock.at += self.seconds
        self.let_go.set()
        await super().bind(pod, node_name)

    async def get(self, path: str) -> dict[str, Any]:
        raise ApiError(404, "NotFound", "no such pod")


class Binder(BindPlugin):
    name = "Binder"

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await api.bind(pod, node_name)


class Prepare(PreBindPlugin):
    name = "Prepare"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        if pod.name.startswith("slow"):
            await api.sleep(60)
        return Rejection("no volume") if pod.name == "dry" else None


class Shout(PostBindPlugin):
    name = "Shout"

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        raise RuntimeError("hoarse")


HANDLE = CoreHandle()
PLAIN = BindingPlan((), (Binder(None, HANDLE),), ())
FULL = BindingPlan((Prepare(None, HANDLE),), (Binder(None, HANDLE),), (Shout(None, HANDLE),))


def unfit(name: str, message: str, node_name: str | None = None) -> PatchStatus:
    return PatchStatus(pod(name).build(), Condition("Unschedulable", message), node_name)


def bind(name: str, plan: BindingPlan = PLAIN) -> Bind:
    return Bind(pod(name).build(), "n1", Cycle(0.0, "default-scheduler", name), plan)


@asynccontextmanager
async def executing(
    world: ExecutorFixture, workers: int = 4, clock: VirtualClock | None = None
) -> AsyncIterator[Executor]:
    api, status, recorder = cast(ApiWriter, world), cast(StatusWriter, world), cast(Recorder, world)
    executor = Executor(api, status, recorder, InFlightCounter(), clock or VirtualClock(), ConcurrencyLimit(workers))
    executor.emit = world.told.append
    work = asyncio.create_task(executor.run())
    yield executor
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_bindings_are_made_by_so_many_workers_at_a_time() -> None:
    world = ExecutorFixture()
    async with executing(world, workers=4) as executor:
        for i in range(40):
            executor.carry_out(bind(f"p{i}"))
        assert executor.is_full(1, SMALL)
        await settle()
        assert world.under_way == 4
        world.let_go.set()
        await settle()
    assert (len(world.bound), world.most_under_way, executor.unfinished) == (40, 4, 0)
    assert [type(event) for event in world.told] == [Bound] * 40


@pytest.mark.parametrize(
    ("nodes", "queue"),
    [pytest.param(SMALL, SMALL_QUEUE, id="small"), pytest.param(SMALL + 1, LARGE_QUEUE, id="large")],
)
async def test_no_pod_is_decided_on_while_the_concurrency_limit_is_reached(nodes: int, queue: float) -> None:
    world = ExecutorFixture()
    async with executing(world, workers=60) as executor:
        full = []
        for i in range(int(queue)):
            full.append(executor.is_full(1, nodes))
            executor.carry_out(bind(f"p{i}"))
        full.append(executor.is_full(1, nodes))
        world.let_go.set()
        await settle()
    assert full == [False] * int(queue) + [True]


@pytest.mark.parametrize(("seconds", "observed"), [(0.01, 1), (1.5, 2)], ids=["refused at once", "overload"])
async def test_bindings_that_fail_are_observed_only_if_they_took_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, observed: int
) -> None:
    """A refusal at once would be the base latency, and every other binding seem to have waited in a queue."""
    took: list[float] = []
    monkeypatch.setattr(ConcurrencyLimit, "observe", lambda _, seconds, __: took.append(seconds))
    clock = VirtualClock()
    world = Late({"a": ApiError(500, "InternalError", "etcdserver: request timed out")}, clock=clock, seconds=seconds)
    async with executing(world, clock=clock) as executor:
        for name in "ab":
            executor.carry_out(bind(name))
        await settle()
    assert took == pytest.approx([seconds] * observed)


async def test_a_refusal_is_told_and_the_worker_goes_on() -> None:
    world = ExecutorFixture(refusals={"a": ApiError(409, "Conflict", "pod a is already assigned")})
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


async def test_pods_that_are_being_prepared_keep_nobody_waiting_and_are_bound_in_their_turn() -> None:
    world = ExecutorFixture()
    world.let_go.set()
    async with executing(world, workers=2) as executor:
        for i in range(40):
            executor.carry_out(bind(f"slow{i}", FULL))
        await settle()
        assert (executor.is_full(1, SMALL), executor.unfinished, world.bound) == (False, 40, [])
        executor.carry_out(bind("quick"))
        await settle()
        assert world.bound == ["quick"]
        world.let_go.clear()
        world.awake.set()
        await settle()
        assert (executor.is_full(1, SMALL), world.under_way) == (True, 2)
        world.let_go.set()
        await settle()
    assert (len(world.bound), world.most_under_way, executor.unfinished) == (41, 2, 0)


async def test_pre_bind_may_reject_and_post_bind_cannot_undo() -> None:
    world = ExecutorFixture()
    world.let_go.set()
    async with executing(world) as executor:
        executor.carry_out(bind("dry", FULL))
        executor.carry_out(bind("loud", FULL))
        await settle()
    by_uid: Mapping[str, Any] = {event.uid: event for event in world.told if isinstance(event, Bound | BindFailed)}
    assert (by_uid["dry"].message, by_uid["dry"].rejected) == ("no volume", True)
    assert isinstance(by_uid["loud"], Bound)


class Confused(PreBindPlugin, BindPlugin):
    """Answers what is no answer, or gives up as if it had been told to."""

    name = "Confused"
    binds_without_api = True

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
        return await self.answer(pod, "prepare")

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
        return await self.answer(pod, "bind")

    async def answer(self, pod: Pod, at: str) -> Any:
        if pod.name == f"{at}-cancelled":
            raise asyncio.CancelledError
        return 7 if pod.name == f"{at}-nonsense" else None


async def test_a_plugin_that_answers_nonsense_or_is_cancelled_costs_its_pod_an_attempt_and_nobody_a_worker() -> None:
    confused = Confused(None, HANDLE)
    plan, world = BindingPlan((confused,), (confused,), ()), ExecutorFixture()
    names = [f"{at}-{how}" for at in ("prepare", "bind") for how in ("nonsense", "cancelled")]
    async with executing(world, workers=1) as executor:
        for name in names:
            executor.carry_out(bind(name, plan))
        await settle()
        executor.carry_out(bind("fine", plan))
        await settle()
        assert executor.unfinished == 0
    told = {event.uid: event for event in world.told if isinstance(event, Bound | BindFailed)}
    assert [type(told[name]) for name in names] == [BindFailed] * 4
    assert isinstance(told["fine"], Bound)


async def test_whoever_knows_extenders_is_given_what_they_are_to_be_asked() -> None:
    asked: list[CallExtenders] = []
    async with executing(ExecutorFixture()) as executor:
        executor.consult = asked.append
        executor.carry_out(CallExtenders(1, pod("a").build(), ()))
    assert [command.id for command in asked] == [1]


async def test_only_the_newest_condition_of_a_pod_is_written() -> None:
    world = ExecutorFixture()
    async with executing(world) as executor:
        for name, message in (("a", "first"), ("b", "only"), ("a", "second")):
            executor.carry_out(unfit(name, message))
        executor.carry_out(Record(EventType.WARNING, "FailedScheduling", "Scheduling", "first", pod("a").build()))
        await settle()
    assert sorted(world.patched) == ["a: second", "b: only"]
    assert world.recorded == ["FailedScheduling"]


async def test_a_status_that_replaces_another_loses_nothing_of_it() -> None:
    nominated = unfit("a", "no room", "n1")
    cleared = PatchStatus(pod("a").build(), None, "")
    assert cleared.after(nominated) == PatchStatus(cleared.pod, nominated.condition, "")
    world = ExecutorFixture()
    async with executing(world) as executor:
        executor.carry_out(nominated)
        executor.carry_out(cleared)
        await settle()
    assert world.patched == ["a: no room"]


async def test_what_is_said_of_a_pod_later_is_written_later() -> None:
    world = Slow()
    async with executing(world) as executor:
        executor.carry_out(unfit("a", "first"))
        await settle()
        executor.carry_out(unfit("a", "second"))
        executor.carry_out(unfit("b", "other"))
        await settle()
        assert world.patched == ["b: other"], "the server might take the older one last"
        world.awake.set()
        await settle()
    assert world.patched == ["b: other", "a: first", "a: second"]


async def test_what_waits_to_be_said_of_a_pod_without_a_node_is_not_said_once_it_is_bound() -> None:
    """The API server would refuse the nomination, and take the condition: a bound pod that fits nowhere."""
    world, others = Slow(), [f"p{number:02}" for number in range(PATCHERS)]
    world.let_go.set()
    async with executing(world) as executor:
        for name in (*others, "a"):
            message = "no room" if name == "a" else "first"
            executor.carry_out(unfit(name, message, "n1"))
        await settle()  # the others are being written, and `a` waits
        executor.carry_out(bind("a"))
        await settle()
        world.awake.set()
        await settle()
    assert world.bound == ["a"]
    assert sorted(world.patched) == [f"{name}: first" for name in others]


async def test_statuses_of_several_pods_are_written_side_by_side() -> None:
    """Four at a time, 10,000 pods that fit nowhere would take two minutes on a server that is 50 ms away."""
    world = Slow()
    async with executing(world) as executor:
        for number in range(2 * PATCHERS):
            executor.carry_out(unfit(f"p{number}", "first"))
        await settle()
        assert (world.patching, PATCHERS) == (PATCHERS, 16)
        world.awake.set()
        await settle()
    assert len(world.patched) == 2 * PATCHERS


async def test_a_binding_does_not_overtake_what_is_being_said_of_its_pod() -> None:
    world = Slow()
    world.let_go.set()
    async with executing(world) as executor:
        executor.carry_out(unfit("a", "first"))
        await settle()
        for name in "ab":
            executor.carry_out(bind(name))
        await settle()
        assert world.bound == ["b"]
        world.awake.set()
        await settle()
    assert (world.patched, world.bound) == (["a: first"], ["b", "a"])


class Elsewhere(BindPlugin):
    """Binds through somebody else, as an extender does: no refused call to the API server holds it back."""

    name = "Elsewhere"

    def __init__(self) -> None:
        super().__init__(None, HANDLE)
        self.bound: list[str] = []

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        self.bound.append(pod.name)


async def test_a_pod_that_is_deleted_while_its_binding_waits_for_what_is_being_said_of_it_is_not_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, elsewhere, called_off = Slow(), Elsewhere(), list[tuple[str, ...]]()
    world.let_go.set()
    async with executing(world) as executor:
        executor.instrument = cast(Instrument, Mock(called_off=lambda *who: called_off.append(who)))
        for name, plan in (("a", PLAIN), ("b", BindingPlan((), (elsewhere,), ()))):
            executor.carry_out(unfit(name, "first"))
            await settle()
            executor.carry_out(bind(name, plan))
            await settle()
            executor.carry_out(CancelBinding(name))
        world.awake.set()
        await settle()
        assert executor.unfinished == 0
    assert (world.patched, world.bound, world.told) == (["a: first", "b: first"], [], [])
    assert (elsewhere.bound, called_off, caplog.records) == ([], [("", "Bind", "gone")] * 2, [])


async def test_why_a_binding_failed_is_said_after_what_was_taken_back() -> None:
    world = ExecutorFixture(refusals={"a": ApiError(409, "Conflict", "taken")})
    world.let_go.set()
    async with executing(world) as executor:
        executor.emit = lambda _: executor.carry_out(
            PatchStatus(pod("a").build(), Condition("SchedulerError", "taken"))
        )
        executor.carry_out(bind("a"))
        await settle()
    assert world.patched == ["a: taken"]


async def test_a_victim_that_lives_on_is_told_to_who_waits_for_its_room() -> None:
    world = ExecutorFixture(refusals={"victim": ApiError(500, "InternalError", "etcd is down")})
    async with executing(world) as executor:
        executor.carry_out(Evict(pod("victim").build(), pod("high").build(), "preempted", PREEMPTED))
        await settle()
    (told,) = world.told
    assert isinstance(told, EvictFailed)
    assert (told.preemptor_uid, told.victim_uid, told.message) == ("high", "victim", "etcd is down")
    assert told.at == VirtualClock().at + REST  # what refuses for ever is not asked as fast as it answers
    assert world.recorded == []


async def test_a_victim_in_pre_bind_is_not_deleted_but_its_binding_is_called_off() -> None:
    class Waits(PreBindPlugin):
        name = "Waits"

        async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
            await asyncio.Event().wait()

    world = ExecutorFixture()
    async with executing(world) as executor:
        for settled in (0, 1):  # before PreBind has begun, and in it
            executor.carry_out(bind("victim", BindingPlan((Waits(None, HANDLE),), PLAIN.bind, ())))
            if settled:
                await settle()
            executor.carry_out(Evict(pod("victim").build(), pod("high").build(), "", PREEMPTED, "DefaultPreemption"))
            await settle()
            assert executor.unfinished == 0
    assert [(type(e), e.message) for e in world.told if isinstance(e, BindFailed)] == [
        (BindFailed, "preempted by DefaultPreemption")
    ] * 2
    assert world.notes == ["by another (in kube-scheduler memory)."] * 2


async def test_a_victim_that_pre_bind_has_let_go_is_deleted() -> None:
    world = ExecutorFixture()
    async with executing(world) as executor:
        executor.carry_out(bind("victim", FULL))
        await settle()
        executor.carry_out(Evict(pod("victim").build(), pod("high").build(), "", PREEMPTED, "DefaultPreemption"))
        await settle()
    assert world.notes == ["by another"]


async def test_only_a_victim_that_was_evicted_has_an_event() -> None:
    world = ExecutorFixture()
    async with executing(world) as executor:
        for name in ("victim", "gone"):
            executor.carry_out(Evict(pod(name).build(), pod("high").build(), "preempted", PREEMPTED))
        await settle()
    assert (world.recorded, world.told) == (["Preempted"], [])


PREEMPTED = Record(EventType.NORMAL, "Preempted", "Preempting", "by another", pod("victim").build())


@pytest.mark.parametrize("let_go", [True, False])
async def test_drain_waits_for_bindings_but_not_for_ever(let_go: bool) -> None:
    world = ExecutorFixture()
    async with executing(world) as executor:
        executor.carry_out(bind("a"))
        await settle()
        if let_go:
            world.let_go.set()
        await executor.drain(timeout=5.0)
    assert world.bound == (["a"] if let_go else [])
