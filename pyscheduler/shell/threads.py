"""Event loops in separate threads, for work that must continue while the main loop is blocked.

CPython runs one thread at a time. Python code yields to another thread after 5 ms, and so do sleeps, I/O and most of
NumPy; an extension that does not release the GIL (for example a pathological regular expression) blocks all threads
until it returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Event loop in a separate thread, running inside the `async with` block."""

    def __init__(self, name: str) -> None:
        self.resources = AsyncExitStack()
        """Closed on the thread's loop before the thread ends."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()

    async def __aenter__(self) -> Self:
        self._thread.start()
        await asyncio.wrap_future(self._started)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.wrap_future(self._ended)
        self._thread.join()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work()` in the thread."""
        return await run_on(self._loop, work)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            (self._ended if self._started.done() else self._started).set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set_result(None)
        async with self.resources:
            await self._stop.wait()


async def run_on(loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> T:
    """Await `work()` on the loop of another thread, as if it were awaited here.

    When cancelled, it cancels the work and waits until that has ended.
    """
    here = asyncio.get_running_loop()
    ending: asyncio.Future[asyncio.Task[T]] = here.create_future()
    tasks: list[asyncio.Task[T]] = []

    async def run() -> T:
        return await work()

    def start() -> None:
        tasks.append(loop.create_task(run()))
        tasks[0].add_done_callback(lambda task: here.call_soon_threadsafe(ending.set_result, task))

    loop.call_soon_threadsafe(start)
    while True:
        try:
            return (await asyncio.shield(ending)).result()
        except asyncio.CancelledError:
            if ending.done():
                raise
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
