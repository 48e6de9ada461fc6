"""How many calls go out: so many a second, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class CallLimiter:
    """At most `qps` calls a second over time, `burst` in a row, `max_in_flight` under way. qps 0: as many as you like."""

    def __init__(self, qps: float, burst: int, max_in_flight: int, now: Callable[[], float] | None = None) -> None:
        self._qps, self._burst = qps, float(burst)
        self._tokens, self._at = float(burst), -1.0
        self._room = asyncio.Semaphore(max_in_flight)
        self._now = now or (lambda: asyncio.get_running_loop().time())

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a turn; turns are given in the order of asking."""
        async with self._room:
            wait = self._take()
            if wait > 0:
                await asyncio.sleep(wait)
            yield

    def _take(self) -> float:
        if self._qps <= 0:
            return 0.0
        now = self._now()
        if self._at >= 0:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        return -self._tokens / self._qps
