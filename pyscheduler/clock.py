"""Clock of the scheduler: the only place that reads the time or sleeps.

The core receives monotonic seconds as data, the API receives wall-clock timestamps. All waiting goes through a `Clock`,
so that tests can skip hours.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Source of time of the shell."""

    def now(self) -> float:
        """Return monotonic seconds; only differences are meaningful."""

    def wall(self) -> float:
        """Return the seconds since 1970, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds`."""


class SystemClock:
    """The operating system's clock."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LoopClock(SystemClock):
    """Clock of the running event loop, which tests replace by one with virtual time."""

    @staticmethod
    def now() -> float:
        return asyncio.get_running_loop().time()


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(wall: float) -> str:
    """Format `wall` as a metav1.Time: whole seconds, UTC."""
    return _second(int(wall)) + "Z"


def rfc3339_micro(wall: float) -> str:
    """Format `wall` as a metav1.MicroTime: microseconds, UTC."""
    whole, micros = divmod(round(wall * 1_000_000), 1_000_000)
    return f"{_second(whole)}.{micros:06d}Z"
