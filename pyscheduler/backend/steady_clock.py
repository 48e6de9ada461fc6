"""Seconds since the epoch that do not follow changes of the system clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SteadyClock:
    """Clock that reads `wall` once and then counts the seconds of the event loop's monotonic clock.

    A system clock that is set forward or back while the backend runs changes no duration, and so no outcome.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        self._seconds = asyncio.get_running_loop().time
        self._offset = wall() - self._seconds()

    def __call__(self) -> float:
        """Return the seconds since the epoch."""
        return self._offset + self._seconds()
