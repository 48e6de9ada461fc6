"""Silently dead connections, in virtual time: the peer acknowledges TCP but never responds again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyscheduler.api import ApiError, PodObject
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Change, Reflector, Upsert, Watched
from pyscheduler.testing import pod
from tests.faults.blackhole import Blackhole
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.virtual import LoopClock, run_virtually
from tests.unit.kube.watch_server import WatchServer

LIMIT = 60.0
"""Seconds from the death of a connection to the next watch event."""


class WatchFixture:
    """A reflector of pods behind a proxy that can swallow data."""

    def __init__(self, server: WatchServer, hole: Blackhole, connection: Connection) -> None:
        self.server, self.hole, self.connection = server, hole, connection
        self.seen: asyncio.Queue[str] = asyncio.Queue()
        decoder = ObjectDecoder("pods", PodObject, Refusals())
        self.reflector = Reflector(connection, Watched(PODS), decoder, self._emit, LoopClock(), random.Random(1))

    def _emit(self, change: Change[PodObject]) -> None:
        self.seen.put_nowait(change.object.metadata.name if isinstance(change, Upsert) else f"-{change.name}")

    async def sees(self, name: str, within: float) -> float:
        """Wait until the pod is emitted; return the seconds until then."""
        began = LoopClock().now()
        async with asyncio.timeout(within):
            assert await self.seen.get() == name
        return LoopClock().now() - began


@asynccontextmanager
async def following(folder: Path) -> AsyncIterator[WatchFixture]:
    async with WatchServer() as server, Blackhole("127.0.0.1", server.port) as hole:
        file = write_kubeconfig(folder, f"http://127.0.0.1:{hole.port}")
        connection = await connect(file, ConnectionOptions(qps=-1), LoopClock())
        fixture = WatchFixture(server, hole, connection)
        task = asyncio.create_task(fixture.reflector.run())
        try:
            await fixture.reflector.synced.wait()
            yield fixture
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await connection.close()


@pytest.mark.parametrize("towards", ["server", "client", "both"])
def test_pod_is_seen_within_a_minute_after_its_watch_died_silently(tmp_path: Path, towards: str) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            await asyncio.sleep(12.0)
            watch.hole.swallow(to_server=towards != "client", to_client=towards != "server")
            watch.server.add(pod("late"))
            assert await watch.sees("late", LIMIT) < LIMIT - 25.0
            assert watch.server.lists == 1, "it is resumed, not relisted"

    run_virtually(run())


def test_pod_is_seen_within_a_minute_when_the_next_connection_is_dead_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            watch.hole.swallow()
            watch.hole.swallow_next(1)
            watch.server.add(pod("late"))
            await watch.sees("late", LIMIT)

    run_virtually(run())


@pytest.mark.parametrize("bookmarks", [True, False])
def test_idle_cluster_is_listed_once_in_an_hour(tmp_path: Path, bookmarks: bool) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            watch.server.bookmarks = bookmarks
            await asyncio.sleep(3600.0)
            assert watch.server.lists == 1
            assert 100 < watch.server.watches < 200
            assert watch.reflector.seconds_since_watch(LoopClock().now()) < 30.0
            watch.server.add(pod("late"))
            assert await watch.sees("late", LIMIT) < 1.0

    run_virtually(run())


def test_busy_resource_is_listed_once_although_its_watches_die_repeatedly(tmp_path: Path) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            for number in range(200):
                if number % 20 == 10:
                    watch.hole.swallow()
                watch.server.add(pod(f"p{number}"))
                await asyncio.sleep(3.0)
            assert [await watch.seen.get() for _ in range(200)] == [f"p{n}" for n in range(200)]
            assert watch.server.lists == 1

    run_virtually(run())


def test_a_resource_counts_as_unwatched_while_no_connection_works(tmp_path: Path) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            watch.hole.swallow()
            watch.hole.swallow_next(10_000)
            await asyncio.sleep(120.0)
            assert watch.reflector.seconds_since_watch(LoopClock().now()) > Deadlines().unwatched
            watch.hole.swallow_next(0)
            watch.server.add(pod("late"))
            await watch.sees("late", LIMIT)
            assert watch.reflector.seconds_since_watch(LoopClock().now()) < 30.0

    run_virtually(run())


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
def test_a_call_on_a_silently_dead_connection_times_out_and_the_next_call_succeeds(tmp_path: Path, method: str) -> None:
    async def run() -> None:
        async with following(tmp_path) as watch:
            await asyncio.gather(*(watch.connection.request("GET", "/version") for _ in range(8)))
            watch.hole.swallow()
            began = LoopClock().now()
            if method != "GET":  # GET is retried at once
                with pytest.raises(ApiError, match="no answer in time"):
                    await watch.connection.request(method, "/version")
            await watch.connection.request(method, "/version")
            assert LoopClock().now() - began < 20.0

    run_virtually(run())


def test_the_shipped_deadlines_bound_the_first_binding_after_a_silent_death() -> None:
    """Worst case: the watch dies at its begin; one new connection hangs for it, and one for the binding."""
    deadlines = Deadlines()
    assert deadlines == Deadlines(
        connect=10.0, response=15.0, read=30.0, watch=25.0, grace=5.0, unwatched=60.0, credentials=10.0
    )
    assert deadlines.watch + deadlines.grace + deadlines.response < LIMIT
    assert deadlines.watch + deadlines.grace + 2 * deadlines.connect < LIMIT
    assert deadlines.read + deadlines.connect < LIMIT
    assert deadlines.unwatched > deadlines.watch + deadlines.grace + deadlines.response
