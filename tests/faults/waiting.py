"""Polling for a condition, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.e2e.client import UNTIL_SECONDS

POLL = 0.05
"""Interval in seconds."""
SECONDS = UNTIL_SECONDS
"""Default deadline in seconds, long enough for a busy machine."""


async def until(holds: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
    """Poll until `holds` returns a true value. AssertionError after `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not await holds():
        assert loop.time() < deadline, f"the condition did not become true in {seconds:g} s"
        await asyncio.sleep(POLL)
