"""Fixtures: one cluster, proxy and scheduler for all tests, so that the after-effects of a fault are noticed.

Each test ends with the independent check of the cluster and of the scheduler's resource usage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.conftest import control_plane, namespace
from tests.e2e.plane import Plane, new_namespace
from tests.faults.fault_namespace import FaultNamespace, fault_namespace
from tests.faults.proxy import FaultProxy
from tests.faults.scheduler_under_test import (
    ResourceUsage,
    SchedulerUnderTest,
    configuration,
    run_scheduler,
    start_proxy,
)

__all__ = ["control_plane", "namespace"]
WARM_UP = 150
"""Pods of the warm-up, enough to open the most connections that the scheduler uses."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def proxy(control_plane: Plane) -> AsyncIterator[FaultProxy]:
    """Proxy to the API server."""
    async with start_proxy(control_plane) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def subject(
    control_plane: Plane, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SchedulerUnderTest]:
    """Scheduler that all tests share."""
    folder = tmp_path_factory.mktemp("subject")
    async with run_scheduler(control_plane, configuration(), folder, proxy) as running:
        yield SchedulerUnderTest(running, control_plane.api, proxy)
        assert running.process.returncode is None, running.log.read_text()[-4000:]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def level(control_plane: Plane, proxy: FaultProxy, subject: SchedulerUnderTest) -> ResourceUsage:
    """Resource usage of the idle scheduler after a warm-up: modules are loaded, connections are open."""
    await new_namespace(control_plane.api, "warm-up")
    async with fault_namespace(control_plane, "warm-up", proxy) as ns:
        await ns.create_pods(WARM_UP, cpu="1m")
        await ns.wait_for_bound(WARM_UP)
        await ns.restart_watches()
    return await subject.level()


@pytest_asyncio.fixture(loop_scope="session")
async def ns(
    control_plane: Plane, namespace: str, proxy: FaultProxy, subject: SchedulerUnderTest, level: ResourceUsage
) -> AsyncIterator[FaultNamespace]:
    """Namespace of one test; afterwards the scheduler's resource usage must be back at its level."""
    async with fault_namespace(control_plane, namespace, proxy) as ns:
        yield ns
    await subject.wait_until_back_at(level)
