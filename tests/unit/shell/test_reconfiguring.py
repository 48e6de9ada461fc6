"""A scheduler that runs is given another configuration: what its plugins newly watch is followed, or it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from pyscheduler.config.load import default, loads
from pyscheduler.config.problems import ConfigError
from pyscheduler.shell import scheduler as module
from pyscheduler.shell.kube.connection import Connection
from pyscheduler.shell.kube.paths import NODES, PODS, collection
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler
from pyscheduler_plugins.pod_group import POD_GROUP

from .fake_api import FakeApi, listed
from .virtual import VirtualClock

GANG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{plugins: {multiPoint: {enabled: [{name: Gang}]}}}]
"""


@pytest.fixture
async def scheduler(api: FakeApi, connection: Connection, clock: VirtualClock) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(default(), Connections(connection, connection), clock, Metrics())
    for kind in (NODES, PODS, *scheduler.kinds):
        api.script(collection(kind), listed())
    work = asyncio.create_task(scheduler.run())
    await asyncio.gather(*(reflector.synced.wait() for reflector in scheduler.reflectors))
    yield scheduler
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


def permits(scheduler: Scheduler) -> list[str]:
    return [p.name for profile in scheduler.machine.context.profiles.values() for p in profile.permit]


async def test_what_a_new_plugin_watches_is_listed_before_it_decides(api: FakeApi, scheduler: Scheduler) -> None:
    group = {"metadata": {"name": "crew", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    api.script(collection(POD_GROUP), listed(group))
    assert await scheduler.reconfigure(loads(GANG)) == ()
    assert permits(scheduler) == ["Gang"]
    assert list(scheduler.machine.context.handle.objects(POD_GROUP)) == [("default", "crew")]
    assert POD_GROUP in scheduler.kinds
    assert "podgroups" in {reflector.name for reflector in scheduler.reflectors}


async def test_what_cannot_be_listed_is_a_reason_to_refuse(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LISTING", 0.2)
    with pytest.raises(ConfigError, match=r"plugins watch what cannot be listed: podgroups \(/apis/.*\)"):
        await scheduler.reconfigure(loads(GANG))
    assert permits(scheduler) == []
    assert POD_GROUP not in scheduler.kinds
    assert scheduler.unsynced == ""
