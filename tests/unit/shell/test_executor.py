"""Execution of commands: bindings by a bounded number of workers, everything else with lower priority."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
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
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.binding.concurrency import LARGE_QUEUE, SMALL, SMALL_QUEUE, ConcurrencyLimit, InFlightCounter
from pyscheduler.shell.evictor import REST
from pyscheduler.shell.executor import ApiClients, Executor
from pyscheduler.shell.writers.recorder import Recorder
from pyscheduler.shell.writers.status import StatusWriter
from pyscheduler.testing import pod
from tests.unit.kube.virtual import VirtualClock


@dataclass
class ExecutorFixture:
    """Fake API server that binds when `release` is set, and records the calls."""

    refusals: dict[str, Exception] = field(default_factory=dict)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    most_in_flight: int = 0
    bound: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extender_calls: list[CallExtenders] = field(default_factory=list)
    instrument: Instrument = field(default_factory=Instrument)
    on_event: Callable[[Event], None] | None = None
    """Called for each event after it was stored."""

    def emit_event(self, event: Event) -> None:
        self.emitted.append(event)
        if self.on_event is not None:
            self.on_event(event)

    def call_extenders(self, command: CallExtenders, _: Callable[[Event], None]) -> None:
        self.extender_calls.append(command)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await self.release.wait()
        self.in_flight -= 1
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
    """The status write with the message `first` waits until the test sets `awake`."""

    patching = 0

    async def patch(self, command: PatchStatus) -> None:
        assert command.condition is not None
        self.patching += 1
        if command.condition.message == "first":
            await self.awake.wait()
        await super().patch(command)


@dataclass
class Late(ExecutorFixture):
    """Each binding takes `seconds`."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    seconds: float = 0.0

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.clock.at += self.seconds
        self.release.set()
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
        raise RuntimeError("a bug")


HANDLE = empty_handle()
PLAIN = BindingPlan((), (Binder(None, HANDLE),), ())
FULL = BindingPlan((Prepare(None, HANDLE),), (Binder(None, HANDLE),), (Shout(None, HANDLE),))


def unfit(name: str, message: str, node_name: str | None = None) -> PatchStatus:
    return PatchStatus(pod(name).build(), Condition("Unschedulable", message), node_name)


def bind(name: str, plan: BindingPlan = PLAIN) -> Bind:
    return Bind(pod(name).build(), "n1", Cycle(0.0, "default-scheduler", name), plan)


@asynccontextmanager
async def executing(
    fixture: ExecutorFixture, workers: int = 4, clock: VirtualClock | None = None
) -> AsyncIterator[Executor]:
    api, status, recorder = cast(ApiWriter, fixture), cast(StatusWriter, fixture), cast(Recorder, fixture)
    executor = Executor(
        ApiClients(api, status, recorder, InFlightCounter()),
        clock or VirtualClock(),
        ConcurrencyLimit(workers),
        fixture.emit_event,
        instrument=fixture.instrument,
        call_extenders=fixture.call_extenders,
        binding_timeout=0.0,
    )
    work = asyncio.create_task(executor.run())
    yield executor
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def settle() -> None:
    """Run all tasks until they wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_bindings_in_flight_are_bounded_by_the_workers() -> None:
    fixture = ExecutorFixture()
    async with executing(fixture, workers=4) as executor:
        for i in range(40):
            executor.execute(bind(f"p{i}"))
        assert executor.bindings.is_full(1, SMALL)
        await settle()
        assert fixture.in_flight == 4
        fixture.release.set()
        await settle()
    assert (len(fixture.bound), fixture.most_in_flight, executor.unfinished) == (40, 4, 0)
    assert [type(event) for event in fixture.emitted] == [Bound] * 40


@pytest.mark.parametrize(
    ("nodes", "queue"),
    [pytest.param(SMALL, SMALL_QUEUE, id="small"), pytest.param(SMALL + 1, LARGE_QUEUE, id="large")],
)
async def test_executor_is_full_while_the_concurrency_limit_is_reached(nodes: int, queue: float) -> None:
    fixture = ExecutorFixture()
    async with executing(fixture, workers=60) as executor:
        full = []
        for i in range(int(queue)):
            full.append(executor.bindings.is_full(1, nodes))
            executor.execute(bind(f"p{i}"))
        full.append(executor.bindings.is_full(1, nodes))
        fixture.release.set()
        await settle()
    assert full == [False] * int(queue) + [True]


@pytest.mark.parametrize(("seconds", "observed"), [(0.01, 1), (1.5, 2)], ids=["rejected at once", "overload"])
async def test_bindings_that_fail_are_observed_only_if_they_took_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, observed: int
) -> None:
    """A fast failure would become the base latency, and all other bindings would seem queued."""
    took: list[float] = []
    monkeypatch.setattr(ConcurrencyLimit, "observe", lambda _, seconds, __: took.append(seconds))
    clock = VirtualClock()
    fixture = Late({"a": ApiError(500, "InternalError", "etcdserver: request timed out")}, clock=clock, seconds=seconds)
    async with executing(fixture, clock=clock) as executor:
        for name in "ab":
            executor.execute(bind(name))
        await settle()
    assert took == pytest.approx([seconds] * observed)


async def test_rejected_binding_is_emitted_and_the_worker_continues() -> None:
    fixture = ExecutorFixture(refusals={"a": ApiError(409, "Conflict", "pod a is already assigned")})
    fixture.release.set()
    async with executing(fixture, workers=1) as executor:
        executor.execute(bind("a"))
        executor.execute(bind("b"))
        await settle()
    failed, bound = fixture.emitted
    assert isinstance(failed, BindFailed)
    assert failed.message == 'running Bind plugin "Binder": pod a is already assigned'
    assert not failed.rejected
    assert isinstance(bound, Bound)


async def test_pods_in_pre_bind_do_not_occupy_workers() -> None:
    fixture = ExecutorFixture()
    fixture.release.set()
    async with executing(fixture, workers=2) as executor:
        for i in range(40):
            executor.execute(bind(f"slow{i}", FULL))
        await settle()
        assert (executor.bindings.is_full(1, SMALL), executor.unfinished, fixture.bound) == (False, 40, [])
        executor.execute(bind("quick"))
        await settle()
        assert fixture.bound == ["quick"]
        fixture.release.clear()
        fixture.awake.set()
        await settle()
        assert (executor.bindings.is_full(1, SMALL), fixture.in_flight) == (True, 2)
        fixture.release.set()
        await settle()
    assert (len(fixture.bound), fixture.most_in_flight, executor.unfinished) == (41, 2, 0)


async def test_pre_bind_may_reject_and_post_bind_failure_is_ignored() -> None:
    fixture = ExecutorFixture()
    fixture.release.set()
    async with executing(fixture) as executor:
        executor.execute(bind("dry", FULL))
        executor.execute(bind("loud", FULL))
        await settle()
    by_uid: Mapping[str, Any] = {event.uid: event for event in fixture.emitted if isinstance(event, Bound | BindFailed)}
    assert (by_uid["dry"].message, by_uid["dry"].rejected) == ("no volume", True)
    assert isinstance(by_uid["loud"], Bound)


class Confused(PreBindPlugin, BindPlugin):
    """Returns an invalid value, or raises CancelledError."""

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


async def test_invalid_return_value_or_cancelled_error_fails_the_pod_but_not_the_worker() -> None:
    confused = Confused(None, HANDLE)
    plan, fixture = BindingPlan((confused,), (confused,), ()), ExecutorFixture()
    names = [f"{at}-{how}" for at in ("prepare", "bind") for how in ("nonsense", "cancelled")]
    async with executing(fixture, workers=1) as executor:
        for name in names:
            executor.execute(bind(name, plan))
        await settle()
        executor.execute(bind("fine", plan))
        await settle()
        assert executor.unfinished == 0
    emitted = {event.uid: event for event in fixture.emitted if isinstance(event, Bound | BindFailed)}
    assert [type(emitted[name]) for name in names] == [BindFailed] * 4
    assert isinstance(emitted["fine"], Bound)


async def test_extender_calls_are_passed_on() -> None:
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        executor.execute(CallExtenders(1, pod("a").build(), ()))
    assert [command.id for command in fixture.extender_calls] == [1]


class Elsewhere(BindPlugin):
    """Binds without the API server, as an extender does: no rejected call stops it."""

    name = "Elsewhere"

    def __init__(self) -> None:
        super().__init__(None, HANDLE)
        self.bound: list[str] = []

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        self.bound.append(pod.name)


async def test_pod_deleted_while_its_binding_waits_for_a_status_write_is_not_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture, elsewhere, cancelled = Slow(), Elsewhere(), list[tuple[str, ...]]()
    fixture.release.set()
    fixture.instrument = cast(Instrument, Mock(binding_cancelled=lambda *labels: cancelled.append(labels)))
    async with executing(fixture) as executor:
        for name, plan in (("a", PLAIN), ("b", BindingPlan((), (elsewhere,), ()))):
            executor.execute(unfit(name, "first"))
            await settle()
            executor.execute(bind(name, plan))
            await settle()
            executor.execute(CancelBinding(name))
        fixture.awake.set()
        await settle()
        assert executor.unfinished == 0
    assert (fixture.patched, fixture.bound, fixture.emitted) == (["a: first", "b: first"], [], [])
    assert (elsewhere.bound, cancelled, caplog.records) == ([], [("", "Bind", "gone")] * 2, [])


async def test_failed_binding_is_written_to_the_status() -> None:
    fixture = ExecutorFixture(refusals={"a": ApiError(409, "Conflict", "taken")})
    fixture.release.set()
    async with executing(fixture) as executor:
        fixture.on_event = lambda _: executor.execute(
            PatchStatus(pod("a").build(), Condition("SchedulerError", "taken"))
        )
        executor.execute(bind("a"))
        await settle()
    assert fixture.patched == ["a: taken"]


async def test_failed_eviction_is_emitted_after_a_pause() -> None:
    fixture = ExecutorFixture(refusals={"victim": ApiError(500, "InternalError", "etcd is down")})
    async with executing(fixture) as executor:
        executor.execute(Evict(pod("victim").build(), pod("high").build(), "preempted", PREEMPTED))
        await settle()
    (emitted,) = fixture.emitted
    assert isinstance(emitted, EvictFailed)
    assert (emitted.preemptor_uid, emitted.victim_uid, emitted.message) == ("high", "victim", "etcd is down")
    assert emitted.at == VirtualClock().at + REST  # a permanent failure is not retried in a tight loop
    assert fixture.recorded == []


async def test_victim_in_pre_bind_is_cancelled_instead_of_deleted() -> None:
    class Waits(PreBindPlugin):
        name = "Waits"

        async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
            await asyncio.Event().wait()

    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        for settled in (0, 1):  # before PreBind has begun, and in it
            executor.execute(bind("victim", BindingPlan((Waits(None, HANDLE),), PLAIN.bind, ())))
            if settled:
                await settle()
            executor.execute(Evict(pod("victim").build(), pod("high").build(), "", PREEMPTED, "DefaultPreemption"))
            await settle()
            assert executor.unfinished == 0
    assert [(type(e), e.message) for e in fixture.emitted if isinstance(e, BindFailed)] == [
        (BindFailed, "preempted by DefaultPreemption")
    ] * 2
    assert fixture.notes == ["by another (in kube-scheduler memory)."] * 2


async def test_victim_after_pre_bind_is_deleted() -> None:
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        executor.execute(bind("victim", FULL))
        await settle()
        executor.execute(Evict(pod("victim").build(), pod("high").build(), "", PREEMPTED, "DefaultPreemption"))
        await settle()
    assert fixture.notes == ["by another"]


async def test_only_an_evicted_victim_gets_an_event() -> None:
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        for name in ("victim", "gone"):
            executor.execute(Evict(pod(name).build(), pod("high").build(), "preempted", PREEMPTED))
        await settle()
    assert (fixture.recorded, fixture.emitted) == (["Preempted"], [])


PREEMPTED = Record(EventType.NORMAL, "Preempted", "Preempting", "by another", pod("victim").build())


@pytest.mark.parametrize("release", [True, False])
async def test_drain_waits_for_bindings_with_a_timeout(release: bool) -> None:
    fixture = ExecutorFixture()
    async with executing(fixture) as executor:
        executor.execute(bind("a"))
        await settle()
        if release:
            fixture.release.set()
        await executor.drain(timeout=5.0)
    assert fixture.bound == (["a"] if release else [])
