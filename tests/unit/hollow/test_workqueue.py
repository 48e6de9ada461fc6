"""Each key once, one worker at a time, failures later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyscheduler.embedded.client import StatusError, WorkQueue, workqueue


class Bench:
    """A queue with two workers whose looks are recorded."""

    def __init__(self, look: Callable[[str, int], None] = lambda key, times: None) -> None:
        self.queue: WorkQueue[str] = WorkQueue(lambda: 0.0)
        self.seen: list[str] = []
        self.at_once: set[str] = set()
        self.overlaps = 0
        self._look = look
        self.during: Callable[[str, int], None] = lambda key, times: None
        self._wanted = 0
        self._enough = asyncio.Event()

    async def look(self, key: str) -> None:
        self.overlaps += key in self.at_once
        self.at_once.add(key)
        self.seen.append(key)
        self.during(key, self.seen.count(key))
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_once.discard(key)
        if len(self.seen) >= self._wanted:
            self._enough.set()
        self._look(key, self.seen.count(key))

    async def until(self, count: int) -> list[str]:
        workers = [asyncio.create_task(self.queue.work(self.look)) for _ in range(2)]
        self._wanted = count
        await asyncio.wait_for(self._enough.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()
        self.queue.close()
        assert self.overlaps == 0, "two workers held the same key"
        return self.seen


async def test_a_key_added_twice_is_looked_at_once() -> None:
    bench = Bench()
    for key in "aba":
        bench.queue.add(key)
    assert await bench.until(2) == ["a", "b"]


async def test_a_key_added_while_it_is_looked_at_is_looked_at_again_after() -> None:
    bench = Bench()
    bench.during = lambda key, times: bench.queue.add(key) if times == 1 else None
    bench.queue.add("a")
    assert await bench.until(2) == ["a", "a"]


@pytest.mark.parametrize("problem", [StatusError(409, "Conflict", "changed"), OSError("cut"), ZeroDivisionError()])
async def test_a_failed_look_is_repeated(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "RETRY_SECONDS", (0.0, 0.0))

    def fail_once(_: str, times: int) -> None:
        if times == 1:
            raise problem

    bench = Bench(fail_once)
    bench.queue.add("a")
    assert await bench.until(2) == ["a", "a"]


async def test_of_two_timers_the_earlier_stands() -> None:
    bench = Bench()
    bench.queue.add_at("a", 1000.0)
    bench.queue.add_at("a", 0.01)
    bench.queue.add_at("a", 2000.0)
    assert await bench.until(1) == ["a"]


async def test_a_forgotten_timer_does_not_fire() -> None:
    bench = Bench()
    bench.queue.add_at("a", 0.0)
    bench.queue.forget("a")
    bench.queue.add_at("b", 0.0)
    assert await bench.until(1) == ["b"]
