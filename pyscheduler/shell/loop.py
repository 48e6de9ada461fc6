"""The loop that drives the machine: events in, attempts while there are pods, commands out.

Scheduling runs in one thread. Attempts are made in bursts of a few milliseconds, so that watches and bindings never
starve behind a long queue, and no burst starts while the API server is behind with bindings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pyscheduler.core.commands import Command
from pyscheduler.core.events import Event, Tick
from pyscheduler.core.machine import Machine
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.executor import Executor

BURST = 0.005
"""Seconds of attempts before the event loop gets its turn."""
NAP = 0.001
"""Seconds to rest at least, however early something is due."""


class Loop:
    """One machine, one executor. `tell` takes events at any time; attempts begin with `run`."""

    def __init__(
        self, machine: Machine, executor: Executor, clock: Clock, took: Callable[[float], None] = lambda _: None
    ) -> None:
        """`took` is told the seconds that each attempt's decision cost."""
        self._machine = machine
        self._executor = executor
        self._clock = clock
        self._took = took
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        executor.tell = self.tell

    def tell(self, event: Event) -> None:
        """Give the machine an event at once. ValueError if it is about an object that cannot be read."""
        self._carry_out(self._machine.handle(event))
        self._awake.set()

    async def run(self) -> None:
        """Make attempts until cancelled."""
        try:
            while True:
                self._tick()
                self._awake.clear()
                if self._burst():
                    await asyncio.sleep(0)
                else:
                    self._set_alarm(self._machine.next_wake())
                    await self._awake.wait()
        finally:
            self._stop_alarm()

    def _tick(self) -> None:
        now = self._clock.now()
        due = self._machine.next_wake()
        if due is not None and due <= now:
            self._carry_out(self._machine.handle(Tick(now)))

    def _burst(self) -> bool:
        """Make attempts for a few milliseconds; whether there may be more to do."""
        now = start = self._clock.now()
        while now - start < BURST:
            if self._executor.is_full(self._machine.ready, self._machine.nodes):
                return False
            commands = self._machine.cycle(now)
            if commands is None:
                return False
            before, now = now, self._clock.now()
            self._took(now - before)
            self._carry_out(commands)
        return True

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
            self._executor.carry_out(command)
