"""kill -9 of the scheduler during bindings, evictions and Permit; the next scheduler continues."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.scheduler import SchedulerProcess
from tests.e2e.test_failover import SHORT, holder, without_lease
from tests.e2e.test_failover import configuration as electing
from tests.faults.fault_actions import INTERNAL, HeldCalls, forward, reject
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.request_matchers import ProxiedRequest, evictions, leases, within, writes
from tests.faults.scheduler_under_test import SchedulerUnderTest, configuration, run_scheduler
from tests.faults.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

URGENT = "system-cluster-critical"
PODS = 12


def scheduler(ns: FaultNamespace, folder: Path, sane: bool = False) -> AbstractAsyncContextManager[SchedulerProcess]:
    """Run a scheduler for the pods of this test only."""
    name = ns.namespace
    return run_scheduler(ns.plane, configuration(name, f"{name}-faulty", sane), folder, ns.proxy)


async def killed(running: SchedulerProcess) -> None:
    running.process.kill()
    await running.process.wait()


@pytest.mark.parametrize("arrives", [False, True], ids=["bindings lost", "bindings arrive late"])
async def test_pods_are_bound_once_after_a_kill_with_bindings_in_flight(
    ns: FaultNamespace, tmp_path: Path, arrives: bool
) -> None:
    held_calls = HeldCalls()
    with ns.proxy.rule(ns.bindings, held_calls, times=4) as rule:
        async with scheduler(ns, tmp_path / "first") as first:
            await ns.create_pods(PODS, ns.namespace)
            await rule.wait_matched(4)
            await killed(first)
        if not arrives:
            held_calls.drop()
        async with scheduler(ns, tmp_path / "second"):
            held_calls.release()
            await ns.wait_for_bound(PODS)


async def test_bindings_are_kept_after_a_kill_before_their_responses(ns: FaultNamespace, tmp_path: Path) -> None:
    held_calls = HeldCalls(after=True)
    with ns.proxy.rule(ns.bindings, held_calls, times=4) as rule:
        async with scheduler(ns, tmp_path / "first") as first:
            await ns.create_pods(PODS, ns.namespace)
            await rule.wait_matched(4)
            await killed(first)
        held_calls.drop()
        async with scheduler(ns, tmp_path / "second"):
            await ns.wait_for_bound(PODS)


@pytest.mark.parametrize("evicted", [0, 1], ids=["before the first eviction", "between two evictions"])
async def test_preemptor_is_bound_after_a_kill_during_evictions(
    ns: FaultNamespace, tmp_path: Path, evicted: int
) -> None:
    held_calls, theirs = HeldCalls(), within(ns.namespace, evictions)
    with ns.proxy.rule(theirs, held_calls) as rule, ns.proxy.rule(theirs, forward, times=evicted):
        async with scheduler(ns, tmp_path / "first") as first:
            await ns.create_pods(NODES * 4, ns.namespace, prefix="low", cpu="1")
            await ns.wait_for_bound(NODES * 4)
            await ns.create_pod("urgent", ns.namespace, cpu="2", priorityClassName=URGENT)
            await rule.wait_matched()
            await killed(first)
        held_calls.drop()
    async with scheduler(ns, tmp_path / "second"):
        await ns.nodes_of("urgent")


async def test_pods_wait_in_permit_again_after_a_kill(ns: FaultNamespace, tmp_path: Path) -> None:
    faulty = f"{ns.namespace}-faulty"
    async with scheduler(ns, tmp_path / "first") as first:
        for i in range(3):
            await ns.create_pod(f"parked-{i}", faulty, labels={"parked": "yes"})
        await SchedulerUnderTest(first, ns.plane.api, ns.proxy).wait_until_assumed(3)
        await killed(first)
    async with scheduler(ns, tmp_path / "second") as second:
        await SchedulerUnderTest(second, ns.plane.api, ns.proxy).wait_until_assumed(3)
        await ns.create_pod("key", faulty, labels={"opens": "yes"})
        await ns.nodes_of("key", *(f"parked-{i}" for i in range(3)))


async def test_leader_without_renewals_exits_and_its_late_bindings_do_no_harm(
    ns: FaultNamespace, tmp_path: Path
) -> None:
    def renewals(request: ProxiedRequest) -> bool:
        return leases(request) and writes(request)

    await without_lease(ns.plane)
    text, held_calls = electing(ns.namespace, SHORT, 5000), HeldCalls()
    async with run_scheduler(ns.plane, text, tmp_path / "leader", ns.proxy) as leader:
        await until(partial(holder, ns.plane))
        async with run_scheduler(ns.plane, text, tmp_path / "follower"):
            with (
                ns.proxy.rule(ns.bindings, held_calls, times=4) as rule,
                ns.proxy.rule(renewals, reject(INTERNAL)),
            ):
                await ns.create_pods(PODS, ns.namespace)
                await rule.wait_matched(4)
                assert await asyncio.wait_for(leader.process.wait(), SHORT.deadline + 60) == 1
                held_calls.release()
            await ns.wait_for_bound(PODS)
    assert "Leaderelection lost" in leader.log.read_text()
