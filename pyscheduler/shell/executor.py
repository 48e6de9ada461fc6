"""Carries the machine's commands out: bindings first, on a bounded number of connections, everything else behind them.

`Bindings` does the first, the evictor makes room, the recorder writes Events, and a few workers here write statuses.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.core.commands import Bind, CallOff, Command, Consult, PatchStatus, Record
from pyscheduler.core.events import Event
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.bindings import Bindings
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.evictor import Evictor
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter
from pyscheduler.shell.kube.traffic import Traffic

log = logs.get("executor")
WORKERS: Final = 96
"""The most bindings under way; an API server of default settings has 245 calls of service accounts in hand at once."""
PATCHERS = 4
"""Workers for conditions and nominations."""
YIELD = 0.02
"""Seconds that each of them leaves to the bindings under way before it writes."""


class Executor:
    """Takes commands, never blocks, and answers through `tell`."""

    def __init__(
        self,
        api: ApiWriter,
        status: StatusWriter,
        recorder: Recorder,
        traffic: Traffic,
        clock: Clock,
        workers: int = WORKERS,
    ) -> None:
        self.tell: Callable[[Event], None] = lambda _: None
        """Where outcomes go; the loop sets it."""
        self.bindings = Bindings(api, traffic, clock, workers)
        self.bindings.tell = lambda event: self.tell(event)
        self.bindings.record = recorder.record
        self.consult: Callable[[Consult], None] = _nobody
        """Who asks extenders, where there are any."""
        self._status = status
        self._recorder = recorder
        self._traffic = traffic
        self._clock = clock
        self._patches: OrderedDict[str, PatchStatus] = OrderedDict()
        self._evictor = Evictor(status, recorder, clock)
        self._evictor.tell = lambda event: self.tell(event)
        self._evictor.room_made = lambda result, seconds: self.instrument.room_made(result, seconds)
        self._patches_due = asyncio.Event()

    @property
    def instrument(self) -> Instrument:
        """Who is told how long it took; whoever counts sets it."""
        return self.bindings.instrument

    @instrument.setter
    def instrument(self, instrument: Instrument) -> None:
        self.bindings.instrument = instrument

    @property
    def is_full(self) -> bool:
        """Whether as many bindings are under way as should be; whatever changes that is told."""
        return self.bindings.is_full

    @property
    def unfinished(self) -> int:
        """Binding cycles that have not ended."""
        return self.bindings.unfinished

    def carry_out(self, command: Command) -> None:
        """Take a command; its outcome, if it has one, comes as an event."""
        if isinstance(command, Bind):
            self.bindings.begin(command)
        elif isinstance(command, Record):
            self._recorder.record(command)
        elif isinstance(command, PatchStatus):
            # Only the newest of what a pod's status is to say matters; what has not been sent yet is replaced.
            waiting = self._patches.get(command.pod.uid)
            self._patches[command.pod.uid] = command if waiting is None else command.after(waiting)
            self._patches_due.set()
        elif isinstance(command, Consult):
            self.consult(command)
        elif isinstance(command, CallOff):
            self.bindings.call_off(command.uid)
        elif not self.bindings.preempt(command):
            self._evictor.add(command)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.bindings.run())
            for _ in range(PATCHERS):
                group.create_task(self._patch_forever())
            group.create_task(self._evictor.run())
            group.create_task(self._recorder.run())

    async def drain(self, timeout: float) -> None:
        """Wait until no binding is under way and conditions are written, at most `timeout` seconds."""
        deadline = self._clock.now() + timeout
        while (self.unfinished or self._patches) and self._clock.now() < deadline:
            await self._clock.sleep(0.05)
        if self.unfinished or self._patches:
            log.warning("Stopped with work left", bindings=self.unfinished, conditions=len(self._patches))

    async def flush(self, timeout: float) -> None:
        """Wait until Events are written, at most `timeout` seconds; what is left is logged."""
        await self._recorder.flush(timeout)

    async def _patch_forever(self) -> None:
        while True:
            await self._patches_due.wait()
            if self._traffic.bindings:
                await self._clock.sleep(YIELD)
            if not self._patches:
                self._patches_due.clear()
                continue
            _, command = self._patches.popitem(last=False)
            try:
                await self._status.patch(command)
            except ApiError as problem:
                log.warning("A pod's status could not be written", problem, pod=command.pod.key)


def _nobody(command: Consult) -> None:
    raise AssertionError(f"there are no extenders to be asked about {command.pod}")
