"""Evict preemption victims: those of one pod concurrently, and those of several pods at once.

The last victim of a pod is evicted after the others, as in kube-scheduler: its deletion requeues the preemptor, which
would otherwise be attempted before there is room.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pyscheduler import logs
from pyscheduler.api.handle import ApiError
from pyscheduler.clock import Clock
from pyscheduler.core.commands import Evict
from pyscheduler.core.events import Event, EvictFailed
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.writers.recorder import Recorder
from pyscheduler.shell.writers.status import StatusWriter

WORKERS = 32
"""Preemptors served concurrently."""
REST = 1.0
"""Seconds after a failed eviction before its preemptor is retried; kube-scheduler retries immediately, without end."""


class Evictor:
    """Evict victims without blocking the caller; failures are emitted after a pause."""

    def __init__(
        self,
        status: StatusWriter,
        recorder: Recorder,
        in_flight: InFlightCounter,
        clock: Clock,
        emit: Callable[[Event], None],
        instrument: Instrument,
    ) -> None:
        self._emit = emit
        self._instrument = instrument
        self._status = status
        self._recorder = recorder
        self._in_flight = in_flight
        self._clock = clock
        self._log = logs.LimitedLog("evictor", clock.now)
        self._waiting: OrderedDict[str, list[Evict]] = OrderedDict()
        """Evictions to do, by UID of the preemptor."""
        self._due = asyncio.Event()
        self._retries: set[asyncio.Task[None]] = set()

    def add(self, command: Evict) -> None:
        """Queue an eviction."""
        self._waiting.setdefault(command.preemptor.uid, []).append(command)
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._due.wait()
            if not self._waiting:
                self._due.clear()
                continue
            _, commands = self._waiting.popitem(last=False)
            began = self._clock.now()
            succeeded = await self._evict_victims(commands)
            self._instrument.evictions_finished("success" if succeeded else "error", self._clock.now() - began)

    async def _evict_victims(self, commands: Sequence[Evict]) -> bool:
        """Evict the victims of one pod. Return True if all evictions succeeded."""
        *others, last = commands
        self._in_flight.evictions += 1
        try:
            succeeded = await asyncio.gather(*map(self._evict, others))
            return await self._evict(last) and all(succeeded)
        finally:
            self._in_flight.evictions -= 1

    async def _evict(self, command: Evict) -> bool:
        try:
            done = await self._status.evict(command)
        except ApiError as problem:
            self._log.warning("Failed to evict a victim", problem, pod=command.victim.key)
            self._retry_later(command, str(problem))
            return False
        if done and command.then is not None:
            self._recorder.record(command.then)
        return True

    def _retry_later(self, command: Evict, problem: str) -> None:
        """Emit the failure after a pause: the preemptor is retried at once then, and the failure may be permanent."""
        task = asyncio.create_task(self._emit_failure(command, problem))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _emit_failure(self, command: Evict, problem: str) -> None:
        await self._clock.sleep(REST)
        self._emit(EvictFailed(self._clock.now(), command.preemptor.uid, problem, command.victim.uid))
