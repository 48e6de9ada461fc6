"""Client-side rate limit and concurrency limit of API calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class CallLimiter:
    """Token bucket of `qps` calls per second with `burst`, at most `max_in_flight` at once. qps 0: no rate limit."""

    def __init__(self, qps: float, burst: int, max_in_flight: int, now: Callable[[], float] | None = None) -> None:
        self._qps, self._burst = qps, float(burst)
        self._tokens, self._at = float(burst), -1.0
        self._in_flight = asyncio.Semaphore(max_in_flight)
        self._now = now or (lambda: asyncio.get_running_loop().time())

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait until the call may start, first come, first served; hold its slot inside the block."""
        async with self._in_flight:
            wait = self._take_token()
            if wait > 0:
                await asyncio.sleep(wait)
            yield

    def _take_token(self) -> float:
        """Take a token and return the seconds until it is valid."""
        if self._qps <= 0:
            return 0.0
        now = self._now()
        if self._at >= 0:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        return -self._tokens / self._qps
