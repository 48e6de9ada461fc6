"""Binding cycles of the test kit. `api.sleep` takes virtual time; other waits take real time.

Cycles are tasks of an event loop that belongs to the harness, so PreBind and Bind plugins can use sockets, files and
asyncio as in production. The loop runs until each cycle has ended or waits for virtual time.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from pyscheduler.api.handle import ApiError
from pyscheduler.core.commands import Bind, CallApi
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.shell.binding.plugin_tasks import contain_plugin_tasks

REAL_TIME_LIMIT: Final = 30.0
"""Limit of real time, in seconds, that a cycle may wait for anything but virtual time."""
_open_loops: set[asyncio.AbstractEventLoop] = set()
"""Event loops of all harnesses that were not garbage collected; each has three file descriptors."""
MAX_OPEN_LOOPS: Final = 64
"""Number of open event loops, beyond those in use, above which garbage is collected before another one is created."""
_loops_in_use = 0
"""Number of open event loops after the last collection, less those that were closed since."""
_current: ContextVar[BindingCycle] = ContextVar("current")
"""Running cycle; tasks started by its plugins inherit it."""


@dataclass(slots=True, eq=False)
class BindingCycle:
    """Running or completed binding cycle."""

    command: Bind | CallApi
    task: asyncio.Task[Bound | BindFailed | None] | None = None
    pauses: dict[asyncio.Future[None], float] = field(default_factory=dict)
    """Pending waits, each with the virtual time at which it ends."""

    @property
    def has_ended(self) -> bool:
        """True if the binding succeeded, failed or was cancelled."""
        return self.task is not None and self.task.done()


class BindingCycles:
    """Binding cycles of one harness."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: list[BindingCycle] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finalizer: Callable[[], object] = lambda: None
        self._paused = asyncio.Event()

    def close(self) -> None:
        """Cancel all cycles and close the event loop."""
        if self._loop is not None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._run(asyncio.sleep(0))
        self._finalizer()
        self._running, self._loop = [], None

    def abandon(self) -> None:
        """Drop all cycles where they are, without cancelling them, as a crash of the scheduler does."""
        self._finalizer()
        self._running, self._loop = [], None

    def start(self, command: Bind | CallApi, doing: Awaitable[Bound | BindFailed | None]) -> None:
        """Create the task of a cycle, or of an API call; `run_until_blocked` runs it."""
        cycle = BindingCycle(command)

        async def run() -> Bound | BindFailed | None:
            _current.set(cycle)
            try:
                return await doing
            except ApiError:
                if isinstance(command, CallApi):
                    return None  # logged in production
                raise

        cycle.task = self._event_loop().create_task(run())
        # A test may end while a plugin waits for virtual time; asyncio must not report that.
        cycle.task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._running.append(cycle)

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds of virtual time."""
        cycle, future = _current.get(), asyncio.get_running_loop().create_future()
        cycle.pauses[future] = self._now() + seconds
        self._paused.set()
        try:
            await future
        finally:
            del cycle.pauses[future]

    def next_wake(self) -> float | None:
        """Return the virtual time at which the first pending wait ends, or None."""
        return min((until for cycle in self._running for until in cycle.pauses.values()), default=None)

    def wake(self) -> None:
        """Complete the waits that are due; `run_until_blocked` resumes them."""
        for cycle in self._running:
            for future, until in cycle.pauses.items():
                if until <= self._now() and not future.done():
                    future.set_result(None)

    def run_until_blocked(self) -> list[tuple[Bind, Bound | BindFailed]]:
        """Run all cycles until each has ended or waits for virtual time; return the results of those that ended.

        Returns an empty list if a plugin calls it within a cycle by writing an object: the outer call runs the cycles.
        """
        loop = self._loop
        if loop is None or loop.is_running() or not self._running:
            return []
        self._run(self._until_blocked())
        ended = [cycle for cycle in self._running if cycle.has_ended]
        self._running = [cycle for cycle in self._running if not cycle.has_ended]
        outcomes = ((each.command, each.task.result()) for each in ended if each.task is not None)
        return [(cmd, outcome) for cmd, outcome in outcomes if isinstance(cmd, Bind) and outcome is not None]

    def cancel(self, uid: str) -> bool:
        """Cancel the binding cycle of a pod. Return True if there was one."""
        bindings = (each for each in self._running if isinstance(each.command, Bind) and each.command.pod.uid == uid)
        cycle = next(bindings, None)
        if cycle is None or cycle.task is None:
            return False
        self._running.remove(cycle)
        cycle.task.cancel()
        if self._loop is not None and not self._loop.is_running():
            self._run(asyncio.wait({cycle.task}, timeout=REAL_TIME_LIMIT))
        return True

    async def _until_blocked(self) -> None:
        async with asyncio.timeout(REAL_TIME_LIMIT) as limit:
            while busy := self._busy():
                self._paused = asyncio.Event()
                pause = asyncio.create_task(self._paused.wait())
                try:
                    await asyncio.wait({*busy, pause}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
        assert not limit.expired()

    def _busy(self) -> list[asyncio.Task[Any]]:
        """Tasks that are runnable or wait for real I/O."""
        return [
            cycle.task
            for cycle in self._running
            if cycle.task is not None
            and not cycle.task.done()
            and not any(not future.done() for future in cycle.pauses)
        ]

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = _new_event_loop()
            contain_plugin_tasks(self._loop)
            self._finalizer = weakref.finalize(self, _close, self._loop)
        return self._loop

    def _run(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Run the loop until a coroutine has ended, in a thread if the caller runs in a loop itself (an async test)."""
        if not _is_in_loop():
            self._complete(doing)
            return
        raised: list[BaseException] = []

        def run() -> None:
            try:
                self._complete(doing)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        for error in raised:
            raise error

    def _complete(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Run the loop until a coroutine has ended. Ctrl-C, which a cycle passes on, cancels everything in the loop."""
        loop = self._event_loop()
        task = loop.create_task(doing)
        try:
            loop.run_until_complete(task)
        finally:
            if not task.done():
                tasks = {*asyncio.all_tasks(loop), *(each.task for each in self._running if each.task is not None)}
                for each in tasks:
                    each.cancel()
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, after garbage collection if many are open.

    Few tests close their harness, and Python collects long-lived garbage so rarely that a suite would run out of file
    descriptors.
    """
    global _loops_in_use
    if len(_open_loops) >= _loops_in_use + MAX_OPEN_LOOPS:
        gc.collect()
        _loops_in_use = len(_open_loops)
    loop = asyncio.new_event_loop()
    _open_loops.add(loop)
    return loop


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close an event loop. It runs during garbage collection, so it must do no more than this."""
    global _loops_in_use
    _open_loops.discard(loop)
    _loops_in_use = min(_loops_in_use, len(_open_loops))
    loop.close()


def _is_in_loop() -> bool:
    """Return True if the caller runs in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
