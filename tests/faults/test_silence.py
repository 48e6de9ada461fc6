"""Connections that die silently during different calls: all open ones at once, while new ones work.

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
from tests.faults.fault_actions import GONE, die_before_request, die_before_response, reject
from tests.faults.fault_namespace import NODES, FaultNamespace, fault_namespace
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
from tests.faults.scheduler_under_test import configuration, run_scheduler, start_proxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHIPPED = "SHIPPED_DEADLINES" in os.environ
CALL_TIMEOUT, WATCH = (math.inf, math.inf) if SHIPPED else (2.0, 4.0)
LIMIT = 60.0
"""Seconds from the death of all connections to the first binding."""
NAME = "silence"
log = logging.getLogger(NAME)
URGENT = "system-cluster-critical"
DIRECTIONS = {"before the request": die_before_request, "before the response": die_before_response}


def elected() -> str:
    """Return a configuration with leader election and a lease longer than the silence."""
    document = yaml.safe_load(configuration(NAME, f"{NAME}-faulty", sane=True))
    lease = {"leaderElect": True, "resourceName": "pyscheduler", "resourceNamespace": "kube-system"}
    times = {"leaseDuration": "160s", "renewDeadline": "150s", "retryPeriod": "1s"}
    return yaml.safe_dump({**document, "leaderElection": lease | times})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def silent_proxy(control_plane: Plane) -> AsyncIterator[FaultProxy]:
    """Proxy of this module's scheduler."""
    async with start_proxy(control_plane) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    control_plane: Plane, silent_proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SchedulerProcess]:
    """Scheduler that the tests of this module share."""
    folder = tmp_path_factory.mktemp("silence")
    async with run_scheduler(control_plane, elected(), folder, silent_proxy, CALL_TIMEOUT, WATCH) as process:
        yield process
        assert process.process.returncode is None, process.log.read_text()[-4000:]


@pytest_asyncio.fixture(loop_scope="session")
async def idle_ns(
    control_plane: Plane, namespace: str, silent_proxy: FaultProxy, running: SchedulerProcess
) -> AsyncIterator[FaultNamespace]:
    """Namespace in which the scheduler has bound pods, so that it has idle connections."""
    async with fault_namespace(control_plane, namespace, silent_proxy) as ns:
        await ns.create_pods(8, NAME, "before")
        await ns.wait_for_bound(8)
        yield ns


async def first_binding(ns: FaultNamespace, name: str, since: float) -> float:
    """Wait until the pod is bound; return the seconds that have passed since `since`."""
    await ns.nodes_of(name, seconds=LIMIT)
    took = asyncio.get_running_loop().time() - since
    log.info("First binding after %.1f s", took)
    assert took < LIMIT
    return took


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize("kind", [bindings, leases, events], ids=["bindings", "leases", "events"])
async def test_pod_is_bound_after_all_connections_died_during_a_call(
    idle_ns: FaultNamespace, running: SchedulerProcess, kind: Matcher, fault: Fault
) -> None:
    with idle_ns.proxy.rule(kind, fault, times=1) as rule:
        await idle_ns.create_pod("during", NAME)
        await rule.wait_matched()
    died = asyncio.get_running_loop().time()
    await idle_ns.create_pod("after", NAME)
    await first_binding(idle_ns, "after", died)
    await idle_ns.nodes_of("during", seconds=LIMIT)
    assert running.process.returncode is None


async def test_pod_is_bound_after_all_watches_died_silently(idle_ns: FaultNamespace) -> None:
    assert idle_ns.proxy.silence() > 1
    died = asyncio.get_running_loop().time()
    await idle_ns.create_pod("after", NAME)
    await first_binding(idle_ns, "after", died)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_pod_is_bound_after_all_connections_died_during_a_list(idle_ns: FaultNamespace, fault: Fault) -> None:
    with (
        idle_ns.proxy.rule(watches("pods"), reject(GONE), times=1),
        idle_ns.proxy.rule(lists("pods"), fault, times=1) as rule,
    ):
        assert idle_ns.proxy.cut(watches("pods"))
        await rule.wait_matched()
    died = asyncio.get_running_loop().time()
    await idle_ns.create_pod("after", NAME)
    await first_binding(idle_ns, "after", died)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_condition_is_written_after_all_connections_died_during_its_patch(
    idle_ns: FaultNamespace, fault: Fault
) -> None:
    with idle_ns.proxy.rule(within(idle_ns.namespace, pod_statuses), fault, times=1) as rule:
        await idle_ns.create_pod("large", NAME, cpu="64")
        await rule.wait_matched()
    died = asyncio.get_running_loop().time()
    await idle_ns.create_pod("after", NAME)
    await first_binding(idle_ns, "after", died)
    written = f"{idle_ns.pods}/large"
    await idle_ns.plane.api.until(written, lambda found: bool(found.get("status", {}).get("conditions")), LIMIT)
    await idle_ns.plane.api.delete(written, gracePeriodSeconds=0)


@pytest.mark.parametrize("fault", DIRECTIONS.values(), ids=DIRECTIONS)
async def test_preemptor_is_bound_after_all_connections_died_during_an_eviction(
    idle_ns: FaultNamespace, fault: Fault
) -> None:
    await idle_ns.delete_pods()
    everywhere = NODES * 4
    await idle_ns.create_pods(everywhere, NAME, "low", cpu="1")
    await idle_ns.wait_for_bound(everywhere)
    with idle_ns.proxy.rule(within(idle_ns.namespace, evictions), fault, times=1) as rule:
        await idle_ns.create_pod("urgent", NAME, cpu="1", priorityClassName=URGENT)
        await rule.wait_matched()
    await first_binding(idle_ns, "urgent", asyncio.get_running_loop().time())
