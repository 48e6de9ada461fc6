"""The stage: one cluster, one proxy and one scheduler for all stories; what a fault leaves behind, the next would see.

Each story ends with the independent check of the cluster, and with a look at what the scheduler takes by then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.conftest import control_plane, namespace
from tests.e2e.plane import Plane, new_namespace
from tests.faults.fault_namespace import FaultNamespace, staged
from tests.faults.proxy import FaultProxy
from tests.faults.scheduler_under_test import ResourceUsage, SchedulerUnderTest, configuration, proxied, started

__all__ = ["control_plane", "namespace"]
WARM_UP = 150
"""Pods at once, so that it has as many connections as it ever has."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def proxy(control_plane: Plane) -> AsyncIterator[FaultProxy]:
    """The way to the API server."""
    async with proxied(control_plane) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def subject(
    control_plane: Plane, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SchedulerUnderTest]:
    """The scheduler that lives through it all."""
    folder = tmp_path_factory.mktemp("subject")
    async with started(control_plane, configuration(), folder, proxy) as running:
        yield SchedulerUnderTest(running, control_plane.api, proxy)
        assert running.process.returncode is None, running.log.read_text()[-4000:]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def level(control_plane: Plane, proxy: FaultProxy, subject: SchedulerUnderTest) -> ResourceUsage:
    """What the scheduler takes at rest, once it has worked: modules are loaded, connections are open."""
    await new_namespace(control_plane.api, "warm-up")
    async with staged(control_plane, "warm-up", proxy) as world:
        await world.flood(WARM_UP, cpu="1m")
        await world.many_bound(WARM_UP)
        await world.rewatched()
    return await subject.level()


@pytest_asyncio.fixture(loop_scope="session")
async def world(
    control_plane: Plane, namespace: str, proxy: FaultProxy, subject: SchedulerUnderTest, level: ResourceUsage
) -> AsyncIterator[FaultNamespace]:
    """A world to do harm to."""
    async with staged(control_plane, namespace, proxy) as world:
        yield world
    await subject.back_at(level)
