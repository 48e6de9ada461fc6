"""Carries evictions out: those for one pod side by side, and for several pods at once.

The last victim of a pod goes when the others have gone, as in kube-scheduler: its deletion is what wakes the pod, which
would else be tried in vain.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pyscheduler.api.handle import ApiError
from pyscheduler.core.commands import Evict
from pyscheduler.core.events import Event, EvictFailed
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.shell.kube.recorder import Recorder
from pyscheduler.shell.kube.status import StatusWriter

log = logs.get("evictor")
WORKERS = 32
"""Pods for which room is made at the same time."""
REST = 1.0
"""Seconds after a failed eviction before its preemptor is tried again; kube-scheduler does so at once, without end."""


class Evictor:
    """Takes evictions, never blocks; what fails is told through `tell`, after a rest."""

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
        self._waiting: OrderedDict[str, list[Evict]] = OrderedDict()
        """What is to be evicted, by the UID of the pod that needs the room."""
        self._due = asyncio.Event()
        self._resting: set[asyncio.Task[None]] = set()

    def add(self, command: Evict) -> None:
        """Have a victim evicted."""
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
            went_well = await self._make_room(commands)
            self._instrument.evictions_finished("success" if went_well else "error", self._clock.now() - began)

    async def _make_room(self, commands: Sequence[Evict]) -> bool:
        """Evict the victims of one pod; whether none of them refused to go."""
        *others, last = commands
        self._in_flight.evictions += 1
        try:
            went_well = await asyncio.gather(*map(self._evict, others))
            return await self._evict(last) and all(went_well)
        finally:
            self._in_flight.evictions -= 1

    async def _evict(self, command: Evict) -> bool:
        try:
            done = await self._status.evict(command)
        except ApiError as problem:
            log.warning("A victim could not be evicted", problem, pod=command.victim.key)
            self._retry_later(command, str(problem))
            return False
        if done and command.then is not None:
            self._recorder.record(command.then)
        return True

    def _retry_later(self, command: Evict, problem: str) -> None:
        """Tell of the failure after a rest: its pod is tried again at once, and what refuses may refuse for ever."""
        task = asyncio.create_task(self._emit_failure(command, problem))
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    async def _emit_failure(self, command: Evict, problem: str) -> None:
        await self._clock.sleep(REST)
        self._emit(EvictFailed(self._clock.now(), command.preemptor.uid, problem, command.victim.uid))
