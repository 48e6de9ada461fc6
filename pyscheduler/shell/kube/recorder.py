"""Writes Events, behind the bindings and without ever holding them up.

What happens again within six minutes becomes a series on the Event that is there, as client-go's recorder does it: the
first repetition is written at once, later ones every half hour and when the series has ended. The queue is bounded;
when it is full the oldest repetition goes first, because it says the least, then the oldest Event.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.core.commands import EventType, Record
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube import protobuf
from pyscheduler.shell.kube.connection import MERGE_PATCH, Connection
from pyscheduler.shell.kube.event_series import MAX_NOTE, EventSeries, SeriesKey, cut, event_name, series_key
from pyscheduler.shell.kube.http1 import PROTOBUF
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.shell.kube.paths import EVENTS, collection

FINISH_AFTER: Final = 360.0
"""Seconds without repetition after which a series has ended (client-go's finishTime)."""
REFRESH_EVERY: Final = 1800.0
"""Seconds between writes of a series that goes on (client-go's refreshTime)."""
SWEEP_EVERY: Final = 60.0
CAPACITY: Final = 20_000
"""Events that may wait to be written."""
PATIENCE: Final = 15.0
"""Seconds that an Event waits for bindings before one writer goes on beside them."""

_REMEMBERED = {EventType.NORMAL: 1_000, EventType.WARNING: 16_000}
"""EventSeries kept in mind by type: what is Normal hardly ever repeats."""
_WRITERS = 8
_TOGETHER = 16
"""Events that are sent in one go: their answers come one by one, so with more of them one that is slow delays many."""
_YIELD = 0.05
_SPELL = 0.2
"""Seconds over which it is seen how often pods are bound."""
_OFTEN = 30.0
"""Bindings a second from which on more are expected at once, though none is under way for a moment."""
_PAUSES = (0.2, 1.0, 5.0, 10.0)
_EXISTS, _NOT_FOUND = 409, 404
_encode = msgspec.json.Encoder().encode
_log = logs.get("recorder")


class Recorder:
    """`record` is cheap and never waits; `run` writes; `dropped` is called for each Event that is lost."""

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
        self._looked, self._begun, self._many_come = clock.now(), self._in_flight.begun, False

    def __len__(self) -> int:
        """How many Events wait to be written."""
        return len(self._new) + len(self._repeats)

    def record(self, record: Record) -> None:
        """Have an Event written in time."""
        if len(record.note) > MAX_NOTE:
            record = replace(record, note=cut(record.note))  # thousands may be remembered
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
        """Write what waits, for at most `timeout` seconds while `run` runs; returns how many Events are left."""
        self._flushing = True
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("Stopped with Events unwritten", events=len(self))
        finally:
            self._flushing = False
        return len(self) + self._writing

    def _begin(self, key: SeriesKey, record: Record, wall: float) -> None:
        self._last_name = max(self._last_name + 1, int(wall * 1e9))
        series = EventSeries(record, event_name(record.regarding.name, self._last_name), wall)
        known = self._series[record.type]
        known[key] = series
        known.move_to_end(key)
        if len(known) > _REMEMBERED[record.type]:
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
        """One writer's life. The steady one writes old Events beside bindings: they are late but never stuck."""
        while True:
            await self._work.wait()
            if self._must_yield() and not (steady and self._is_late()):
                await self._clock.sleep(_YIELD)
                continue
            left = self._next()
            if len(left) > 1:
                left = await self._write_together(left)
            for series in left:
                await self._write_alone(series)

    async def _write_together(self, some: list[EventSeries]) -> list[EventSeries]:
        """Write Events in one go; those of them that are left, to be written alone."""
        objects = [(collection(EVENTS, series.namespace), partial(self._body, series)) for series in some]
        counts = [series.count for series in some]
        try:
            taken = await self._connection.create_together(objects)
        except Exception as problem:  # one of them cannot be written down: alone it costs only itself
            _log.info("Events are written one by one", v=4, err=repr(problem))
            return some
        left = []
        for series, count, went_well in zip(some, counts, taken, strict=True):
            if went_well:
                self._wrote(series, count)
                self._settle(series)
            else:
                left.append(series)
        return left

    async def _write_alone(self, series: EventSeries) -> None:
        try:
            await self._write(series)
        except Exception as problem:  # a bug of ours costs the Event, and nobody the scheduler
            _log.crash("An Event could not be written", problem, pod=series.record.regarding.key)
            self._dropped()
        finally:
            self._settle(series)

    def _must_yield(self) -> bool:
        crowded = len(self) * 2 > self._capacity
        return self._is_busy() and not crowded and not self._flushing

    def _is_busy(self) -> bool:
        """Whether bindings or evictions are under way, or bindings come so often that some will be."""
        now, begun = self._clock.now(), self._in_flight.begun
        spell = now - self._looked
        if spell >= _SPELL:
            self._many_come = begun - self._begun > _OFTEN * spell
            self._looked, self._begun = now, begun
        return self._many_come or self._in_flight.bindings > 0 or self._in_flight.evictions > 0

    def _is_late(self) -> bool:
        oldest = self._new or self._repeats
        return bool(oldest) and self._clock.wall() - oldest[0].last > PATIENCE

    def _settle(self, series: EventSeries) -> None:
        """After a write: see to what happened meanwhile."""
        self._writing -= 1
        series.queued = False
        if series.created and series.written == 1 < series.count:
            self._enqueue(series)
        if not self._writing and not len(self):
            self._idle.set()

    def _next(self) -> list[EventSeries]:
        """Take the Events to be written now: several new ones together where more wait than there are writers."""
        queue = self._new or self._repeats
        if not queue:
            self._work.clear()
            return []
        many = 1
        if queue is self._new:
            many = max(1, min(_TOGETHER, -(-len(queue) // _WRITERS), self._connection.together))
        self._writing += many
        return [queue.popleft() for _ in range(many)]

    async def _write(self, series: EventSeries) -> None:
        """Write one Event, however long the server is away; what it refuses is let go."""
        for pause in (*_PAUSES, None):
            try:
                await self._send(series)
            except ApiError as problem:
                if problem.status == 0 or problem.status >= 500:
                    if pause is not None:
                        await self._clock.sleep(pause)
                        continue
                    self._dropped()
                self._refused(series, problem)
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
                again = False  # events live for an hour in the API: begin it anew
        if not again:
            try:
                await self._connection.request("POST", path, partial(self._body, series))
            except ApiError as problem:
                if problem.status != _EXISTS:
                    raise
        self._wrote(series, count)

    def _wrote(self, series: EventSeries, count: int) -> None:
        series.created = True
        series.written, series.written_at = count, self._clock.wall()

    def _body(self, series: EventSeries, content_type: str) -> bytes:
        if content_type == PROTOBUF:
            return protobuf.event(series, self._instance)
        return _encode(series.body(self._instance))

    def _refused(self, series: EventSeries, problem: ApiError) -> None:
        """Let go of an Event. Nobody misses those of a namespace that is gone or going; others are worth a line."""
        self._series[series.record.type].pop(series.key, None)
        pod, reason = series.record.regarding.key, series.record.reason
        if problem.status == _NOT_FOUND or "being terminated" in str(problem):
            _log.info("The namespace of an Event is gone", v=4, pod=pod, reason=reason)
        else:
            _log.warning("An Event was not taken", problem, pod=pod, reason=reason)

    async def _sweep(self) -> None:
        """Write the last count of series that have ended, and forget them."""
        while True:
            await self._clock.sleep(SWEEP_EVERY)
            ended = self._clock.wall() - FINISH_AFTER
            for known in self._series.values():
                for key, series in list(known.items()):
                    if series.last > ended:
                        break  # the rest happened later
                    del known[key]
                    if series.count > max(series.written, 1):
                        self._enqueue(series)
