"""Virtual clocks and an event loop with virtual time."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualClock:
    """A clock on which sleeps return at once and are recorded."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.at = 1000.0
        self._offset = wall - self.at
        self.slept: list[float] = []
        self.step = 0.0
        """Seconds that pass at each read."""

    def now(self) -> float:
        self.at += self.step
        return self.at

    def wall(self) -> float:
        return self._offset + self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        await asyncio.sleep(0)


class SteppedClock:
    """A clock that only `advance` moves."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.at = 1000.0
        self._offset = wall - self.at
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._falling_asleep = asyncio.Condition()

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return self._offset + self.at

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        async with self._falling_asleep:
            self._sleepers.append((self.at + seconds, woken))
            self._falling_asleep.notify_all()
        await woken

    async def advance(self, seconds: float) -> None:
        """Advance the time and wake the sleepers in order; each runs before the next."""
        end = self.at + seconds
        while due := sorted((at, i) for i, (at, _) in enumerate(self._sleepers) if at <= end):
            at, i = due[0]
            _, woken = self._sleepers.pop(i)
            self.at = max(self.at, at)
            if not woken.done():
                woken.set_result(None)
            await asyncio.sleep(0)
        self.at = end

    async def until_asleep(self, sleepers: int) -> None:
        """Wait until that many tasks sleep."""
        async with self._falling_asleep, asyncio.timeout(5):
            await self._falling_asleep.wait_for(lambda: len(self._sleepers) >= sleepers)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for sockets at most as long as loopback needs, and counts the rest as passed."""

    REAL = 0.005

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= self.REAL:
            return list(super().select(timeout))
        ready = list(super().select(self.REAL))
        if not ready:
            self.skipped += timeout - self.REAL
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that skips to the next timer when no socket has data to read."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Resolve without a thread, which could be slower than virtual time."""
        return socket.getaddrinfo(host, port, **options)


class LoopClock:
    """The clock of a `VirtualLoop`."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, including its sockets, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
