"""Delivery of task updates to the owner: the latest undelivered record of each task, at least once."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

from pyscheduler.backend.broadcast import BroadcastEvent
from pyscheduler.backend.task import TaskRecord

OnUpdate = Callable[[TaskRecord], Awaitable[None] | None]
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class UpdateQueue:
    """Undelivered records, at most one per task. `confirm` is called with each final record that was delivered."""

    def __init__(self, confirm: Callable[[TaskRecord], None]) -> None:
        self._confirm = confirm
        self._waiting: dict[str, TaskRecord] = {}
        self._changed = BroadcastEvent()
        self._ended = False

    def put(self, record: TaskRecord) -> None:
        """Queue a record; it replaces an undelivered one of its task."""
        self._waiting[record.id] = record
        self._changed.notify_all()

    def end(self) -> None:
        """End the iterators once they have delivered the queued records."""
        self._ended = True
        self._changed.notify_all()

    async def stream(self) -> AsyncGenerator[TaskRecord, None]:
        """Yield each queued record; it counts as delivered when the next one is requested."""
        while True:
            while not self._waiting:
                if self._ended:
                    return
                await self._changed.wait()
            task, record = next(iter(self._waiting.items()))
            del self._waiting[task]
            delivered = False
            try:
                yield record
                delivered = True
            finally:
                if not delivered:
                    self._waiting.setdefault(task, record)
            self._mark_delivered(record)

    async def call(self, on_update: OnUpdate) -> None:
        """Call `on_update` with each record, one at a time. If it raises, retry later with the then latest record."""
        pause = RETRY_SECONDS
        while True:
            while not self._waiting:
                await self._changed.wait()
            task, record = next(iter(self._waiting.items()))
            del self._waiting[task]
            try:
                result = on_update(record)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self._waiting.setdefault(task, record)
                _log.exception("on_update failed for task %r, retrying in %g s", task, pause)
                await asyncio.sleep(pause)
                pause = min(LONGEST_RETRY_SECONDS, 2 * pause)
                continue
            pause = RETRY_SECONDS
            self._mark_delivered(record)

    def _mark_delivered(self, record: TaskRecord) -> None:
        if record.final:
            self._confirm(record)
