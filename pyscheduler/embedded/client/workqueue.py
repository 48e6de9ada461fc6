"""Work queue of keys, with the contract of client-go's workqueue.

A key is queued once and never processed by two workers at a time. A key that is added while a worker processes it is
processed again afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pyscheduler.api import ApiError
from pyscheduler.clock import Clock

K = TypeVar("K", bound=Hashable)
RETRY_SECONDS = (0.05, 10.0)
"""Initial and longest delay after a failure; it doubles in between."""

_log = logging.getLogger(__name__)


class WorkQueue(Generic[K]):
    """First in, first out, without duplicates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[K] = deque()
        self._queued: set[K] = set()
        self._processing: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: K) -> None:
        """Queue `key` for processing."""
        if key in self._queued:
            return
        self._queued.add(key)
        if key not in self._processing:
            self._ready.append(key)
            self._wake.set()

    def add_at(self, key: K, at: float) -> None:
        """Queue `key` at the time `at`; the earliest of several times counts."""
        waiting = self._timers.get(key)
        if waiting is not None:
            if waiting[0] <= at:
                return
            waiting[1].cancel()
        delay = max(0.0, at - self._clock.wall())
        self._timers[key] = (at, asyncio.get_running_loop().call_later(delay, self._due, key))

    def forget(self, key: K) -> None:
        """Drop the timer and the failure count of `key`."""
        self._failures.pop(key, None)
        waiting = self._timers.pop(key, None)
        if waiting is not None:
            waiting[1].cancel()

    def close(self) -> None:
        """Cancel all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def work(self, reconcile: Callable[[K], Awaitable[None]]) -> None:
        """Process keys until cancelled. If `reconcile` raises, the key is retried with exponential backoff."""
        while True:
            key = await self._take()
            try:
                await reconcile(key)
                self._failures.pop(key, None)
            except ApiError as problem:
                self._requeue_after_failure(key, problem)
            except Exception:
                _log.exception("%s: unexpected error, retrying", key)
                self._requeue_after_failure(key, None)
            finally:
                self._processing.discard(key)
                if key in self._queued:
                    self._ready.append(key)
                    self._wake.set()

    async def _take(self) -> K:
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._queued.discard(key)
        self._processing.add(key)
        return key

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _requeue_after_failure(self, key: K, problem: Exception | None) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        first, longest = RETRY_SECONDS
        delay = min(first * 2 ** min(failures - 1, 16), longest)
        if problem is not None:
            _log.info("%s: %s; retrying in %.2f s", key, problem, delay)
        self.add_at(key, self._clock.wall() + delay)
