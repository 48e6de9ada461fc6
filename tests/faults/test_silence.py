"""Connections that die without a sign, whatever call is under way: all are silent at once, and new ones work.

A peer that goes on acknowledging TCP, such as a load balancer that has lost its backend, sends neither FIN nor RST.
With SHIPPED_DEADLINES=1 the scheduler has the deadlines that users have; otherwise shorter ones.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from tests.e2e.plane import Plane
from tests.e2e.scheduler import SchedulerProcess
from tests.faults.fault_actions import GONE, dies_on_the_way_back, dies_on_the_way_there, refuses
from tests.faults.fault_namespace import NODES, FaultNamespace, staged
from tests.faults.proxy import Fault, FaultProxy
from tests.faults.request_matchers import (
    Matcher,
    bindings,
    events,
    evictions,
    leases,
    lists,
    pod_statuses,
    watches,
    within,
)
from tests.faults.scheduler_under_test import configuration, proxied, started

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHIPPED = "SHIPPED_DEADLINES" in os.environ
PATIENCE, WATCH = (math.inf, math.inf) if SHIPPED else (2.0, 4.0)
LIMIT = 60.0
"""Seconds from the death of all connections to the first binding."""
NAME = "silence"
log = logging.getLogger(NAME)
URGENT = "system-cluster-critical"
DIRECTIONS = {"on the way there": dies_on_the_way_there, "on the way back": dies_on_the_way_back}


def elected() -> str:
    """A configuration with leader election and a lease that outlives a silence."""
    document = yaml.safe_load(configuration(NAME, f"{NAME}-faulty", sane=True))
    lease = {"leaderElect": True, "resourceName": "pyscheduler", "resourceNamespace": "kube-system"}
    times = {"leaseDuration": "160s", "renewDeadline": "150s", "retryPeriod": "1s"}
    return yaml.safe_dump({**document, "leaderElection": lease | times})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def silent_proxy(control_plane: Plane) -> AsyncIterator[FaultProxy]:
    """A proxy for this module's scheduler alone."""
    async with proxied(control_plane) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    control_plane: Plane, silent_proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SchedulerProcess]:
    """The scheduler that lives through all of these stories."""
    folder = tmp_path_factory.mktemp("silence")
    async with started(control_plane, elected(), folder, silent_proxy, PATIENCE, WATCH) as process:
        yield process
        assert process.process.returncode is None, process.log.read_text()[-4000:]


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(
    control_plane: Plane, namespace: str, silent_proxy: FaultProxy, running: SchedulerProcess
) -> AsyncIterator[FaultNamespace]:
    """A world in which the scheduler has bound something, so that it has idle connections."""
    async with staged(control_plane, namespace, silent_proxy) as world:
        await world.flood(8, NAME, "before")
        await world.many_bound(8)
        yield world


async def first_binding(world: FaultNamespace, name: str, since: float) -> float:
    """Wait until the pod is bound; returns the seconds since then."""
    await world.bound(name, seconds=LIMIT)
    took = asyncio.get_running_loop().time() - since
    log.info("First binding after %.1f s", took)
    assert took < LIMIT
    return took


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize("kind", [bindings, leases, events], ids=["bindings", "leases", "events"])
async def test_a_pod_is_bound_after_all_connections_died_during_a_call(
    quiet: FaultNamespace, running: SchedulerProcess, kind: Matcher, fault: Fault
) -> None:
    with quiet.proxy.rule(kind, fault, times=1) as rule:
        await quiet.pod("during", NAME)
        await rule.met()
    died = asyncio.get_running_loop().time()
    await quiet.pod("after", NAME)
    await first_binding(quiet, "after", died)
    await quiet.bound("during", seconds=LIMIT)
    assert running.process.returncode is None


async def test_a_pod_is_bound_after_all_watches_died_silently(quiet: FaultNamespace) -> None:
    assert quiet.proxy.silence() > 1
    died = asyncio.get_running_loop().time()
    await quiet.pod("after", NAME)
    await first_binding(quiet, "after", died)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_a_pod_is_bound_after_all_connections_died_during_a_list(quiet: FaultNamespace, fault: Fault) -> None:
    with (
        quiet.proxy.rule(watches("pods"), refuses(GONE), times=1),
        quiet.proxy.rule(lists("pods"), fault, times=1) as rule,
    ):
        assert quiet.proxy.cut(watches("pods"))
        await rule.met()
    died = asyncio.get_running_loop().time()
    await quiet.pod("after", NAME)
    await first_binding(quiet, "after", died)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_a_condition_is_written_after_all_connections_died_during_its_patch(
    quiet: FaultNamespace, fault: Fault
) -> None:
    with quiet.proxy.rule(within(quiet.namespace, pod_statuses), fault, times=1) as rule:
        await quiet.pod("large", NAME, cpu="64")
        await rule.met()
    died = asyncio.get_running_loop().time()
    await quiet.pod("after", NAME)
    await first_binding(quiet, "after", died)
    written = f"{quiet.pods}/large"
    await quiet.plane.api.until(written, lambda found: bool(found.get("status", {}).get("conditions")), LIMIT)
    await quiet.plane.api.delete(written, gracePeriodSeconds=0)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_a_preemptor_is_bound_after_all_connections_died_during_an_eviction(
    quiet: FaultNamespace, fault: Fault
) -> None:
    await quiet.empty()
    everywhere = NODES * 4
    await quiet.flood(everywhere, NAME, "low", cpu="1")
    await quiet.many_bound(everywhere)
    with quiet.proxy.rule(within(quiet.namespace, evictions), fault, times=1) as rule:
        await quiet.pod("urgent", NAME, cpu="1", priorityClassName=URGENT)
        await rule.met()
    await first_binding(quiet, "urgent", asyncio.get_running_loop().time())
