"""Waiting for what comes about elsewhere, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.e2e.client import UNTIL_SECONDS

POLL = 0.05
"""Seconds."""
SECONDS = UNTIL_SECONDS
"""Seconds that something may take to come about, on a busy machine."""


async def until(holds: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
    """Ask until the answer is true. AssertionError if it never is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not await holds():
        assert loop.time() < deadline, f"that did not come to be in {seconds:g} s"
        await asyncio.sleep(POLL)
