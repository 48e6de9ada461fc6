"""Calls that go wrong: whatever becomes of them, the cluster ends as if nothing had been."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.workloads import placed
from tests.faults.asked import Asked, In, events, evictions, lists, pod_statuses, watches
from tests.faults.proxy import Fault
from tests.faults.subject import PATIENCE
from tests.faults.troubles import (
    GONE,
    INTERNAL,
    TOO_MANY,
    UNAVAILABLE,
    breaks_off,
    first,
    hangs_up,
    loses_the_answer,
    refuses,
    says_500_though_done,
    stalls,
)
from tests.faults.world import NODES, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

OUTAGE = 1.0
"""Seconds."""
URGENT = "system-cluster-critical"
FAULTS: dict[str, Fault] = {
    "reset before it arrives": hangs_up,
    "reset in mid-body": breaks_off,
    "answer lost": loses_the_answer,
    "stalled on the way there": stalls(PATIENCE + 0.5),
    "stalled on the way back": stalls(PATIENCE + 0.5, after=True),
    "429 with Retry-After": refuses(TOO_MANY, 1),
    "500": refuses(INTERNAL),
    "500 though done": says_500_though_done,
    "503": refuses(UNAVAILABLE),
}
each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


async def test_connection_refused(world: World) -> None:
    await world.flood(20, prefix="before")
    async with world.proxy.refusing():
        await world.flood(20, prefix="meanwhile")
        await asyncio.sleep(OUTAGE)
    await world.many_bound(40)


@each_fault
async def test_bindings(world: World, fault: Fault) -> None:
    with world.proxy.rule(world.bindings, fault, times=8) as rule:
        await world.flood(20)
        await rule.met(8)
        await world.many_bound(20)


@each_fault
async def test_lists(world: World, fault: Fault) -> None:
    """The watch has to start over from a list, and that goes wrong twice."""
    with (
        world.proxy.rule(watches("pods"), refuses(GONE), times=1),
        world.proxy.rule(lists("pods"), fault, times=2) as rule,
    ):
        assert world.proxy.cut(watches("pods"))
        await world.flood(10)
        await rule.met(2)
        await world.many_bound(10)


@each_fault
async def test_preemption(world: World, fault: Fault) -> None:
    """Neither the nomination nor the eviction goes well."""
    everywhere = NODES * 4
    await world.flood(everywhere, prefix="low", cpu="1")
    await world.many_bound(everywhere)
    with (
        world.proxy.rule(In(pod_statuses, world.namespace), fault, times=2),
        world.proxy.rule(In(evictions, world.namespace), fault, times=2) as rule,
    ):
        for name in ("a", "b"):
            await world.pod(name, cpu="2", priorityClassName=URGENT)
        await rule.met(2)
        await world.bound("a", "b")
    found = await world.plane.api.get(world.pods)
    assert len(placed(found)) >= everywhere - 4 + 2, "nobody was evicted in vain"


async def test_events_that_nobody_takes(world: World) -> None:
    with world.proxy.rule(In(events, world.namespace), refuses(INTERNAL)) as rule:
        await world.flood(20)
        await world.many_bound(20)
        await rule.met(1)


async def test_409_somebody_else_binds_it_first(world: World) -> None:
    async def elsewhere(asked: Asked) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": world.hollow.names[0]}
        name = asked.pod.partition("/")[2]
        await world.plane.api.create(asked.path, {"metadata": {"name": name}, "target": target})

    with world.proxy.rule(world.bindings, first(elsewhere), times=3) as rule:
        await world.flood(6)
        await rule.met(3)
        found = await world.bound(*(f"p-{i}" for i in range(6)))
    stolen = {found[asked.pod.partition("/")[2]] for asked in rule.struck}
    assert stolen == {world.hollow.names[0]}


@pytest.mark.parametrize("again", [False, True], ids=["for good", "and made again"])
async def test_404_a_pod_deleted_between_decision_and_binding(world: World, again: bool) -> None:
    async def delete(asked: Asked) -> None:
        name = asked.pod.partition("/")[2]
        await world.plane.api.delete(f"{world.pods}/{name}", gracePeriodSeconds=0)
        if again:
            await world.pod(name)

    with world.proxy.rule(world.bindings, first(delete), times=3) as rule:
        await world.flood(6)
        await rule.met(3)
        await world.many_bound(6 if again else 3)
