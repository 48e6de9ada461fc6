"""Nodes that a client creates in an embedded cluster become hollow nodes, and fail and recover by an annotation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.clock import SystemClock
from pyscheduler.embedded.hollow import HollowNodes, LifecycleTimings
from pyscheduler.embedded.hollow.node_types import HEARTBEATS, STOPPED
from pyscheduler.embedded.hollow.template import NodeTemplate, node_object
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import LEASES, NODES, PODS
from pyscheduler.testing import pod
from tests.unit.hollow.live import bind, create_pod, in_phase, list_objects, server, until, wait_for

Json = dict[str, Any]


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with server() as connection:
        yield connection


@pytest.fixture
def client(connection: Connection) -> ObjectClient:
    return ObjectClient(connection)


def hollow_nodes(connection: Connection, *, adopt: bool = True) -> HollowNodes:
    timings = LifecycleTimings(start_seconds=0.01)
    return HollowNodes(connection, [], clock=SystemClock(), timings=timings, heartbeat_seconds=0.05, adopt=adopt)


def a_node(name: str, **annotations: str) -> Json:
    node = node_object(NodeTemplate(name, cpu="2"), "", 0.0)
    del node["status"]["nodeInfo"]
    node["metadata"]["annotations"] = annotations
    return node


def runs_hollow(node: Json) -> bool:
    info = node["status"].get("nodeInfo") or {}
    return bool(info.get("containerRuntimeVersion") == "hollow://1.0")


async def lease_renewal(client: ObjectClient, other_than: str = "") -> str:
    async def poll() -> Json | None:
        leases = [lease for lease in await list_objects(client, LEASES) if lease["spec"]["renewTime"] != other_than]
        return leases[0] if leases else None

    return str((await until(poll))["spec"]["renewTime"])


async def wait_for_node(client: ObjectClient, name: str) -> Json:
    async def poll() -> Json | None:
        node = await client.get(NODES, "", name)
        return node if runs_hollow(node) else None

    return await until(poll)


async def test_created_node_runs_pods_with_an_address_and_heartbeats(
    connection: Connection, client: ObjectClient
) -> None:
    async with hollow_nodes(connection):
        await client.create(NODES, a_node("n"))
        node = await wait_for_node(client, "n")
        assert {a["type"] for a in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
        await create_pod(client, pod("p"))
        await bind(client, "p", "n")
        await wait_for(client, PODS, "p", in_phase("Running"))
        await lease_renewal(client, other_than=await lease_renewal(client))


async def test_node_and_pods_that_were_there_before_are_adopted(connection: Connection, client: ObjectClient) -> None:
    await client.create(NODES, a_node("n"))
    await create_pod(client, pod("p"))
    await bind(client, "p", "n")
    async with hollow_nodes(connection):
        await wait_for(client, PODS, "p", in_phase("Running"))


async def test_pods_that_are_bound_before_their_node_exists_run_on_it(
    connection: Connection, client: ObjectClient
) -> None:
    async with hollow_nodes(connection):
        await create_pod(client, pod("p"))
        await bind(client, "p", "n")
        await client.create(NODES, a_node("n"))
        await wait_for(client, PODS, "p", in_phase("Running"))


async def test_adopted_node_rejects_pods_beyond_its_capacity(connection: Connection, client: ObjectClient) -> None:
    await client.create(NODES, a_node("n"))
    async with hollow_nodes(connection):
        for name in ("first", "second"):
            await create_pod(client, pod(name).requests(cpu="1500m"))
            await bind(client, name, "n")
            await wait_for(client, PODS, name, lambda obj: obj["status"]["phase"] != "Pending")
        second = await client.get(PODS, "default", "second")
        assert (second["status"]["phase"], second["status"]["reason"]) == ("Failed", "OutOfcpu")


async def test_annotation_stops_heartbeats_and_pods_until_it_is_removed(
    connection: Connection, client: ObjectClient
) -> None:
    async with hollow_nodes(connection) as nodes:
        await client.create(NODES, a_node("n", **{HEARTBEATS: STOPPED}))
        await wait_for_node(client, "n")
        await create_pod(client, pod("p"))
        await bind(client, "p", "n")
        await client.patch(NODES, ("", "n"), {"metadata": {"labels": {"seen": "yes"}}})
        assert (await client.get(PODS, "default", "p"))["status"]["phase"] == "Pending"
        assert await list_objects(client, LEASES) == []
        await client.patch(NODES, ("", "n"), {"metadata": {"annotations": {HEARTBEATS: None}}})
        await wait_for(client, PODS, "p", in_phase("Running"))
        await lease_renewal(client)
        assert nodes.names == ["n"]


async def test_addresses_of_pods_that_were_there_before_are_not_assigned_again(
    connection: Connection, client: ObjectClient
) -> None:
    await client.create(NODES, a_node("n"))
    await create_pod(client, pod("old"))
    await bind(client, "old", "n")
    async with hollow_nodes(connection):
        old = await wait_for(client, PODS, "old", in_phase("Running"))
    async with hollow_nodes(connection):
        await create_pod(client, pod("new"))
        await bind(client, "new", "n")
        new = await wait_for(client, PODS, "new", in_phase("Running"))
    assert old["status"]["podIP"] != new["status"]["podIP"]


async def test_nodes_of_other_hollow_kubelets_are_left_to_them(connection: Connection, client: ObjectClient) -> None:
    others = HollowNodes(connection, [NodeTemplate("n")], clock=SystemClock())
    async with hollow_nodes(connection) as nodes, others:
        await client.create(NODES, a_node("own"))
        await wait_for(client, NODES, "own", runs_hollow)
        assert nodes.names == ["own"]


async def test_without_adoption_other_nodes_are_left_alone(connection: Connection, client: ObjectClient) -> None:
    await client.create(NODES, a_node("n"))
    async with hollow_nodes(connection, adopt=False) as nodes:
        assert nodes.names == []
        with pytest.raises(ApiError):
            await client.get(LEASES, "kube-node-lease", "n")
