"""Carries the machine's commands out: bindings first, on a bounded number of connections, everything else behind them.

Bindings wait in one line and are made by a fixed set of workers, so that a burst neither opens a thousand connections
nor starves the watches; while the line is long, `is_full` tells the loop to decide no further.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus, Record
from pyscheduler.core.events import Event, EvictFailed
from pyscheduler.shell import logs
from pyscheduler.shell.binding import run_binding
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter
from pyscheduler.shell.kube.traffic import Traffic

log = logs.get("executor")
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
        workers: int = 16,
    ) -> None:
        self.tell: Callable[[Event], None] = lambda _: None
        """Where outcomes go; the loop sets it."""
        self._api = api
        self._status = status
        self._recorder = recorder
        self._traffic = traffic
        self._clock = clock
        self._workers = workers
        self._bindings: asyncio.Queue[Bind] = asyncio.Queue()
        self._patches: OrderedDict[str, PatchStatus] = OrderedDict()
        self._evictions: asyncio.Queue[Evict] = asyncio.Queue()
        self._patches_due = asyncio.Event()
        self._preparing: set[asyncio.Task[None]] = set()
        self._unfinished = 0

    @property
    def is_full(self) -> bool:
        """Whether so many bindings wait that deciding on more would only make their answers older."""
        return self._unfinished >= 8 * self._workers

    @property
    def unfinished(self) -> int:
        """Binding cycles that have not ended."""
        return self._unfinished

    def carry_out(self, command: Command) -> None:
        """Take a command; its outcome, if it has one, comes as an event."""
        if isinstance(command, Bind):
            self._unfinished += 1
            if command.plan.pre_bind:
                self._prepare(command)
            else:
                self._bindings.put_nowait(command)
        elif isinstance(command, Record):
            self._recorder.record(command)
        elif isinstance(command, PatchStatus):
            # Only the newest condition of a pod matters; one that has not been sent yet is replaced.
            self._patches[command.pod.uid] = command
            self._patches_due.set()
        else:
            self._evictions.put_nowait(command)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._bind_forever())
            for _ in range(PATCHERS):
                group.create_task(self._patch_forever())
            group.create_task(self._evict_forever())
            group.create_task(self._recorder.run())

    async def drain(self, timeout: float) -> None:
        """Wait until no binding is under way and conditions and events are written, at most `timeout` seconds."""
        deadline = self._clock.now() + timeout
        while (self._unfinished or self._patches) and self._clock.now() < deadline:
            await self._clock.sleep(0.05)
        left = await self._recorder.flush(max(deadline - self._clock.now(), 0.1))
        if self._unfinished or self._patches or left:
            log.warning("Stopped with work left", bindings=self._unfinished, conditions=len(self._patches), events=left)

    async def _bind_forever(self) -> None:
        while True:
            await self._bind(await self._bindings.get())

    async def _bind(self, command: Bind) -> None:
        with self._traffic:
            outcome = await run_binding(command, self._api, self._clock)
        self._unfinished -= 1
        self.tell(outcome)

    def _prepare(self, command: Bind) -> None:
        """PreBind may wait for minutes (volumes), so such pods get a task of their own instead of a worker."""
        task = asyncio.create_task(self._bind(command))
        self._preparing.add(task)
        task.add_done_callback(self._preparing.discard)

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

    async def _evict_forever(self) -> None:
        while True:
            command = await self._evictions.get()
            try:
                await self._status.evict(command)
            except ApiError as problem:
                log.warning("A victim could not be evicted", problem, pod=command.victim.key)
                self.tell(EvictFailed(self._clock.now(), command.preemptor.uid, str(problem)))
