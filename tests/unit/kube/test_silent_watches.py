"""Watches of the other clients: hollow nodes and controllers, the task backend, kopf. All have the same deadlines."""

from __future__ import annotations

import asyncio
import random

from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.store import PodSnapshotStore
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.controllers.handlers import settings
from pyscheduler.embedded.client import PODS
from pyscheduler.embedded.client.http import HttpClient
from pyscheduler.embedded.client.informer import OBJECTS, Informer
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.testing import pod
from tests.faults.blackhole import Blackhole
from tests.unit.shell.virtual import run_virtually
from tests.unit.shell.watch_server import WatchServer

LIMIT = 60.0
"""Seconds from the death of a connection to the first sign of life."""


def test_an_informer_sees_a_pod_within_a_minute_after_its_watch_died_silently() -> None:
    async def story() -> None:
        async with (
            WatchServer() as server,
            Blackhole("127.0.0.1", server.port) as hole,
            HttpClient(f"http://127.0.0.1:{hole.port}") as client,
        ):
            seen = asyncio.Event()
            informer = Informer(client, PODS, OBJECTS, listeners=[lambda before, after: seen.set()])
            following = asyncio.create_task(informer.run())
            await informer.synced.wait()
            await asyncio.sleep(12.0)
            hole.swallow()
            server.add(pod("late"))
            async with asyncio.timeout(LIMIT):
                await seen.wait()
            assert server.lists == 1
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run_virtually(story())


def test_a_listener_that_raises_does_not_end_an_informer() -> None:
    async def story() -> None:
        async with WatchServer() as server, HttpClient(f"http://127.0.0.1:{server.port}") as client:
            seen = asyncio.Event()

            def listen(before: object, after: object) -> None:
                if server.lists < 2:
                    raise ZeroDivisionError
                seen.set()

            informer = Informer(client, PODS, OBJECTS, listeners=[listen])
            following = asyncio.create_task(informer.run())
            await informer.synced.wait()
            server.add(pod("late"))
            async with asyncio.timeout(LIMIT):
                await seen.wait()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run_virtually(story())


def test_the_backend_sees_a_pod_within_a_minute_after_its_watch_died_silently() -> None:
    async def story() -> None:
        async with (
            WatchServer() as server,
            Blackhole("127.0.0.1", server.port) as hole,
            KubernetesClient("default", server=f"http://127.0.0.1:{hole.port}") as client,
        ):
            store = PodSnapshotStore(None)
            updates = store.subscribe()
            source = PodsWatchSnapshotSource(client, "", store, None, random.Random(1))
            following = asyncio.create_task(source.run())
            await asyncio.sleep(40.0)
            hole.swallow()
            server.add(pod("late"))
            async with asyncio.timeout(LIMIT):
                while "late" not in (await updates.next()).pods:
                    pass
            assert source.listed == 1
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run_virtually(story())


def test_kopf_keeps_the_same_deadlines() -> None:
    kept, deadlines = settings(), Deadlines()
    assert kept.watching.server_timeout == 25
    assert str(kept.watching.server_timeout).isdigit(), "it goes into the URL as it is"
    assert kept.watching.inactivity_timeout == deadlines.watch + deadlines.grace
    assert kept.networking.request_timeout == deadlines.read
    assert kept.networking.connect_timeout == kept.watching.connect_timeout == deadlines.connect
