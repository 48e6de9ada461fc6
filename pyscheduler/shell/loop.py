"""The loop that drives the machine: events in, attempts while there are pods, commands out.

Scheduling runs in one thread. Attempts are made in bursts of a few milliseconds, so that watches and bindings never
starve behind a long queue, and no burst starts while the API server is behind with bindings. An event that comes
between two steps of an attempt waits until its end: it would void the attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from pyscheduler.core.commands import Command
from pyscheduler.core.events import Event, Tick
from pyscheduler.core.machine import Machine
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.executor import EventHandler, Executor
from pyscheduler.shell.gc_tuning import collect_by_size

ErrorHandler = Callable[[Exception], None]
BURST = 0.005
"""Seconds of attempts before the event loop gets its turn."""
NAP = 0.001
"""Seconds to rest at least, however early something is due."""


def _raise(problem: Exception) -> None:
    raise problem


class Loop:
    """One machine, one executor. `tell` takes events at any time; attempts begin with `run`."""

    def __init__(
        self,
        machine: Machine,
        make_executor: Callable[[EventHandler], Executor],
        clock: Clock,
        took: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`took` is told the seconds that each attempt's decision cost."""
        self._machine = machine
        self.executor = make_executor(self.handle_event)
        self._clock = clock
        self._took = took
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._spent = 0.0
        """Seconds that the attempt under way has cost."""
        self._running = False
        self._held: deque[tuple[Event, ErrorHandler]] = deque()
        self._collected = 0.0
        """When the garbage collector last had its turn."""

    def handle_event(self, event: Event, refused: ErrorHandler = _raise) -> None:
        """Give the machine an event, at once or after the attempt under way.

        `refused` is called with what the machine raises, a ValueError if the object cannot be read.
        """
        if self._running and (self._held or self._machine.attempting):
            self._held.append((event, refused))
        else:
            self._handle(event, refused)
        self._awake.set()

    def _handle(self, event: Event, refused: ErrorHandler) -> None:
        try:
            commands = self._machine.handle(event)
        except Exception as problem:
            refused(problem)
        else:
            self._carry_out(commands)

    async def run(self) -> None:
        """Make attempts until cancelled."""
        self._running = True
        try:
            while True:
                self._tick()
                self._awake.clear()
                is_busy = self._burst()
                self._collect()
                if is_busy:
                    await asyncio.sleep(0)
                else:
                    self._set_alarm(self._machine.next_wake())
                    await self._awake.wait()
        finally:
            self._stop_alarm()
            self._running = False
            while self._held:
                self._handle(*self._held.popleft())

    def _tick(self) -> None:
        if self._held or self._machine.attempting:
            return
        now = self._clock.now()
        due = self._machine.next_wake()
        if due is not None and due <= now:
            self._carry_out(self._machine.handle(Tick(now)))

    def _burst(self) -> bool:
        """Make attempts for a few milliseconds; whether there may be more to do."""
        machine = self._machine
        now = start = self._clock.now()
        while now - start < BURST:
            if self._held and not machine.attempting:
                self._handle(*self._held.popleft())
                now = self._clock.now()
                continue
            busy = machine.busy
            if not busy and not machine.attempting and self.executor.is_full(machine.ready, machine.nodes):
                return False
            commands = machine.cycle(now)
            if commands is None:
                return False
            before, now = now, self._clock.now()
            if not busy:
                self._decided(now - before)
            self._carry_out(commands)
        return True

    def _collect(self) -> None:
        now = self._clock.now()
        if now - self._collected >= BURST:
            self._collected = now
            collect_by_size()

    def _decided(self, seconds: float) -> None:
        """A step of an attempt has been made; most attempts have one."""
        self._spent += seconds
        if not self._machine.attempting:
            self._took(self._spent)
            self._spent = 0.0

    def _set_alarm(self, due: float | None) -> None:
        """See to it that the loop is awake when time is up for somebody; one timer, not one for each time it rests."""
        if due is None or (self._alarm is not None and self._alarm_at <= due):
            return  # an alarm that has become too early does no harm
        self._stop_alarm()
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(max(due - self._clock.now(), NAP), self._ring)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self._awake.set()

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.executor.carry_out(command)
