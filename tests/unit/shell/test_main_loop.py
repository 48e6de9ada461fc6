"""Pages served in one thread with state of another thread's loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest

from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.serving.http import BadRequest, json_response, number
from pyscheduler.shell.serving.main_loop import BLOCKED, LoopBlocked, MainLoop, MetricsPage
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.threads import LoopThread

REQUEST = ServerRequest("/page", {}, {})
TIMEOUT = 0.5
"""Seconds that a page waits for the loop in these tests."""
T = TypeVar("T")


class Serving:
    """A thread that serves pages with state of the test's loop."""

    def __init__(self, thread: LoopThread, loop: asyncio.AbstractEventLoop) -> None:
        self.main = MainLoop(asyncio.get_running_loop(), TIMEOUT)
        self.metrics = Metrics()
        self.metrics_page = MetricsPage(self.metrics, self.main)
        self._thread = thread
        self._loop = loop

    async def served(self, work: Awaitable[T]) -> T:
        """Return the page's result while the test's loop runs."""
        return await self._thread.run(lambda: work)

    def served_while_blocked(self, work: Awaitable[T]) -> T:
        """Return the page's result while the test's loop is blocked."""

        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(timeout=30)

    async def text(self) -> str:
        """Return /metrics, created in the serving thread."""
        return _text(await self.metrics_page(REQUEST))


def _text(answer: ServerResponse) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


@pytest.fixture
async def serving() -> AsyncIterator[Serving]:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async with LoopThread("endpoints") as thread:
        yield Serving(thread, await thread.run(loop))


async def test_call_returns_the_result(serving: Serving) -> None:
    here = asyncio.get_running_loop()
    assert await serving.served(serving.main.call(asyncio.get_running_loop)) is here


async def test_call_raises_the_exception(serving: Serving) -> None:
    page = serving.main.page(lambda request: number(request, "limit", 1, 10), json_response)
    with pytest.raises(BadRequest):
        await serving.served(page(ServerRequest("/page", {"limit": ["many"]}, {})))


async def test_page_returns_503_while_the_loop_is_blocked_and_does_not_run_later(serving: Serving) -> None:
    made: list[str] = []

    def make(_: ServerRequest) -> int:
        made.append("once")
        return len(made)

    page = serving.main.page(make, json_response)
    assert serving.served_while_blocked(page(REQUEST)) is BLOCKED
    assert BLOCKED.status == 503
    await asyncio.sleep(0)
    assert (await serving.served(page(REQUEST))).body == b"1", "the timed-out page does not run later"


async def test_call_times_out_while_the_loop_is_blocked(serving: Serving) -> None:
    with pytest.raises(LoopBlocked):
        serving.served_while_blocked(serving.main.call(time.monotonic))


async def test_last_metrics_are_served_while_the_loop_is_blocked(serving: Serving) -> None:
    metrics = serving.metrics
    metrics.attempts.counts["scheduled", "default"] += 1
    assert 'scheduler_schedule_attempts_total{profile="default",result="scheduled"} 1.0' in await serving.served(
        serving.text()
    )
    metrics.attempts.counts["scheduled", "default"] += 1
    metrics.loop_blocks.counts["Slow", "Filter"] += 1
    metrics.loop_blocked.set_function(lambda: {("Slow", "Filter"): 2.0})
    metrics.leading.set_function(lambda: {("kube-scheduler",): 1.0})
    text = serving.served_while_blocked(serving.text())
    assert 'scheduler_schedule_attempts_total{profile="default",result="scheduled"} 1.0' in text
    assert 'pyscheduler_loop_blocked_seconds{extension_point="Filter",plugin="Slow"} 2.0' in text
    assert 'pyscheduler_loop_blocks_total{extension_point="Filter",plugin="Slow"} 1.0' in text
    assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in text
    assert 'scheduler_schedule_attempts_total{profile="default",result="scheduled"} 2.0' in await serving.served(
        serving.text()
    )


async def test_metrics_lack_the_loops_if_it_was_always_blocked(serving: Serving) -> None:
    text = serving.served_while_blocked(serving.text())
    assert "scheduler_" not in text.replace("pyscheduler_", "")
    assert "pyscheduler_build_info" in text


async def test_each_metric_is_served_once(serving: Serving) -> None:
    metrics = serving.metrics
    text = await serving.served(serving.text())
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads))
    assert len(metrics.copies()) + len(metrics.of_threads) == len(metrics.all)


def test_copy_keeps_its_values_while_the_original_changes() -> None:
    metrics = Metrics()
    counter, histogram, gauges = metrics.attempts, metrics.sli_seconds, metrics.pending_pods
    counter.counts["scheduled", "a"] += 1
    histogram.observed[("1",)].append(0.5)
    waiting = {"active": 1.0}
    gauges.read = lambda: waiting
    copies = counter.copy(), histogram.copy(), gauges.copy()
    counter.counts["scheduled", "a"] += 1
    histogram.observed[("1",)].append(0.25)
    histogram.aggregate()
    waiting["active"] = 2.0
    assert dict(copies[0].read()) == {("scheduled", "a"): 1}
    assert (int(sum(copies[1].counts[("1",)])), copies[1].sums) == (1, {("1",): 0.5})
    assert copies[2].read() == {"active": 1.0}
    assert (int(sum(histogram.counts[("1",)])), histogram.sums) == (2, {("1",): 0.75})
