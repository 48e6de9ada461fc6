"""Writes conditions and nominations of pods, behind the bindings that are under way.

Only the newest of what a pod's status is to say matters: what has not been sent yet is replaced, and is not sent at all
once the pod is being bound. And one write about a pod follows the other, a binding too, since the server would else be
free to take the older one last: a bound pod would say that it fits nowhere. kube-scheduler's asynchronous calls keep to
the same (KEP-5229).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from pyscheduler.api.handle import ApiError
from pyscheduler.core.commands import PatchStatus
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.shell.kube.status import StatusWriter

log = logs.get("patcher")
WORKERS = 16
"""Concurrent writes of pods' status: 320 a second on a server that is 50 ms away."""
YIELD = 0.08
"""Seconds that each of them leaves to the bindings under way before it writes: at most 200 a second beside those."""


class Patcher:
    """Takes statuses, never blocks; what fails for good is logged, and the pod's next attempt says it anew."""

    def __init__(self, status: StatusWriter, in_flight: InFlightCounter, clock: Clock) -> None:
        self._status = status
        self._in_flight = in_flight
        self._clock = clock
        self._waiting: OrderedDict[str, PatchStatus] = OrderedDict()
        self._writing: dict[str, asyncio.Event] = {}
        """Pods that are being written about, by UID, and what is set when that is done."""
        self._due = asyncio.Event()

    @property
    def left(self) -> int:
        """Writes that have not begun."""
        return len(self._waiting)

    def add(self, command: PatchStatus) -> None:
        """Have it written."""
        waiting = self._waiting.get(command.pod.uid)
        self._waiting[command.pod.uid] = command if waiting is None else command.after(waiting)
        self._due.set()

    def withdraw(self, uid: str) -> asyncio.Event | None:
        """Write nothing of what waits to be said of a pod; what is set when the write under way ends, if one is."""
        self._waiting.pop(uid, None)
        return self._writing.get(uid)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._due.wait()
            if self._in_flight.bindings:
                await self._clock.sleep(YIELD)
            uid = next((uid for uid in self._waiting if uid not in self._writing), None)
            if uid is None:
                self._due.clear()
                continue
            await self._write(self._waiting.pop(uid))
            if self._waiting:
                self._due.set()

    async def _write(self, command: PatchStatus) -> None:
        written = self._writing[command.pod.uid] = asyncio.Event()
        try:
            await self._status.patch(command)
        except ApiError as problem:
            log.warning("A pod's status could not be written", problem, pod=command.pod.key)
        finally:
            del self._writing[command.pod.uid]
            written.set()
