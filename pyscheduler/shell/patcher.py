"""Write pod conditions and nominations with lower priority than bindings.

Only the newest status of a pod matters: a queued write is replaced by a newer one, and dropped when the pod is being
bound. Writes of one pod, including its binding, are serialised, because the server could otherwise apply the older one
last: a bound pod would be reported as unschedulable. kube-scheduler's asynchronous API calls follow the same rules
(KEP-5229).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from pyscheduler import logs
from pyscheduler.api.handle import ApiError
from pyscheduler.clock import Clock
from pyscheduler.core.commands import PatchStatus
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.writers.status import StatusWriter

WORKERS = 16
"""Concurrent status writes: 320 a second with a server at 50 ms."""
YIELD = 0.08
"""Seconds that each worker waits while bindings are in flight: at most 200 writes a second then."""


class Patcher:
    """Writes statuses without blocking the caller; failures are logged, and the next attempt writes again."""

    def __init__(self, status: StatusWriter, in_flight: InFlightCounter, clock: Clock) -> None:
        self._status = status
        self._in_flight = in_flight
        self._clock = clock
        self._log = logs.LimitedLog("patcher", clock.now)
        self._waiting: OrderedDict[str, PatchStatus] = OrderedDict()
        self._writing: dict[str, asyncio.Event] = {}
        """Pods with a write in flight, by UID; the event is set when it ends."""
        self._due = asyncio.Event()
        self.pods: set[str] = set()
        """UIDs of the pods with a queued write, or one in flight."""

    @property
    def left(self) -> int:
        """Number of queued writes."""
        return len(self._waiting)

    def add(self, command: PatchStatus) -> None:
        """Queue a status write."""
        waiting = self._waiting.get(command.pod.uid)
        self._waiting[command.pod.uid] = command if waiting is None else command.after(waiting)
        self.pods.add(command.pod.uid)
        self._due.set()

    def withdraw(self, uid: str) -> asyncio.Event | None:
        """Drop the queued write of a pod; return an event that is set when a write in flight ends, None without one."""
        self._waiting.pop(uid, None)
        self._forget_if_written(uid)
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
            self._log.warning("Failed to write the status of a pod", problem, pod=command.pod.key)
        finally:
            del self._writing[command.pod.uid]
            self._forget_if_written(command.pod.uid)
            written.set()

    def _forget_if_written(self, uid: str) -> None:
        if uid not in self._waiting and uid not in self._writing:
            self.pods.discard(uid)
