"""Event loops in threads: results, exceptions and cancellation across threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyscheduler.shell.threads import LoopThread, run_on


async def current_thread() -> threading.Thread:
    return threading.current_thread()


async def current_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def test_work_runs_in_the_thread_and_returns_its_result() -> None:
    async with LoopThread("elsewhere") as thread:
        assert (await thread.run(current_thread)).name == "elsewhere"


async def test_the_thread_has_ended_after_the_block() -> None:
    async with LoopThread("elsewhere") as thread:
        found = await thread.run(current_thread)
    assert not found.is_alive()


async def test_exception_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async with LoopThread("elsewhere") as thread:
        with pytest.raises(ValueError, match="broken"):
            await thread.run(fail)


async def test_resources_are_closed_on_the_threads_loop_before_it_ends() -> None:
    closed_in: list[str] = []

    @asynccontextmanager
    async def resource() -> AsyncIterator[None]:
        yield
        closed_in.append(threading.current_thread().name)

    async with LoopThread("elsewhere") as thread:
        await thread.run(lambda: thread.resources.enter_async_context(resource()))
    assert closed_in == ["elsewhere"]


async def test_a_resource_that_cannot_be_closed_is_reported() -> None:
    def fail() -> None:
        raise OSError("cannot be closed")

    thread = LoopThread("elsewhere")
    await thread.__aenter__()
    thread.resources.callback(fail)
    with pytest.raises(OSError, match="cannot be closed"):
        await thread.__aexit__()


async def test_cancellation_waits_until_the_work_has_ended() -> None:
    history: list[str] = []
    begun = asyncio.Event()

    async def work(there: asyncio.AbstractEventLoop) -> None:
        may_end = asyncio.Event()
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            history.append("cancelled")
            here.call_soon_threadsafe(lambda: there.call_soon_threadsafe(may_end.set))
            await may_end.wait()
            history.append("ended")

    here = asyncio.get_running_loop()
    async with LoopThread("elsewhere") as thread:
        there = await thread.run(current_loop)
        waiting = asyncio.create_task(thread.run(lambda: work(there)))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert history == ["cancelled", "ended"]


async def test_each_cancellation_reaches_the_work() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def stubborn() -> str:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            here.call_soon_threadsafe(cancelled.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "second cancellation"
        return ""

    async with LoopThread("elsewhere") as thread:
        waiting = asyncio.create_task(thread.run(stubborn))
        await begun.wait()
        waiting.cancel()
        await cancelled.wait()
        waiting.cancel()
        assert await waiting == "second cancellation"


async def test_cancelled_error_of_the_work_is_raised() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    async with LoopThread("elsewhere") as thread:
        with pytest.raises(asyncio.CancelledError):
            await thread.run(cancel)


async def test_thread_can_await_work_on_the_outer_loop() -> None:
    here = asyncio.get_running_loop()

    async with LoopThread("elsewhere") as thread:
        found = await thread.run(lambda: run_on(here, current_thread))
    assert found is threading.current_thread()
