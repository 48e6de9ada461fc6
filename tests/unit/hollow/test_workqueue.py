"""Work queue: no duplicates, one worker per key, retries after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyscheduler.api import ApiError
from pyscheduler.embedded.client import WorkQueue, workqueue
from tests.unit.kube.virtual import VirtualClock


class QueueFixture:
    """A queue with two workers that records the processed keys."""

    def __init__(self, after: Callable[[str, int], None] = lambda key, times: None) -> None:
        self.queue: WorkQueue[str] = WorkQueue(VirtualClock(wall=0.0))
        self.seen: list[str] = []
        self.at_once: set[str] = set()
        self.overlaps = 0
        self._after = after
        self.during: Callable[[str, int], None] = lambda key, times: None
        self._wanted = 0
        self._enough = asyncio.Event()

    async def reconcile(self, key: str) -> None:
        self.overlaps += key in self.at_once
        self.at_once.add(key)
        self.seen.append(key)
        self.during(key, self.seen.count(key))
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_once.discard(key)
        if len(self.seen) >= self._wanted:
            self._enough.set()
        self._after(key, self.seen.count(key))

    async def until(self, count: int) -> list[str]:
        workers = [asyncio.create_task(self.queue.work(self.reconcile)) for _ in range(2)]
        self._wanted = count
        await asyncio.wait_for(self._enough.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()
        self.queue.close()
        assert self.overlaps == 0, "two workers processed the same key"
        return self.seen


async def test_key_added_twice_is_processed_once() -> None:
    fixture = QueueFixture()
    for key in "aba":
        fixture.queue.add(key)
    assert await fixture.until(2) == ["a", "b"]


async def test_key_added_during_its_processing_is_processed_again() -> None:
    fixture = QueueFixture()
    fixture.during = lambda key, times: fixture.queue.add(key) if times == 1 else None
    fixture.queue.add("a")
    assert await fixture.until(2) == ["a", "a"]


@pytest.mark.parametrize("problem", [ApiError(409, "Conflict", "changed"), ZeroDivisionError()])
async def test_failed_key_is_retried(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "RETRY_SECONDS", (0.0, 0.0))

    def fail_once(_: str, times: int) -> None:
        if times == 1:
            raise problem

    fixture = QueueFixture(fail_once)
    fixture.queue.add("a")
    assert await fixture.until(2) == ["a", "a"]


async def test_earlier_of_two_timers_applies() -> None:
    fixture = QueueFixture()
    fixture.queue.add_at("a", 1000.0)
    fixture.queue.add_at("a", 0.01)
    fixture.queue.add_at("a", 2000.0)
    assert await fixture.until(1) == ["a"]


async def test_forgotten_timer_does_not_fire() -> None:
    fixture = QueueFixture()
    fixture.queue.add_at("a", 0.0)
    fixture.queue.forget("a")
    fixture.queue.add_at("b", 0.0)
    assert await fixture.until(1) == ["b"]
