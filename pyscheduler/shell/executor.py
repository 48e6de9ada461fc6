"""Carries the machine's commands out: bindings first, on a bounded number of connections, everything else behind them.

Bindings wait in one line and are made by a fixed set of workers, so that a burst neither opens a thousand connections
nor starves the watches. What is decided early is decided on an older cluster and only waits: `is_full` tells the loop
to decide no further until a worker is about to be free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pyscheduler.api.handle import ApiWriter
from pyscheduler.core.commands import Bind, Command, Consult, Evict, PatchStatus, Record
from pyscheduler.core.events import BindFailed, Bound, Event
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.binding import bind, prepare
from pyscheduler.shell.breadth import Breadth
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.evictor import Evictor
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter
from pyscheduler.shell.kube.traffic import Traffic
from pyscheduler.shell.patcher import Patcher

log = logs.get("executor")
WORKERS: Final = 96
"""The most bindings under way; an API server of default settings has 245 calls of service accounts in hand at once."""


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
        self.instrument = Instrument()
        """Who is told how long it took; whoever counts sets it."""
        self.consult: Callable[[Consult], None] = _nobody
        """Who asks extenders, where there are any."""
        self._api = api
        self._recorder = recorder
        self._traffic = traffic
        self._clock = clock
        self._workers = workers
        self._breadth = Breadth(workers)
        self._minds_others = True
        """Whether the pod that was decided on last does."""
        self._bindings: asyncio.Queue[Bind] = asyncio.Queue()
        self._patcher = Patcher(status, traffic, clock)
        self._evictor = Evictor(status, recorder, clock)
        self._evictor.tell = lambda event: self.tell(event)
        self._evictor.room_made = lambda result, seconds: self.instrument.room_made(result, seconds)
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._called_off: dict[str, Evict] = {}
        self._unfinished = 0

    @property
    def is_full(self) -> bool:
        """Whether as many bindings are under way as should be; whatever changes that is told.

        The next pod is taken to be like the last one. Bindings that PreBind has not let through yet wait for something
        else than a worker.
        """
        limit = self._breadth.narrow if self._minds_others else self._breadth.wide
        return self._unfinished - len(self._preparing) >= limit

    @property
    def unfinished(self) -> int:
        """Binding cycles that have not ended."""
        return self._unfinished

    def carry_out(self, command: Command) -> None:
        """Take a command; its outcome, if it has one, comes as an event."""
        if isinstance(command, Bind):
            self._unfinished += 1
            self._minds_others = command.minds_others
            if command.plan.pre_bind:
                self._prepare(command)
            else:
                self._bindings.put_nowait(command)
        elif isinstance(command, Record):
            self._recorder.record(command)
        elif isinstance(command, PatchStatus):
            self._patcher.add(command)
        elif isinstance(command, Consult):
            self.consult(command)
        else:
            preparing = self._preparing.get(command.victim.uid)
            if preparing is not None and preparing.cancel():
                self._called_off[command.victim.uid] = command
            else:
                self._evictor.add(command)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._bind_forever())
            group.create_task(self._patcher.run())
            group.create_task(self._evictor.run())
            group.create_task(self._recorder.run())

    async def drain(self, timeout: float) -> None:
        """Wait until no binding is under way and conditions are written, at most `timeout` seconds."""
        deadline = self._clock.now() + timeout
        while (self._unfinished or self._patcher.left) and self._clock.now() < deadline:
            await self._clock.sleep(0.05)
        if self._unfinished or self._patcher.left:
            log.warning("Stopped with work left", bindings=self._unfinished, conditions=self._patcher.left)

    async def flush(self, timeout: float) -> None:
        """Wait until Events are written, at most `timeout` seconds; what is left is logged."""
        await self._recorder.flush(timeout)

    async def _bind_forever(self) -> None:
        while True:
            await self._bind(await self._bindings.get())

    async def _bind(self, command: Bind) -> None:
        began = self._clock.now()
        with self._traffic:
            outcome = await bind(command, self._api, self._clock, self.instrument)
        if isinstance(outcome, Bound):  # what fails may fail at once, and would make all others look slow
            self._breadth.took(self._clock.now() - began)
        self._end(outcome)

    def _prepare(self, command: Bind) -> None:
        """PreBind may wait for minutes (volumes), so such pods get a task of their own until they can be bound."""
        task = self._preparing[command.pod.uid] = asyncio.create_task(self._pre_bind(command))
        task.add_done_callback(lambda ended: self._prepared(command.pod.uid, ended))

    def _prepared(self, uid: str, task: asyncio.Task[None]) -> None:
        """PreBind has ended, perhaps because the pod must make room."""
        if self._preparing.get(uid) is task:
            del self._preparing[uid]
        eviction = self._called_off.pop(uid, None)
        if eviction is not None and task.cancelled():
            record = eviction.called_off()
            if record is not None:
                self._recorder.record(record)
            self._end(BindFailed(self._clock.now(), uid, f"preempted by {eviction.plugin}"))
        elif eviction is not None:
            self._evictor.add(eviction)

    async def _pre_bind(self, command: Bind) -> None:
        failed = await prepare(command, self._api, self._clock, self.instrument)
        if failed is None:
            self._bindings.put_nowait(command)
        else:
            self._end(failed)

    def _end(self, outcome: Bound | BindFailed) -> None:
        self._unfinished -= 1
        self.tell(outcome)


def _nobody(command: Consult) -> None:
    raise AssertionError(f"there are no extenders to be asked about {command.pod}")
