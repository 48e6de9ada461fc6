"""kill -9 of the scheduler in the middle of each thing that it does; another one starts and finds what it left."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.scheduler import SchedulerProcess
from tests.e2e.test_failover import SHORT, holder, without_lease
from tests.e2e.test_failover import configuration as electing
from tests.faults.fault_actions import INTERNAL, HeldCalls, passes, refuses
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.request_matchers import ProxiedRequest, evictions, leases, within, writes
from tests.faults.scheduler_under_test import SchedulerUnderTest, configuration, started
from tests.faults.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

URGENT = "system-cluster-critical"
PODS = 12


def scheduler(world: FaultNamespace, folder: Path, sane: bool = False) -> AbstractAsyncContextManager[SchedulerProcess]:
    """One for the pods of this story only."""
    name = world.namespace
    return started(world.plane, configuration(name, f"{name}-faulty", sane), folder, world.proxy)


async def killed(running: SchedulerProcess) -> None:
    running.process.kill()
    await running.process.wait()


@pytest.mark.parametrize(
    "arrives", [False, True], ids=["which never arrive", "which arrive when the next one is at work"]
)
async def test_before_its_bindings_arrive(world: FaultNamespace, tmp_path: Path, arrives: bool) -> None:
    held = HeldCalls()
    with world.proxy.rule(world.bindings, held, times=4) as rule:
        async with scheduler(world, tmp_path / "first") as first:
            await world.flood(PODS, world.namespace)
            await rule.met(4)
            await killed(first)
        if not arrives:
            held.drop()
        async with scheduler(world, tmp_path / "second"):
            held.release()
            await world.many_bound(PODS)


async def test_after_its_bindings_were_made_and_before_it_heard_of_it(world: FaultNamespace, tmp_path: Path) -> None:
    held = HeldCalls(after=True)
    with world.proxy.rule(world.bindings, held, times=4) as rule:
        async with scheduler(world, tmp_path / "first") as first:
            await world.flood(PODS, world.namespace)
            await rule.met(4)
            await killed(first)
        held.drop()
        async with scheduler(world, tmp_path / "second"):
            await world.many_bound(PODS)


@pytest.mark.parametrize("evicted", [0, 1], ids=["before the first victim goes", "between two victims"])
async def test_during_preemption(world: FaultNamespace, tmp_path: Path, evicted: int) -> None:
    held, theirs = HeldCalls(), within(world.namespace, evictions)
    with world.proxy.rule(theirs, held) as rule, world.proxy.rule(theirs, passes, times=evicted):
        async with scheduler(world, tmp_path / "first") as first:
            await world.flood(NODES * 4, world.namespace, prefix="low", cpu="1")
            await world.many_bound(NODES * 4)
            await world.pod("urgent", world.namespace, cpu="2", priorityClassName=URGENT)
            await rule.met()
            await killed(first)
        held.drop()
    async with scheduler(world, tmp_path / "second"):
        await world.bound("urgent")


async def test_while_pods_are_parked_by_permit(world: FaultNamespace, tmp_path: Path) -> None:
    faulty = f"{world.namespace}-faulty"
    async with scheduler(world, tmp_path / "first") as first:
        for i in range(3):
            await world.pod(f"parked-{i}", faulty, labels={"parked": "yes"})
        await SchedulerUnderTest(first, world.plane.api, world.proxy).has_assumed(3)
        await killed(first)
    async with scheduler(world, tmp_path / "second") as second:
        await SchedulerUnderTest(second, world.plane.api, world.proxy).has_assumed(3)
        await world.pod("key", faulty, labels={"opens": "yes"})
        await world.bound("key", *(f"parked-{i}" for i in range(3)))


async def test_a_leader_whose_renewals_are_refused_ends_and_its_last_calls_do_no_harm(
    world: FaultNamespace, tmp_path: Path
) -> None:
    def renewals(asked: ProxiedRequest) -> bool:
        return leases(asked) and writes(asked)

    await without_lease(world.plane)
    text, held = electing(world.namespace, SHORT, 5000), HeldCalls()
    async with started(world.plane, text, tmp_path / "leader", world.proxy) as leader:
        await until(partial(holder, world.plane))
        async with started(world.plane, text, tmp_path / "follower"):
            with (
                world.proxy.rule(world.bindings, held, times=4) as rule,
                world.proxy.rule(renewals, refuses(INTERNAL)),
            ):
                await world.flood(PODS, world.namespace)
                await rule.met(4)
                assert await asyncio.wait_for(leader.process.wait(), SHORT.deadline + 60) == 1
                held.release()
            await world.many_bound(PODS)
    assert "Leaderelection lost" in leader.log.read_text()
