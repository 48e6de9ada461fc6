"""A node goes while pods are on their way to it."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.embedded.hollow import NodeTemplate
from tests.e2e.workloads import in_pool, placed
from tests.faults.fault_actions import INTERNAL
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.proxy import Exchange, status
from tests.faults.request_matchers import ProxiedRequest
from tests.faults.scheduler_under_test import FAULTY, SchedulerUnderTest

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL = NODES * 4
"""Pods of one core that fill the nodes that stay."""
KEYS = 20


async def short_lived(world: FaultNamespace) -> str:
    """One more node, the roomiest of all."""
    template = in_pool(NodeTemplate(f"{world.namespace}-short-lived", cpu="8"), world.namespace)
    await world.hollow.add(template)
    return template.name


async def test_with_bindings_on_their_way(world: FaultNamespace) -> None:
    name, gone = await short_lived(world), asyncio.Event()

    def to_it(asked: ProxiedRequest) -> bool:
        return world.bindings(asked) and name.encode() in asked.body

    async def lost(exchange: Exchange) -> None:
        await gone.wait()
        await exchange.answer(status(INTERNAL, "InternalError", "the node went first"))

    with world.proxy.rule(to_it, lost) as rule:
        await world.flood(FULL, cpu="1")
        await rule.met(3)
        await world.plane.api.delete(f"/api/v1/nodes/{name}")
        gone.set()
        await world.many_bound(FULL)


async def test_with_pods_parked_by_permit(world: FaultNamespace, subject: SchedulerUnderTest) -> None:
    name = await short_lived(world)
    for i in range(FULL):
        await world.pod(f"parked-{i}", FAULTY, cpu="1", labels={"parked": "yes"})
    await subject.has_assumed(FULL)
    await world.plane.api.delete(f"/api/v1/nodes/{name}")
    for i in range(KEYS):  # who is parked anew needs another one
        await world.pod(f"key-{i}", FAULTY, cpu="", labels={"opens": "yes"})
        found = await world.bound(f"key-{i}")
        if len(placed(await world.plane.api.get(world.pods))) == FULL + i + 1:
            break
        await asyncio.sleep(0.5)
    assert name not in found.values()
