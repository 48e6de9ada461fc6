"""Plugins that raise, hang or answer nonsense: each costs its own pod one backoff, and nobody else anything."""

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
from tests.faults.scheduler_under_test import FAULTY, SchedulerUnderTest, configuration, started
from tests.faults.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECIDING = ("pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reserve", "permit")
ACTING = ("pre_bind", "bind", "post_bind")
MISBEHAVIOURS = [
    *(f"{point}.{how}" for point in (*DECIDING, *ACTING) for how in ("raises", "nonsense")),
    *(f"{point}.cancels" for point in ACTING),
]
HANGING = 120
"""More than there are workers that bind."""
QUIET = 3.0
"""Seconds within which /livez is answered, whatever blocks the loop."""
SHORT = Times(lease=6.0, deadline=4.0, retry=0.5)


async def test_a_plugin_that_misbehaves_once_costs_its_pod_one_backoff(world: FaultNamespace) -> None:
    names = [fault.replace("_", "-").replace(".", "-") for fault in MISBEHAVIOURS]
    for name, fault in zip(names, MISBEHAVIOURS, strict=True):
        await world.pod(name, FAULTY, labels={"fault": fault})
    await world.flood(10, FAULTY)
    await world.bound(*names)
    await world.many_bound(len(names) + 10)


async def test_a_plugin_that_fails_to_make_room_leaves_others_alone(world: FaultNamespace) -> None:
    for how in ("raises", "nonsense"):
        await world.pod(f"giant-{how}", FAULTY, cpu="64", labels={"fault": f"post_filter.{how}"})
    await world.flood(10, FAULTY)
    await world.many_bound(10)


@pytest.mark.parametrize("point", ACTING)
async def test_pods_whose_bindings_never_end_hold_nobody_up(world: FaultNamespace, tmp_path: Path, point: str) -> None:
    """More of them than there are workers; and when they are deleted, nothing of them goes on."""
    name, labels = world.namespace, {"fault": f"{point}.hangs"}
    async with started(world.plane, configuration(name, f"{name}-faulty"), tmp_path / "hanging") as running:
        subject = SchedulerUnderTest(running, world.plane.api, world.proxy)
        for i in range(HANGING):
            await world.pod(f"hung-{i}", f"{name}-faulty", cpu="10m", labels=labels)
        await world.flood(20, name)
        already = HANGING if point == "post_bind" else 0
        await world.many_bound(20 + already)

        async def goes_on() -> float:
            return binding(await subject.metrics())

        await until(lambda: equals(goes_on, 0 if already else HANGING))
        await world.plane.api.delete(world.pods, gracePeriodSeconds=0, labelSelector=f"fault={point}.hangs")
        await until(lambda: equals(goes_on, 0))
        await world.flood(20, name, prefix="after")
        await world.many_bound(40)


async def equals(counted: Callable[[], Awaitable[float]], number: float) -> bool:
    return await counted() == number


def binding(metrics: Page) -> float:
    """The binding cycles that have not ended."""
    ((_, number),) = metrics["scheduler_goroutines"].values
    return number


async def test_pods_whose_preparations_never_end_are_taken_up_by_the_next(
    world: FaultNamespace, tmp_path: Path
) -> None:
    name = world.namespace
    async with started(world.plane, configuration(name, f"{name}-faulty"), tmp_path / "hanging"):
        for i in range(40):
            await world.pod(f"hung-{i}", f"{name}-faulty", cpu="10m", labels={"fault": "pre_bind.hangs"})
        await world.flood(20, name)
        await world.many_bound(20)
    async with started(world.plane, configuration(name, f"{name}-faulty", sane=True), tmp_path / "after"):
        await world.many_bound(60)


async def test_a_plugin_that_never_comes_back_is_seen_from_outside(world: FaultNamespace, tmp_path: Path) -> None:
    """Nothing else runs meanwhile, so /livez fails, and the kubelet starts another one."""
    name = world.namespace
    async with started(world.plane, configuration(name, f"{name}-faulty"), tmp_path / "blocked") as blocked:
        await world.flood(5, name, prefix="before")
        await world.many_bound(5)
        await world.pod("blocks", f"{name}-faulty", labels={"fault": "filter.blocks"})
        await world.flood(5, name, prefix="behind")
        await until(partial(is_dead, blocked.address))
        assert '"Plugin blocks the scheduling loop" plugin="Faulty"' in blocked.log.read_text()
        blocked.process.kill()
    async with started(world.plane, configuration(name, f"{name}-faulty", sane=True), tmp_path / "after"):
        await world.many_bound(11)


async def test_a_leader_that_a_plugin_blocks_for_ever_is_followed(world: FaultNamespace, tmp_path: Path) -> None:
    """Its lease is not renewed once it counts as dead, and it writes nothing more."""
    await without_lease(world.plane)
    name = world.namespace
    document = yaml.safe_load(electing(name, SHORT, 5000))
    faulty = yaml.safe_load(configuration(name, f"{name}-faulty"))["profiles"][1]
    leading, following = ({**document, "profiles": [*document["profiles"], *more]} for more in ([faulty], []))
    async with started(world.plane, yaml.safe_dump(leading), tmp_path / "leader") as leader:
        await until(partial(holder, world.plane))
        leads = await holder(world.plane)
        await world.pod("blocks", f"{name}-faulty", labels={"fault": "filter.blocks"})
        async with started(world.plane, yaml.safe_dump(following), tmp_path / "follower"):
            await world.flood(5, name, prefix="behind")
            await world.many_bound(5)
            assert await holder(world.plane) not in ("", leads)
            assert await is_dead(leader.address)
            assert "Not renewing the lease" in leader.log.read_text()
    await world.plane.api.delete(f"{world.pods}/blocks", gracePeriodSeconds=0)


async def is_dead(address: str) -> bool:
    """Return True if /livez fails; it must be answered all the same."""
    timeout = aiohttp.ClientTimeout(total=QUIET)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{address}/livez", ssl=False) as answer,
    ):
        return answer.status == 500
