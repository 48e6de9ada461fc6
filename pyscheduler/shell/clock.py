"""The only real clock of the scheduler.

The machine gets monotonic seconds as data, the API gets wall-clock timestamps; everything that waits does so through
a `Clock`, so that tests can let hours pass at once.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Where the shell gets its time from."""

    def now(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""

    def wall(self) -> float:
        """Seconds since 1970, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(wall: float) -> str:
    """`wall` as a metav1.Time: whole seconds, UTC."""
    return _second(int(wall)) + "Z"


def rfc3339_micro(wall: float) -> str:
    """`wall` as a metav1.MicroTime: microseconds, UTC."""
    whole, micros = divmod(round(wall * 1_000_000), 1_000_000)
    return f"{_second(whole)}.{micros:06d}Z"
