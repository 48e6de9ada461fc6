"""Scheduling loop: passes events to the core, runs scheduling attempts and executes the resulting commands.

Scheduling runs in one thread. Attempts run in bursts of a few milliseconds, so that a long queue does not starve
watches and bindings, and no burst starts while the concurrency limit of bindings is reached. An event that arrives
between two steps of an attempt is deferred to its end, because it would invalidate the attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pyscheduler.clock import Clock
from pyscheduler.core.events import Event, Tick
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.shell.executor import EventHandler, Executor
from pyscheduler.shell.gc_tuning import CollectorBySize

ErrorHandler = Callable[[Exception], None]
BURST = 0.005
"""Seconds of attempts before the event loop gets a turn."""
MIN_TIMER_SECONDS = 0.001
"""Minimum seconds between two wake-ups by the timer."""


def _raise(problem: Exception) -> None:
    raise problem


class Loop:
    """Runs one `Machine` with one `Executor`. `handle_event` takes events at any time; attempts begin with `run`."""

    def __init__(
        self,
        machine: Machine,
        make_executor: Callable[[EventHandler], Executor],
        clock: Clock,
        observe_duration: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`observe_duration` is called with the seconds of each attempt's decision."""
        self._machine = machine
        self.executor = make_executor(self.handle_event)
        self._clock = clock
        self._observe_duration = observe_duration
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._attempt_seconds = 0.0
        """Seconds of the current attempt so far."""
        self._running = False
        self._deferred: deque[tuple[Event, ErrorHandler]] = deque()
        self._collector, self._collected = CollectorBySize(), 0.0
        """Time of the last garbage collection."""

    def handle_event(self, event: Event, on_error: ErrorHandler = _raise) -> None:
        """Pass an event to the core, at once or after the current attempt.

        `on_error` is called with the exception that the core raises, a ValueError for an invalid object.
        """
        if self._running and (self._deferred or self._machine.is_attempt_paused):
            self._deferred.append((event, on_error))
        else:
            self._handle(event, on_error)
        self._awake.set()

    def _handle(self, event: Event, on_error: ErrorHandler) -> None:
        try:
            commands = self._machine.handle(event)
        except Exception as problem:
            on_error(problem)
        else:
            for command in commands:
                self.executor.execute(command)

    async def run(self) -> None:
        """Run attempts until cancelled."""
        self._running = True
        try:
            while True:
                self._tick()
                self._awake.clear()
                may_have_more = self._burst()
                now = self._clock.now()
                if now - self._collected >= BURST:
                    self._collected = now
                    self._collector.collect()
                if may_have_more:
                    await asyncio.sleep(0)
                else:
                    self._set_alarm(self._machine.next_wake())
                    await self._awake.wait()
        finally:
            self._stop_alarm()
            self._running = False
            while self._deferred:
                self._handle(*self._deferred.popleft())

    def _tick(self) -> None:
        now, due = self._clock.now(), self._machine.next_wake()
        if due is not None and due <= now and not self._deferred and not self._machine.is_attempt_paused:
            self._handle(Tick(now), _raise)

    def _burst(self) -> bool:
        """Run attempts for a few milliseconds. Return True if there may be more."""
        machine, bindings = self._machine, self.executor.bindings
        now = start = self._clock.now()
        while now - start < BURST:
            if self._deferred and not machine.is_attempt_paused:
                self._handle(*self._deferred.popleft())
                now = self._clock.now()
                continue
            step = machine.next_step
            if step is None:
                return False
            if step is CycleStep.ATTEMPT and bindings.is_full(len(machine.active_pods), len(machine.nodes)):
                return False
            commands = machine.cycle(now, step)
            if commands is None:
                return False
            before, now = now, self._clock.now()
            if step is not CycleStep.BACKLOG:
                self._attempt_seconds += now - before
                if not machine.is_attempt_paused:  # most attempts have one step
                    self._observe_duration(self._attempt_seconds)
                    self._attempt_seconds = 0.0
            for command in commands:
                self.executor.execute(command)
        return True

    def _set_alarm(self, due: float | None) -> None:
        """Set the timer for the next timed event; an earlier timer is kept rather than replaced."""
        if due is None or (self._alarm is not None and self._alarm_at <= due):
            return  # waking up too early is harmless
        self._stop_alarm()
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(max(due - self._clock.now(), MIN_TIMER_SECONDS), self._wake)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wake(self) -> None:
        self._alarm = None
        self._awake.set()
