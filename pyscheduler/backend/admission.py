"""Queue of tasks that wait for room in the offer: higher priority first, then in order of arrival.

Smaller tasks may pass one that does not fit yet, for `backfill_seconds`; after that nothing passes it, so a large task
does not starve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, islice
from typing import Final

import msgspec
from sortedcontainers import SortedKeyList

from pyscheduler.backend.offers import Offer, QuotaAccountant
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.task import TaskSpec

_SCANNED: Final = 200
"""Most waiting tasks that are compared with the offer in one pass."""
_RETRY_SECONDS: Final = 1.0


class _Entry(msgspec.Struct, frozen=False, eq=False):
    """Task in the queue."""

    spec: TaskSpec
    requests: Resources
    number: int
    admitted: asyncio.Future[None]
    blocked_at: float | None = None
    """Time when the task was first found not to fit."""


class AdmissionQueue:
    """Waiting tasks. `insert` makes a task the backend's; `flush` makes inserted tasks durable."""

    def __init__(
        self,
        quota: QuotaAccountant,
        backfill_seconds: float,
        insert: Callable[[TaskSpec], None],
        clock: Callable[[], float],
    ) -> None:
        self._quota, self._backfill_seconds, self._insert, self._clock = quota, backfill_seconds, insert, clock
        self._entries: SortedKeyList = SortedKeyList(key=lambda entry: (-entry.spec.priority, entry.number))
        self._by_id: dict[str, _Entry] = {}
        self._numbers = count()
        self._wake = asyncio.Event()
        self._exhausted: Offer | None = None
        """Offer that had room for none of the waiting tasks that may go first."""

    def __len__(self) -> int:
        return len(self._by_id)

    def wake(self) -> None:
        """Compare the waiting tasks with the offer soon: it may have grown."""
        if self._by_id:
            self._wake.set()

    def find(self, task: str) -> TaskSpec | None:
        """Return the spec of a waiting task."""
        entry = self._by_id.get(task)
        return None if entry is None else entry.spec

    def put(self, spec: TaskSpec) -> asyncio.Future[None]:
        """Queue a task; return a future that is done once the task is durable. Its cancellation withdraws the task."""
        waiting = self._by_id.get(spec.id)
        if waiting is not None:
            return waiting.admitted
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = _Entry(spec, spec.requests(), next(self._numbers), future)
        self._entries.add(entry)
        self._by_id[spec.id] = entry
        self._exhausted = None
        future.add_done_callback(lambda _: self._remove(entry))
        self._wake.set()
        return future

    def withdraw(self, task: str) -> bool:
        """Remove a task; return False if it does not wait."""
        entry = self._by_id.get(task)
        if entry is None:
            return False
        self._remove(entry)
        entry.admitted.cancel()
        return True

    def fail(self, problem: Exception) -> None:
        """Raise `problem` in the futures of all waiting tasks."""
        for entry in list(self._by_id.values()):
            self._remove(entry)
            if not entry.admitted.done():
                entry.admitted.set_exception(problem)
                entry.admitted.exception()  # retrieved: the owner may have dropped the future

    async def run(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Admit tasks whenever there is room, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            admitted = self._admit()
            if not admitted:
                continue
            await _until_durable(flush)
            for entry in admitted:
                if not entry.admitted.done():
                    entry.admitted.set_result(None)
            self._wake.set()

    def _admit(self) -> list[_Entry]:
        """Insert the tasks that fit and may go first; return them."""
        now, admitted, offer = self._clock(), list[_Entry](), self._quota.offer()
        if offer == self._exhausted:
            return admitted
        for entry in islice(self._entries, _SCANNED):
            if offer.has_room_for(entry.requests):
                self._insert(entry.spec)
                admitted.append(entry)
                offer = self._quota.offer()
                continue
            if entry.blocked_at is None:
                entry.blocked_at = now
            if now >= entry.blocked_at + self._backfill_seconds:
                break
        for entry in admitted:
            self._remove(entry)
        self._exhausted = None if admitted else offer
        return admitted

    def _remove(self, entry: _Entry) -> None:
        if self._by_id.get(entry.spec.id) is entry:
            del self._by_id[entry.spec.id]
            self._entries.remove(entry)
            self._exhausted = None


async def _until_durable(flush: Callable[[], Awaitable[None]]) -> None:
    """Flush until it succeeds: tasks that were inserted while the state cannot be written become durable later."""
    while True:
        try:
            await flush()
        except StateProblem:  # the manager reports it
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return
