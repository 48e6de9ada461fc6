"""Queue of keys: each is processed once per burst, and again after an API error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.controllers import key_queue
from pyscheduler.controllers.key_queue import KeyQueue


class Processor:
    """Records processed keys; the first calls fail with the given errors."""

    def __init__(self, *problems: Exception) -> None:
        self.keys: list[str] = []
        self._problems = list(problems)

    async def __call__(self, key: str) -> None:
        self.keys.append(key)
        if self._problems:
            raise self._problems.pop(0)


async def processed(monkeypatch: pytest.MonkeyPatch, processor: Processor, *keys: str) -> list[str]:
    """Return the processed keys after all were added at once."""
    monkeypatch.setattr(key_queue, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(key_queue, "RETRY_SECONDS", 0.0)
    queue: KeyQueue[str] = KeyQueue("test", processor)
    task = asyncio.create_task(queue.run())
    for key in keys:
        queue.add(key)
    await asyncio.sleep(0.05)
    task.cancel()
    return processor.keys


async def test_key_of_a_burst_is_processed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await processed(monkeypatch, Processor(), "a", "b", "a") == ["a", "b"]


async def test_key_is_processed_again_after_an_api_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await processed(monkeypatch, Processor(ApiError(500, "InternalError", "down")), "a", "b") == ["a", "b", "a"]


async def test_bug_does_not_stop_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await processed(monkeypatch, Processor(ValueError("bug")), "a", "b") == ["a", "b"]


async def test_of_several_delays_of_a_key_the_shortest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "BATCH_SECONDS", 0.0)
    processor, done = Processor(), asyncio.Event()

    async def process(key: str) -> None:
        await processor(key)
        if key == "b":
            done.set()

    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    queue: KeyQueue[str] = KeyQueue("test", process)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(queue.run())
        for key, seconds in (("a", 0.02), ("a", 60.0), ("a", 0.0), ("a", 0.01), ("b", 0.05)):
            queue.add_after(key, seconds)
        await done.wait()
        running.cancel()
    assert processor.keys == ["a", "b"]
    assert problems == []


@pytest.mark.parametrize(("problem", "timers"), [(None, []), (ValueError("bug"), ["a"])], ids=["processed", "a bug"])
async def test_processed_key_keeps_no_timer_unless_processing_it_failed(
    problem: Exception | None, timers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_queue, "BATCH_SECONDS", 0.0)
    processor, done = Processor(*[problem] if problem else []), asyncio.Event()

    async def process(key: str) -> None:
        if key == "last":
            done.set()
        else:
            await processor(key)

    queue: KeyQueue[str] = KeyQueue("test", process)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(queue.run())
        queue.add_after("a", 3600.0)
        queue.add("a")
        queue.add("last")
        await done.wait()
        running.cancel()
    assert processor.keys == ["a"]
    assert [*queue._timers] == timers
