"""Delivery of updates to the owner: callbacks that raise, that are slow and that block."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from pyscheduler.backend import BackendSettings, TaskPhase, TaskRecord, delivery
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.delivery import OnUpdate, UpdateDelivery
from pyscheduler.backend.metrics import BackendMetrics
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.updates import UpdateQueue
from pyscheduler.backend.watchdog import LoopWatchdog, blocking_code
from tests.tasks.records import record
from tests.virtual_loop import run


class DeliveryFixture:
    """Queue with an owner's callback on the other end."""

    def __init__(self, on_update: OnUpdate, settings: BackendSettings | None = None) -> None:
        self.confirmed: list[str] = []
        self.problems = Problems()
        self.queue = UpdateQueue(lambda confirmed: self.confirmed.append(confirmed.id))
        context = BackendContext(lambda: 0.0, random.Random(1), self.problems, BackendMetrics())
        self.delivery = UpdateDelivery(self.queue, on_update, settings or BackendSettings(), context)

    async def run_for(self, seconds: float) -> None:
        delivering = asyncio.create_task(self.delivery.run())
        await asyncio.sleep(seconds)
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)


def ended(task: str, version: int = 1) -> TaskRecord:
    return record(task, phase=TaskPhase.SUCCEEDED, version=version)


def test_callback_that_raises_delays_its_own_task_alone() -> None:
    calls: Counter[str] = Counter()

    async def on_update(update: TaskRecord) -> None:
        calls[update.id] += 1
        if update.id.startswith("poison"):
            raise ValueError("no such order")

    fixture = DeliveryFixture(on_update)
    healthy = [f"ok{i}" for i in range(50)]
    for task in (*(f"poison{i}" for i in range(20)), *healthy):
        fixture.queue.put(ended(task))

    async def story() -> None:
        await fixture.run_for(0.1)
        assert sorted(fixture.confirmed) == sorted(healthy)
        assert str(fixture.problems) == "updates: on_update raises for task 'poison0' and 19 others"
        assert fixture.queue.size == 20, "still to be delivered"
        await fixture.run_for(10.0)
        assert calls["poison0"] > 2, "retried with a backoff"

    run(story())


def test_slow_callbacks_of_different_tasks_run_concurrently_and_those_of_one_task_in_order() -> None:
    versions: dict[str, list[int]] = {}
    running: Counter[str] = Counter()

    async def on_update(update: TaskRecord) -> None:
        running[update.id] += 1
        assert running[update.id] == 1, "two calls for one task"
        await asyncio.sleep(0.5)
        running[update.id] -= 1
        versions.setdefault(update.id, []).append(update.version)

    fixture = DeliveryFixture(on_update, BackendSettings(update_concurrency=10))

    async def story() -> None:
        delivering = asyncio.create_task(fixture.delivery.run())
        for version in (1, 2, 3):
            for i in range(60):
                fixture.queue.put(ended(f"t{i:02}", version))
            await asyncio.sleep(0.2)
        await asyncio.sleep(6.0)
        delivering.cancel()

    run(story())
    assert len(versions) == 60
    assert all(seen == sorted(seen) and seen[-1] == 3 for seen in versions.values())


def test_callback_that_does_not_return_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def on_update(update: TaskRecord) -> None:
        if update.id == "hangs":
            await asyncio.get_running_loop().create_future()

    fixture = DeliveryFixture(on_update)
    for task in ("hangs", "a", "b"):
        fixture.queue.put(ended(task))

    async def story() -> str:
        running = asyncio.create_task(fixture.run_for(60.0))
        await asyncio.sleep(31.0)
        problem = str(fixture.problems)
        await running
        return problem

    with caplog.at_level(logging.WARNING):
        assert run(story()) == "updates: on_update does not return for task 'hangs'"
    assert "on_update of task 'hangs' has not returned for 30 s" in caplog.text
    assert fixture.confirmed == ["a", "b"]


async def test_function_that_blocks_does_not_block_the_event_loop() -> None:
    began, release = threading.Event(), threading.Event()

    def block(_: TaskRecord) -> None:
        began.set()
        release.wait()

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    fixture = DeliveryFixture(block)
    fixture.queue.put(ended("blocks"))
    delivering = asyncio.create_task(fixture.delivery.run())
    while not began.is_set():  # noqa: ASYNC110  # of another thread
        await asyncio.sleep(0.001)
    resolving = asyncio.create_task(asyncio.to_thread(str))  # as the connection does with the API server's name
    done, _ = await asyncio.wait([resolving], timeout=2.0)
    confirmed_meanwhile = list(fixture.confirmed)
    release.set()
    assert done, "the loop's own threads are free"
    assert not confirmed_meanwhile, "the loop goes on while the function blocks"
    while not fixture.confirmed:  # noqa: ASYNC110  # of another thread
        await asyncio.sleep(0.001)
    delivering.cancel()


def frames(*places: tuple[str, str]) -> list[traceback.FrameSummary]:
    return [traceback.FrameSummary(file, 7, name) for name, file in places]


LOOP = [("main", "/app/server.py"), ("run", asyncio.runners.__file__), ("_run", asyncio.events.__file__)]
DELIVER = ("_deliver", delivery.__file__)
CALLBACK = ("on_update", "/app/orders.py")
LIBRARY = ("get", "/usr/lib/python3/dist-packages/requests/api.py")


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        pytest.param([*LOOP, DELIVER, CALLBACK], "on_update (/app/orders.py:7)", id="callback"),
        pytest.param(
            [*LOOP, DELIVER, CALLBACK, LIBRARY, ("read", ssl.__file__)],
            f"on_update (/app/orders.py:7), in read ({ssl.__file__}:7)",
            id="call of a library",
        ),
        pytest.param([*LOOP, DELIVER, ("read", ssl.__file__)], f"read ({ssl.__file__}:7)", id="our own code"),
        pytest.param([("main", "/app/server.py")], "main (/app/server.py:7)", id="no event loop"),
    ],
)
def test_blocking_code_is_what_the_event_loop_has_called(stack: list[tuple[str, str]], place: str) -> None:
    assert blocking_code(frames(*stack)) == place


async def test_watchdog_names_the_code_that_blocks_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    watchdog = LoopWatchdog(problems, seconds=0.02)
    watchdog.start()

    def block_until_reported() -> None:
        while not problems.parts():
            time.sleep(0.001)

    with caplog.at_level(logging.WARNING):
        block_until_reported()
        assert "blocked for more than 0.02 s by test_watchdog_names" in str(problems)
        assert ", in block_until_reported (" in str(problems)
        while problems.parts():  # noqa: ASYNC110  # of another thread
            await asyncio.sleep(0.001)
    assert "the event loop was blocked for" in caplog.text
    watchdog.stop()


def test_record_wakes_one_of_the_waiting_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        loop, queue = asyncio.get_running_loop(), UpdateQueue(lambda _: None)
        consumers = [asyncio.create_task(queue.take()) for _ in range(8)]
        await asyncio.sleep(0)
        call_soon = Mock(wraps=loop.call_soon)
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_soon", call_soon)
            queue.put(ended("a"))
            await asyncio.sleep(0)
        assert call_soon.call_count <= 2, "the consumer's task and this one"
        await asyncio.sleep(0)
        assert [consumer.done() for consumer in consumers].count(True) == 1
        queue.end()
        records = await asyncio.gather(*consumers)
        assert [record.id for record in records if record is not None] == ["a"]

    run(story())
