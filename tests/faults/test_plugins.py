"""Plugins that raise, hang or return invalid results: only the affected pod is delayed, by one backoff."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.e2e.metrics_page import Page
from tests.e2e.test_failover import Times, holder, without_lease
from tests.e2e.test_failover import configuration as electing
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.scheduler_under_test import FAULTY, SchedulerUnderTest, configuration, run_scheduler
from tests.faults.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

SYNC_POINTS = ("pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reserve", "permit")
ASYNC_POINTS = ("pre_bind", "bind", "post_bind")
MISBEHAVIOURS = [
    *(f"{point}.{how}" for point in (*SYNC_POINTS, *ASYNC_POINTS) for how in ("raises", "nonsense")),
    *(f"{point}.cancels" for point in ASYNC_POINTS),
]
HANGING = 120
"""Number of pods with hanging bindings, more than binding workers."""
QUIET = 3.0
"""Seconds within which /livez must respond, even if the event loop is blocked."""
SHORT = Times(lease=6.0, deadline=4.0, retry=0.5)


async def test_pod_is_bound_after_a_backoff_when_a_plugin_misbehaves_once(ns: FaultNamespace) -> None:
    names = [fault.replace("_", "-").replace(".", "-") for fault in MISBEHAVIOURS]
    for name, fault in zip(names, MISBEHAVIOURS, strict=True):
        await ns.create_pod(name, FAULTY, labels={"fault": fault})
    await ns.create_pods(10, FAULTY)
    await ns.nodes_of(*names)
    await ns.wait_for_bound(len(names) + 10)


async def test_other_pods_are_bound_when_post_filter_fails(ns: FaultNamespace) -> None:
    for how in ("raises", "nonsense"):
        await ns.create_pod(f"giant-{how}", FAULTY, cpu="64", labels={"fault": f"post_filter.{how}"})
    await ns.create_pods(10, FAULTY)
    await ns.wait_for_bound(10)


@pytest.mark.parametrize("point", ASYNC_POINTS)
async def test_hanging_bindings_do_not_block_other_pods(ns: FaultNamespace, tmp_path: Path, point: str) -> None:
    """There are more of them than workers; once the pods are deleted, their binding cycles end."""
    name, labels = ns.namespace, {"fault": f"{point}.hangs"}
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty"), tmp_path / "hanging") as running:
        subject = SchedulerUnderTest(running, ns.plane.api, ns.proxy)
        for i in range(HANGING):
            await ns.create_pod(f"hung-{i}", f"{name}-faulty", cpu="10m", labels=labels)
        await ns.create_pods(20, name)
        bound_before = HANGING if point == "post_bind" else 0
        await ns.wait_for_bound(20 + bound_before)

        async def binding_cycles() -> float:
            return binding(await subject.metrics())

        await until(lambda: equals(binding_cycles, 0 if bound_before else HANGING))
        await ns.plane.api.delete(ns.pods, gracePeriodSeconds=0, labelSelector=f"fault={point}.hangs")
        await until(lambda: equals(binding_cycles, 0))
        await ns.create_pods(20, name, prefix="after")
        await ns.wait_for_bound(40)


async def equals(counted: Callable[[], Awaitable[float]], number: float) -> bool:
    return await counted() == number


def binding(metrics: Page) -> float:
    """Return the number of running binding cycles."""
    ((_, number),) = metrics["scheduler_goroutines"].values
    return number


async def test_pods_with_hanging_pre_bind_are_bound_by_the_next_scheduler(ns: FaultNamespace, tmp_path: Path) -> None:
    name = ns.namespace
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty"), tmp_path / "hanging"):
        for i in range(40):
            await ns.create_pod(f"hung-{i}", f"{name}-faulty", cpu="10m", labels={"fault": "pre_bind.hangs"})
        await ns.create_pods(20, name)
        await ns.wait_for_bound(20)
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty", sane=True), tmp_path / "after"):
        await ns.wait_for_bound(60)


async def test_livez_fails_when_a_plugin_blocks_the_loop(ns: FaultNamespace, tmp_path: Path) -> None:
    """The plugin blocks the event loop, so /livez fails and the kubelet would restart the scheduler."""
    name = ns.namespace
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty"), tmp_path / "blocked") as blocked:
        await ns.create_pods(5, name, prefix="before")
        await ns.wait_for_bound(5)
        await ns.create_pod("blocks", f"{name}-faulty", labels={"fault": "filter.blocks"})
        await ns.create_pods(5, name, prefix="behind")
        await until(partial(is_dead, blocked.address))
        assert '"Plugin blocks the scheduling loop" plugin="Faulty"' in blocked.log.read_text()
        blocked.process.kill()
    async with run_scheduler(ns.plane, configuration(name, f"{name}-faulty", sane=True), tmp_path / "after"):
        await ns.wait_for_bound(11)


async def test_standby_takes_over_when_a_plugin_blocks_the_leader(ns: FaultNamespace, tmp_path: Path) -> None:
    """Once the loop counts as dead, the lease is not renewed and nothing is written."""
    await without_lease(ns.plane)
    name = ns.namespace
    document = yaml.safe_load(electing(name, SHORT, 5000))
    faulty = yaml.safe_load(configuration(name, f"{name}-faulty"))["profiles"][1]
    leading, following = ({**document, "profiles": [*document["profiles"], *more]} for more in ([faulty], []))
    async with run_scheduler(ns.plane, yaml.safe_dump(leading), tmp_path / "leader") as leader:
        await until(partial(holder, ns.plane))
        leads = await holder(ns.plane)
        await ns.create_pod("blocks", f"{name}-faulty", labels={"fault": "filter.blocks"})
        async with run_scheduler(ns.plane, yaml.safe_dump(following), tmp_path / "follower"):
            await ns.create_pods(5, name, prefix="behind")
            await ns.wait_for_bound(5)
            assert await holder(ns.plane) not in ("", leads)
            assert await is_dead(leader.address)
            assert "Not renewing the lease while unhealthy" in leader.log.read_text()
    await ns.plane.api.delete(f"{ns.pods}/blocks", gracePeriodSeconds=0)


async def is_dead(address: str) -> bool:
    """Return True if /livez responds with 500."""
    timeout = aiohttp.ClientTimeout(total=QUIET)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{address}/livez", ssl=False) as answer,
    ):
        return answer.status == 500
