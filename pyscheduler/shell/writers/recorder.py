"""Event recorder: writes Kubernetes Events with lower priority than bindings.

A repetition within six minutes extends the series of the existing Event, as in client-go's recorder: the first one is
written at once, later ones every half hour and when the series has ended. The queue is bounded; when it is full, the
oldest repetition is dropped, or else the oldest Event.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError
from pyscheduler.clock import Clock
from pyscheduler.core.commands import EventType, Record
from pyscheduler.kube.connection import MERGE_PATCH, Connection
from pyscheduler.kube.http1 import PROTOBUF
from pyscheduler.kube.paths import EVENTS, collection
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.writers import protobuf
from pyscheduler.shell.writers.event_series import EventSeries, SeriesKey, series_key
from pyscheduler.truncation import MAX_NOTE, event_name, truncated

FINISH_AFTER: Final = 360.0
"""Seconds without repetition after which a series ends (client-go's finishTime)."""
REFRESH_EVERY: Final = 1800.0
"""Seconds between two writes of a continuing series (client-go's refreshTime)."""
SWEEP_EVERY: Final = 60.0
CAPACITY: Final = 20_000
"""Capacity of the queue, in Events."""
PATIENCE: Final = 15.0
"""Seconds after which an Event no longer waits for bindings: one writer then writes it."""

_MAX_SERIES = {EventType.NORMAL: 1_000, EventType.WARNING: 16_000}
"""Number of series kept by type; Normal Events rarely repeat."""
_WRITERS = 8
_MAX_BATCH = 16
"""Events in one batch; responses come in order, so one slow Event delays all after it."""
_YIELD = 0.05
_RATE_WINDOW = 0.2
"""Seconds over which the rate of bindings is measured."""
_FREQUENT = 30.0
"""Bindings a second above which more are expected soon, even if none is in flight."""
_PAUSES = (0.2, 1.0, 5.0, 10.0)
_EXISTS, _NOT_FOUND = 409, 404
_encode = msgspec.json.Encoder().encode
_log = logs.get("recorder")


class Recorder:
    """`record` queues an Event without waiting; `run` writes them; `dropped` is called for each lost Event."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        in_flight: InFlightCounter | None = None,
        dropped: Callable[[], None] = lambda: None,
        capacity: int = CAPACITY,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._in_flight = in_flight or InFlightCounter()
        self._dropped = dropped
        self._log_limit = logs.RateLimit(clock.now)
        self._capacity = capacity
        self._instance = socket.gethostname()
        self._series: dict[EventType, OrderedDict[SeriesKey, EventSeries]] = {kind: OrderedDict() for kind in EventType}
        self._new: deque[EventSeries] = deque()
        self._repeats: deque[EventSeries] = deque()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0
        self._flushing = False
        self._last_name = 0
        self._measured_at, self._begun_before, self._are_bindings_frequent = clock.now(), self._in_flight.begun, False

    def __len__(self) -> int:
        """Return the number of queued Events."""
        return len(self._new) + len(self._repeats)

    def record(self, record: Record) -> None:
        """Queue an Event."""
        note = truncated(record.note, MAX_NOTE)
        if note is not record.note:
            record = msgspec.structs.replace(record, note=note)  # limits the memory of thousands of series
        wall = self._clock.wall()
        known = self._series[record.type]
        key = series_key(record)
        series = known.get(key)
        if series is None or wall - series.last > FINISH_AFTER:
            self._begin(key, record, wall)
            return
        known.move_to_end(key)
        series.again(wall)
        if series.count == 2 or wall - series.written_at > REFRESH_EVERY:
            self._enqueue(series)

    async def run(self) -> None:
        """Write Events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep())
            for number in range(_WRITERS):
                tasks.create_task(self._write_all(steady=number == 0))

    async def flush(self, timeout: float) -> int:
        """Write the queued Events, for at most `timeout` seconds while `run` runs; return the number left."""
        self._flushing = True
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("Stopped with unwritten Events", events=len(self))
        finally:
            self._flushing = False
        return len(self) + self._writing

    def _begin(self, key: SeriesKey, record: Record, wall: float) -> None:
        self._last_name = max(self._last_name + 1, int(wall * 1e9))
        series = EventSeries(record, event_name(record.regarding.name, self._last_name), wall)
        known = self._series[record.type]
        known[key] = series
        known.move_to_end(key)
        if len(known) > _MAX_SERIES[record.type]:
            known.popitem(last=False)
        self._enqueue(series)

    def _enqueue(self, series: EventSeries) -> None:
        if series.queued:
            return
        if len(self) >= self._capacity:
            lost = self._repeats.popleft() if self._repeats else self._new.popleft()
            lost.queued = False
            self._dropped()
        series.queued = True
        (self._repeats if series.created else self._new).append(series)
        self._idle.clear()
        self._work.set()

    async def _write_all(self, steady: bool) -> None:
        """Write Events in a loop. The `steady` writer writes late Events even while bindings are in flight."""
        while True:
            await self._work.wait()
            if self._must_yield() and not (steady and self._is_late()):
                await self._clock.sleep(_YIELD)
                continue
            left = self._next()
            if len(left) > 1:
                left = await self._write_batch(left)
            for series in left:
                await self._write_one(series)

    async def _write_batch(self, some: list[EventSeries]) -> list[EventSeries]:
        """Write Events in one batch; return those that were not accepted, to be written one by one."""
        objects = [(collection(EVENTS, series.namespace), partial(self._body, series)) for series in some]
        counts = [series.count for series in some]
        try:
            taken = await self._connection.create_batch(objects)
        except Exception as problem:  # one of them cannot be encoded: written alone, it affects only itself
            _log.info("Cannot write Events in one batch, writing them one by one", v=4, err=repr(problem))
            return some
        left = []
        for series, count, is_taken in zip(some, counts, taken, strict=True):
            if is_taken:
                self._mark_written(series, count)
                self._finish_write(series)
            else:
                left.append(series)
        return left

    async def _write_one(self, series: EventSeries) -> None:
        try:
            await self._write(series)
        except Exception as problem:  # a bug may cost this Event, but not the scheduler
            suppressed = self._log_limit.take((type(problem),))
            if suppressed is not None:
                _log.crash("Failed to write an Event", problem, pod=series.record.regarding.key, **suppressed)
            self._dropped()
        finally:
            self._finish_write(series)

    def _must_yield(self) -> bool:
        crowded = len(self) * 2 > self._capacity
        return self._is_busy() and not crowded and not self._flushing

    def _is_busy(self) -> bool:
        """Return True if bindings or evictions are in flight, or bindings are so frequent that some will be."""
        now, begun = self._clock.now(), self._in_flight.begun
        elapsed = now - self._measured_at
        if elapsed >= _RATE_WINDOW:
            self._are_bindings_frequent = begun - self._begun_before > _FREQUENT * elapsed
            self._measured_at, self._begun_before = now, begun
        return self._are_bindings_frequent or self._in_flight.bindings > 0 or self._in_flight.evictions > 0

    def _is_late(self) -> bool:
        oldest = self._new or self._repeats
        return bool(oldest) and self._clock.wall() - oldest[0].last > PATIENCE

    def _finish_write(self, series: EventSeries) -> None:
        """Finish a write; queue the series again if it was repeated meanwhile."""
        self._writing -= 1
        series.queued = False
        if series.created and series.written == 1 < series.count:
            self._enqueue(series)
        if not self._writing and not len(self):
            self._idle.set()

    def _next(self) -> list[EventSeries]:
        """Take the Events to write next: a batch of new ones if more are queued than there are writers."""
        queue = self._new or self._repeats
        if not queue:
            self._work.clear()
            return []
        many = 1
        if queue is self._new:
            many = max(1, min(_MAX_BATCH, -(-len(queue) // _WRITERS), self._connection.batch_limit))
        self._writing += many
        return [queue.popleft() for _ in range(many)]

    async def _write(self, series: EventSeries) -> None:
        """Write one Event with retries; drop it if the server rejects it or stays unavailable."""
        for pause in (*_PAUSES, None):
            try:
                await self._send(series)
            except ApiError as problem:
                if (problem.status == 0 or problem.status >= 500) and pause is not None:
                    await self._clock.sleep(pause)
                    continue
                self._drop(series, problem)
            return

    async def _send(self, series: EventSeries) -> None:
        path = collection(EVENTS, series.namespace)
        count, again = series.count, series.created
        if again:
            try:
                await self._connection.request("PATCH", f"{path}/{series.name}", _encode(series.series()), MERGE_PATCH)
            except ApiError as problem:
                if problem.status != _NOT_FOUND:
                    raise
                again = False  # Events expire in the API after an hour: create it again
        if not again:
            try:
                await self._connection.request("POST", path, partial(self._body, series))
            except ApiError as problem:
                if problem.status != _EXISTS:
                    raise
        self._mark_written(series, count)

    def _mark_written(self, series: EventSeries, count: int) -> None:
        series.created = True
        series.written, series.written_at = count, self._clock.wall()

    def _body(self, series: EventSeries, content_type: str) -> bytes:
        if content_type == PROTOBUF:
            return protobuf.event(series, self._instance)
        return _encode(series.body(self._instance))

    def _drop(self, series: EventSeries, problem: ApiError) -> None:
        """Remove an Event that was not written.

        Unless its namespace is being deleted, count it, and log one a minute for each reason of the API server.
        """
        self._series[series.record.type].pop(series.key, None)
        pod, reason = series.record.regarding.key, series.record.reason
        if problem.status == _NOT_FOUND or "being terminated" in str(problem):
            _log.info("Dropped an Event, its namespace is gone", v=4, pod=pod, reason=reason)
            return
        self._dropped()
        suppressed = self._log_limit.take((problem.status, problem.reason))
        if suppressed is not None:
            _log.warning("Dropped an Event, the server rejected it", problem, pod=pod, reason=reason, **suppressed)

    async def _sweep(self) -> None:
        """Write the last count of series that have ended, and forget them."""
        while True:
            await self._clock.sleep(SWEEP_EVERY)
            ended = self._clock.wall() - FINISH_AFTER
            for known in self._series.values():
                for key, series in list(known.items()):
                    if series.last > ended:
                        break  # the others are newer
                    del known[key]
                    if series.count > max(series.written, 1):
                        self._enqueue(series)
