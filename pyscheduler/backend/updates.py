"""Queue of task updates for the owner: the latest undelivered record of each task, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from pyscheduler.backend.task import TaskRecord


class UpdateQueue:
    """Undelivered records, at most one per task, and none of a task while another one is being delivered.

    `confirm` is called with each final record that was delivered.
    """

    def __init__(self, confirm: Callable[[TaskRecord], None]) -> None:
        self._confirm = confirm
        self._ready: dict[str, TaskRecord] = {}
        self._taken: dict[str, TaskRecord | None] = {}
        """Tasks with a record in delivery, each with the newer record that waits for its end."""
        self._available = asyncio.Semaphore(0)
        """Counts the tasks in `_ready`, one more once the queue has ended. It wakes one consumer per record."""

    @property
    def size(self) -> int:
        """Number of tasks with an undelivered record."""
        return len(self._ready) + len(self._taken)

    def put(self, record: TaskRecord) -> None:
        """Queue a record; it replaces an undelivered one of its task."""
        if record.id in self._taken:
            self._taken[record.id] = record
            return
        if record.id not in self._ready:
            self._available.release()
        self._ready[record.id] = record

    def end(self) -> None:
        """End the iterators once they have delivered the queued records."""
        self._available.release()

    async def take(self) -> TaskRecord | None:
        """Wait for a record and take it until `delivered` or `put_back`; None once the queue has ended."""
        await self._available.acquire()
        if not self._ready:  # the queue has ended, for the other consumers too
            self._available.release()
            return None
        task = next(iter(self._ready))
        self._taken[task] = None
        return self._ready.pop(task)

    def delivered(self, record: TaskRecord) -> None:
        """Confirm a taken record and let the next one of its task follow."""
        self._release(record.id, None)
        if record.final:
            self._confirm(record)

    def put_back(self, record: TaskRecord) -> None:
        """Return a taken record that was not delivered, unless a newer one waits."""
        self._release(record.id, record)

    async def stream(self) -> AsyncGenerator[TaskRecord, None]:
        """Yield each queued record; it counts as delivered when the next one is requested."""
        while (record := await self.take()) is not None:
            is_delivered = False
            try:
                yield record
                is_delivered = True
            finally:
                if not is_delivered:
                    self.put_back(record)
            self.delivered(record)

    def _release(self, task: str, undelivered: TaskRecord | None) -> None:
        record = self._taken.pop(task) or undelivered
        if record is not None:
            self.put(record)
