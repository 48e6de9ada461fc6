"""Tells the owner: of each task the latest record that he has not seen, until he has seen its end."""

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
    """Records to be told, at most one a task. `confirm` hears of each final one that the owner has taken."""

    def __init__(self, confirm: Callable[[TaskRecord], None]) -> None:
        self._confirm = confirm
        self._waiting: dict[str, TaskRecord] = {}
        self._changed = BroadcastEvent()
        self._ended = False

    def put(self, record: TaskRecord) -> None:
        """Tell this; what has not been told of the task yet goes under."""
        self._waiting[record.id] = record
        self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will come: iterators end once they have told what there is."""
        self._ended = True
        self._changed.notify_all()

    async def stream(self) -> AsyncGenerator[TaskRecord, None]:
        """Every record that is put in; it counts as taken when the next one is asked for."""
        while True:
            while not self._waiting:
                if self._ended:
                    return
                await self._changed.wait()
            task, record = next(iter(self._waiting.items()))
            del self._waiting[task]
            taken = False
            try:
                yield record
                taken = True
            finally:
                if not taken:
                    self._waiting.setdefault(task, record)
            self._mark_delivered(record)

    async def call(self, on_update: OnUpdate) -> None:
        """Call the owner with each record, one after the other. Where he raises, later again with what is new then."""
        pause = RETRY_SECONDS
        while True:
            while not self._waiting:
                await self._changed.wait()
            task, record = next(iter(self._waiting.items()))
            del self._waiting[task]
            try:
                answer = on_update(record)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                self._waiting.setdefault(task, record)
                _log.exception("the owner did not take an update of task %r; again in %g s", task, pause)
                await asyncio.sleep(pause)
                pause = min(LONGEST_RETRY_SECONDS, 2 * pause)
                continue
            pause = RETRY_SECONDS
            self._mark_delivered(record)

    def _mark_delivered(self, record: TaskRecord) -> None:
        if record.final:
            self._confirm(record)
