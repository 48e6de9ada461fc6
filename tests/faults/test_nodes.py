"""Deletion of a node while pods are being bound to it."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.embedded.hollow import NodeTemplate
from tests.e2e.workloads import in_pool, placed
from tests.faults.fault_actions import INTERNAL
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.proxy import Exchange, status
from tests.faults.request_matchers import ProxiedRequest
from tests.faults.scheduler_under_test import FAULTY, SchedulerUnderTest, cached_nodes

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL = NODES * 4
"""Pods of one core that fill the remaining nodes."""
KEYS = 20


async def short_lived(ns: FaultNamespace) -> str:
    """Add a node that is larger than the others, and return its name."""
    template = in_pool(NodeTemplate(f"{ns.namespace}-short-lived", cpu="8"), ns.namespace)
    await ns.hollow.add(template)
    return template.name


async def test_pods_are_bound_elsewhere_when_their_node_is_deleted_during_binding(ns: FaultNamespace) -> None:
    name, gone = await short_lived(ns), asyncio.Event()

    def to_it(request: ProxiedRequest) -> bool:
        return ns.bindings(request) and name.encode() in request.body

    async def lost(exchange: Exchange) -> None:
        await gone.wait()
        await exchange.answer(status(INTERNAL, "InternalError", "the node went first"))

    with ns.proxy.rule(to_it, lost) as rule:
        await ns.create_pods(FULL, cpu="1")
        await rule.wait_matched(3)
        await ns.plane.api.delete(f"/api/v1/nodes/{name}")
        gone.set()
        await ns.wait_for_bound(FULL)


async def test_pods_waiting_in_permit_are_bound_elsewhere_when_their_node_is_deleted(
    ns: FaultNamespace, subject: SchedulerUnderTest
) -> None:
    name = await short_lived(ns)
    for i in range(FULL):
        await ns.create_pod(f"parked-{i}", FAULTY, cpu="1", labels={"parked": "yes"})
    await subject.wait_until_assumed(FULL)
    nodes = cached_nodes(await subject.metrics())
    await ns.plane.api.delete(f"/api/v1/nodes/{name}")
    await subject.wait_until_node_removed(nodes)  # a key that comes first would open pods on the deleted node
    for i in range(KEYS):  # pods that wait in Permit again need another key
        await ns.create_pod(f"key-{i}", FAULTY, cpu="", labels={"opens": "yes"})
        found = await ns.nodes_of(f"key-{i}")
        if len(placed(await ns.plane.api.get(ns.pods))) == FULL + i + 1:
            break
        await asyncio.sleep(0.5)
    assert name not in found.values()
