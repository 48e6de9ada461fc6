"""/debug/pprof."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from pyscheduler.shell.serving.http import BadRequest
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.profiling import PREFIX, Profiler, sample


def get(profiler: Profiler, name: str = "", **query: str) -> ServerResponse:
    return profiler.pages()[PREFIX + name](ServerRequest(PREFIX + name, {k: [v] for k, v in query.items()}, {}))


async def whole(answer: ServerResponse) -> str:
    assert isinstance(answer.body, AsyncIterator)
    return b"".join([piece async for piece in answer.body]).decode()


def busy_until(done: threading.Event) -> None:
    while not done.is_set():
        sum(range(100))


def test_stacks_start_with_the_outermost_call() -> None:
    done = threading.Event()
    worker = threading.Thread(target=busy_until, args=(done,), name="worker")
    worker.start()
    counts = sample(0.1, threading.Event())
    done.set()
    worker.join()
    of_worker = {stack: count for stack, count in counts.items() if stack.startswith("worker;")}
    assert sum(of_worker.values()) == 10
    names = [call.partition(" ")[0] for call in max(of_worker, key=len).split(";")]
    assert names.index("Thread.run") < names.index("busy_until")


def test_sampling_stops_early_when_enough_is_set() -> None:
    enough = threading.Event()
    enough.set()
    assert not sample(1000.0, enough)


async def test_a_profile_is_lines_of_a_stack_and_a_count() -> None:
    lines = (await whole(get(Profiler(), "profile", seconds="1"))).splitlines()
    assert any(line.startswith("MainThread;") for line in lines)
    assert all(line.rpartition(" ")[2].isdigit() for line in lines)


async def test_one_profile_at_a_time() -> None:
    profiler = Profiler()
    first = asyncio.create_task(whole(get(profiler, "profile", seconds="1")))
    await asyncio.sleep(0)
    second = get(profiler, "profile", seconds="1")
    assert (second.status, second.body) == (500, b"Could not enable CPU profiling: cpu profiling already in use\n")
    await first
    assert get(profiler, "profile", seconds="1").status == 200


async def test_cancelled_profile_allows_the_next() -> None:
    profiler = Profiler()
    first = asyncio.create_task(whole(get(profiler, "profile", seconds="300")))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert get(profiler, "profile", seconds="1").status == 200


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", ""])
def test_invalid_duration_is_rejected(seconds: str) -> None:
    with pytest.raises(BadRequest):
        get(Profiler(), "profile", seconds=seconds)


async def test_goroutine_and_cmdline_pages() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait_for_ever(), name="waiter")
    await asyncio.sleep(0)
    stacks = get(Profiler(), "goroutine").body
    task.cancel()
    assert isinstance(stacks, bytes)
    assert b"thread MainThread" in stacks
    assert b"task waiter" in stacks
    assert b"wait_for_ever" in stacks
    assert get(Profiler(), "cmdline").body == "\0".join(sys.orig_argv).encode()
    assert b"profile: " in bytes(get(Profiler()).body)  # type: ignore[arg-type]
