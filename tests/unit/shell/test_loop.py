"""Scheduling loop between core and executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import cast

import pytest

from pyscheduler.core.commands import Command
from pyscheduler.core.events import Bound, Event, PodGone, Tick
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.shell.executor import Executor
from pyscheduler.shell.loop import Loop
from tests.unit.kube.virtual import SteppedClock


@dataclass
class FakeMachine:
    """Fake core with a number of attempts and an optional wake-up time."""

    attempts: int = 0
    nodes: Sized = range(1)
    wake: float | None = None
    cycles: int = 0
    handled: list[Event] = field(default_factory=list)
    slices: int = 0
    """Calls of `cycle` before attempts are made."""
    is_attempt_paused: bool = False
    broken: str = ""
    """UID of a pod for which `handle` raises."""

    @property
    def next_step(self) -> CycleStep | None:
        if self.slices:
            return CycleStep.BACKLOG
        if self.is_attempt_paused:
            return CycleStep.RESUME
        return CycleStep.ATTEMPT if self.attempts else None

    @property
    def active_pods(self) -> range:
        return range(self.attempts)

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, PodGone) and event.uid == self.broken:
            raise ValueError("unreadable")
        self.handled.append(event)
        if isinstance(event, Tick):
            self.wake = None
        return []

    def cycle(self, now: float, step: CycleStep | None = None) -> list[Command] | None:
        if self.slices:
            self.slices -= 1
            return []
        if not self.attempts:
            return None
        self.attempts -= 1
        self.cycles += 1
        return []

    def next_wake(self) -> float | None:
        return self.wake


@dataclass
class FakeExecutor:
    """Fake executor that is not full while at least `room_from` pods wait in at most `room_to` nodes."""

    room_from: float = 0
    room_to: float = inf
    emit: Callable[[Event], None] = lambda _: None

    def made_for(self, emit: Callable[[Event], None]) -> Executor:
        self.emit = emit
        return cast(Executor, self)

    @property
    def bindings(self) -> FakeExecutor:
        return self

    def is_full(self, waiting: int, nodes: int) -> bool:
        return waiting < self.room_from or nodes > self.room_to

    @property
    def handlers(self) -> Mapping[type[Command], Callable[[Command], None]]:
        return {}  # the fake machine returns no commands


@asynccontextmanager
async def looping(machine: FakeMachine, executor: FakeExecutor, clock: SteppedClock) -> AsyncIterator[Loop]:
    loop = Loop(cast(Machine, machine), executor.made_for, clock)
    work = asyncio.create_task(loop.run())
    await settle()
    yield loop
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def deliver(loop: Loop, event: Event) -> None:
    """Pass an event to the loop and let it run."""
    loop.handle_event(event)
    await settle()


async def test_attempts_run_until_none_is_left_and_again_after_an_event() -> None:
    machine = FakeMachine(attempts=3)
    async with looping(machine, FakeExecutor(), SteppedClock()) as loop:
        assert machine.cycles == 3
        machine.attempts = 2
        await settle()
        assert machine.cycles == 3
        await deliver(loop, PodGone(1.0, "default", "a", "a"))
        assert machine.cycles == 5


async def test_attempt_waits_until_the_executor_is_no_longer_full() -> None:
    machine, executor = FakeMachine(attempts=1), FakeExecutor(room_from=inf)
    async with looping(machine, executor, SteppedClock()):
        executor.emit(Bound(1.0, "a"))
        await settle()
        assert machine.cycles == 0
        executor.room_from = 0
        executor.emit(Bound(1.0, "b"))
        await settle()
        assert machine.cycles == 1


async def test_is_full_receives_the_number_of_waiting_pods() -> None:
    machine = FakeMachine(attempts=5)
    async with looping(machine, FakeExecutor(room_from=3), SteppedClock()):
        assert machine.cycles == 3


@pytest.mark.parametrize(("nodes", "cycles"), [(3, 1), (4, 0)])
async def test_is_full_receives_the_number_of_nodes(nodes: int, cycles: int) -> None:
    machine = FakeMachine(attempts=1, nodes=range(nodes))
    async with looping(machine, FakeExecutor(room_to=3), SteppedClock()):
        assert machine.cycles == cycles


async def test_tick_is_emitted_at_the_wake_up_time() -> None:
    machine, clock = FakeMachine(), SteppedClock()
    machine.wake = clock.now()
    async with looping(machine, FakeExecutor(), clock):
        assert machine.handled == [Tick(clock.now())]


@pytest.mark.parametrize("turns", range(6))
async def test_loop_stops_when_cancelled_together_with_an_event(turns: int) -> None:
    machine, clock = FakeMachine(), SteppedClock()
    machine.wake = clock.now() + 100
    loop = Loop(cast(Machine, machine), FakeExecutor().made_for, clock)
    work = asyncio.create_task(loop.run())
    await settle()
    loop.handle_event(PodGone(1.0, "default", "a", "a"))
    for _ in range(turns):
        await asyncio.sleep(0)
    work.cancel()
    await settle()
    ended = work.cancelled()
    work.cancel()
    assert ended


async def test_core_makes_progress_while_the_executor_is_full() -> None:
    machine = FakeMachine(attempts=1, slices=7)
    async with looping(machine, FakeExecutor(room_from=inf), SteppedClock()):
        assert (machine.slices, machine.cycles) == (0, 0)


async def test_event_during_an_attempt_is_handled_after_it() -> None:
    machine, clock = FakeMachine(is_attempt_paused=True), SteppedClock()
    machine.wake = clock.now()
    first, second = PodGone(1.0, "default", "a", "a"), PodGone(1.0, "default", "b", "b")
    async with looping(machine, FakeExecutor(), clock) as loop:
        await deliver(loop, first)
        assert machine.handled == []
        machine.is_attempt_paused = False
        await deliver(loop, second)
        assert machine.handled[:2] == [first, second]


async def test_invalid_object_in_a_deferred_event_is_reported() -> None:
    machine, problems = FakeMachine(is_attempt_paused=True, broken="a"), list[Exception]()
    async with looping(machine, FakeExecutor(), SteppedClock()) as loop:
        loop.handle_event(PodGone(1.0, "default", "a", "a"), problems.append)
        machine.is_attempt_paused = False
        await deliver(loop, PodGone(1.0, "default", "b", "b"))
    assert [str(problem) for problem in problems] == ["unreadable"]
    assert len(machine.handled) == 1


async def test_deferred_events_are_handled_when_the_loop_stops() -> None:
    machine = FakeMachine(is_attempt_paused=True)
    async with looping(machine, FakeExecutor(), SteppedClock()) as loop:
        loop.handle_event(Bound(1.0, "a"))
        assert machine.handled == []
    loop.handle_event(Bound(1.0, "b"))
    assert machine.handled == [Bound(1.0, "a"), Bound(1.0, "b")]
