"""Event that wakes all current waiters and resets at once."""

from __future__ import annotations

import asyncio


class BroadcastEvent:
    """Event without memory: `notify_all` wakes the current waiters only, so check the condition before `wait`."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def notify_all(self) -> None:
        """Wake all current waiters."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self) -> None:
        """Wait for the next `notify_all`."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next)
