"""Heartbeat of the main loop, readable in other threads.

While a plugin blocks the loop, the lease is renewed and /livez succeeds. But a loop that is blocked for ever must not
keep the lease from a replica that could work, so after `DEAD_AFTER` it counts as dead.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self

from pyscheduler.clock import Clock

PERIOD: Final = 0.25
"""Seconds between two beats."""
DEAD_AFTER: Final = 60.0
"""Seconds without a beat after which /livez fails and the lease is no longer renewed."""


class Heartbeat:
    """Update `at` periodically on the current event loop inside the `async with` block."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beating: asyncio.Task[None] | None = None
        self.at = clock.now()
        """Time of the last beat."""

    async def __aenter__(self) -> Self:
        self.at = self._clock.now()
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    def silence(self) -> float:
        """Return the seconds since the last beat."""
        return self._clock.now() - self.at

    def check(self) -> str | None:
        """Return the health check's message if the loop has been blocked for too long, else None."""
        silence = self.silence()
        return f"the main loop has been blocked for {silence:.0f} s" if silence > DEAD_AFTER else None

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(PERIOD)
            self.at = self._clock.now()
