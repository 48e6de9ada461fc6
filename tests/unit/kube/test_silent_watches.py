"""Watch deadlines of the task backend and kopf after a silent connection loss."""

from __future__ import annotations

import asyncio
import random

from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.store import PodSnapshotStore
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.controllers.handlers import settings
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.testing import pod
from tests.faults.blackhole import Blackhole
from tests.unit.kube.virtual import run_virtually
from tests.unit.kube.watch_server import WatchServer

LIMIT = 60.0
"""Limit in seconds between the connection loss and the next event."""


def test_backend_receives_a_pod_within_a_minute_after_a_silent_connection_loss() -> None:
    async def scenario() -> None:
        async with (
            WatchServer() as server,
            Blackhole("127.0.0.1", server.port) as hole,
            KubernetesClient("default", server=f"http://127.0.0.1:{hole.port}") as client,
        ):
            store = PodSnapshotStore(None)
            updates = store.subscribe()
            source = PodsWatchSnapshotSource(client, "", store, None, random.Random(1))
            task = asyncio.create_task(source.run())
            await asyncio.sleep(40.0)
            hole.swallow()
            server.add(pod("late"))
            async with asyncio.timeout(LIMIT):
                while "late" not in (await updates.next()).pods:
                    pass
            assert server.lists == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtually(scenario())


def test_kopf_settings_use_the_common_deadlines() -> None:
    kopf_settings, deadlines = settings(), Deadlines()
    assert kopf_settings.watching.server_timeout == 25
    assert str(kopf_settings.watching.server_timeout).isdigit(), "kopf puts the value into the URL"
    assert kopf_settings.watching.inactivity_timeout == deadlines.watch + deadlines.grace
    assert kopf_settings.networking.request_timeout == deadlines.read
    assert kopf_settings.networking.connect_timeout == kopf_settings.watching.connect_timeout == deadlines.connect
