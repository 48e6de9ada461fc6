"""Delivery of task updates to the owner's callback.

Records of different tasks are delivered concurrently, those of one task one after the other. A callback that raises
delays its own task only. Functions run in threads, so that one that blocks stops neither the event loop nor the
renewal of the lease; coroutine functions run in the event loop, where a watchdog reports one that blocks it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.task import TaskRecord
from pyscheduler.backend.updates import UpdateQueue

OnUpdate = Callable[[TaskRecord], Awaitable[None] | None]
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

_log = logging.getLogger(__name__)
_PART = "updates"


class UpdateDelivery:
    """Calls `on_update` with each record of the queue, again after a backoff if it raises."""

    def __init__(
        self,
        queue: UpdateQueue,
        on_update: OnUpdate,
        settings: BackendSettings,
        context: BackendContext,
    ) -> None:
        self._queue, self._on_update, self._settings = queue, on_update, settings
        self._rng, self._problems, self._metrics = context.rng, context.problems, context.metrics
        self._failing: dict[str, ExponentialBackoff] = {}
        self._retries: set[asyncio.Task[None]] = set()
        self._slow: dict[str, None] = {}
        # Not the loop's threads: those resolve the API server's name, which blocked functions must not delay.
        self._threads = ThreadPoolExecutor(settings.update_concurrency, thread_name_prefix="task backend: update")
        self._is_async = inspect.iscoroutinefunction(on_update) or inspect.iscoroutinefunction(
            getattr(on_update, "__call__", None)  # noqa: B004  # an object with an async __call__
        )

    async def run(self) -> None:
        """Deliver until the queue has ended."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.update_concurrency):
                    group.create_task(self._deliver_all(), name=f"task backend: update {number}")
        finally:
            for retry in self._retries:
                retry.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _deliver_all(self) -> None:
        while (record := await self._queue.take()) is not None:
            try:
                await self._deliver(record)
            except asyncio.CancelledError:
                self._queue.put_back(record)
                raise
            except Exception as problem:  # the owner's code
                self._handle_failure(record, problem)
            else:
                self._failing.pop(record.id, None)
                self._queue.delivered(record)
                self._report()

    async def _deliver(self, record: TaskRecord) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.slow_update_seconds, self._handle_slow, record)
        began = loop.time()
        try:
            if self._is_async:
                result = self._on_update(record)
            else:
                result = await loop.run_in_executor(self._threads, self._on_update, record)
            if inspect.isawaitable(result):
                await result
        finally:
            timer.cancel()
            self._metrics.observe_step("deliver", loop.time() - began)
            if self._slow.pop(record.id, "") is None:
                _log.warning("on_update of task %r returned after %.1f s", record.id, loop.time() - began)

    def _handle_slow(self, record: TaskRecord) -> None:
        self._slow[record.id] = None
        _log.warning("on_update of task %r has not returned for %g s", record.id, self._settings.slow_update_seconds)
        self._report()

    def _handle_failure(self, record: TaskRecord, problem: Exception) -> None:
        backoff = self._failing.setdefault(
            record.id, ExponentialBackoff(self._rng, RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        )
        pause = backoff.next_delay()
        self._metrics.count_update_failure()
        _log.error("on_update failed for task %r, retrying in %.1f s", record.id, pause, exc_info=problem)
        retry = asyncio.create_task(self._put_back_later(record, pause), name=f"task backend: retry {record.id}")
        self._retries.add(retry)
        retry.add_done_callback(self._retries.discard)
        self._report()

    async def _put_back_later(self, record: TaskRecord, pause: float) -> None:
        try:
            await asyncio.sleep(pause)
        finally:
            self._queue.put_back(record)

    def _report(self) -> None:
        parts = [
            f"on_update {verb} for {_tasks(tasks)}"
            for verb, tasks in (("raises", self._failing), ("does not return", self._slow))
            if tasks
        ]
        if parts:
            self._problems.report(_PART, ", ".join(parts))
        else:
            self._problems.clear(_PART)


def _tasks(ids: dict[str, ExponentialBackoff] | dict[str, None]) -> str:
    first = next(iter(ids))
    return f"task {first!r}" + (f" and {len(ids) - 1} others" if len(ids) > 1 else "")
