"""Wakes everyone who waits at the time it rings."""

from __future__ import annotations

import asyncio


class BroadcastEvent:
    """Look first, then wait: whoever waits when it rings goes on; who comes later waits for the next ring."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def notify_all(self) -> None:
        """Wake all who wait now."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next)
