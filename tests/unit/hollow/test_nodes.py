"""Hollow nodes on an API server: nodes that kubectl believes in, pods that live and die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyscheduler.embedded.client import JOBS, LEASES, NODES, PODS, HttpClient, Key, Resource
from pyscheduler.embedded.hollow import HollowNodes, LifecycleTimings, NodeTemplate
from pyscheduler.embedded.server import ApiServer
from pyscheduler.testing import PodBuilder, pod
from tests.unit.hollow.live import Json, bind, create_pod, gone, in_phase, listed, server, shown, until

FAST = LifecycleTimings(start_seconds=0.01, backoff_seconds=0.01)


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with server() as connected:
        yield connected


@pytest.fixture
async def nodes(client: HttpClient) -> AsyncIterator[HollowNodes]:
    templates = [NodeTemplate("n1", cpu="2"), NodeTemplate("n2", cpu="2")]
    async with HollowNodes(client, templates, clock=time.time, timings=FAST, heartbeat_seconds=0.05) as running:
        yield running


async def placed(client: HttpClient, builder: PodBuilder, node: str = "n1") -> None:
    await create_pod(client, builder)
    await bind(client, builder.manifest["metadata"]["name"], node)


async def test_nodes_are_ready_and_keep_their_leases(client: HttpClient, nodes: HollowNodes) -> None:
    assert [node["metadata"]["name"] for node in await listed(client, NODES)] == nodes.names == ["n1", "n2"]
    first = await until(lambda: lease_of(client, "n1"))
    await until(lambda: lease_of(client, "n1", other_than=first["spec"]["renewTime"]))


async def lease_of(client: HttpClient, node: str, other_than: str = "") -> dict[str, dict[str, str]] | None:
    found = [lease for lease in await listed(client, LEASES) if lease["metadata"]["name"] == node]
    return next((lease for lease in found if lease["spec"]["renewTime"] != other_than), None)


async def test_a_bound_pod_runs_until_it_is_deleted(client: HttpClient, nodes: HollowNodes) -> None:
    await placed(client, pod("p"))
    running = await shown(client, PODS, "p", in_phase("Running"))
    assert running["status"]["podIP"].startswith("10.128.")
    assert {c["type"] for c in running["status"]["conditions"]} >= {"PodScheduled", "Ready", "Initialized"}
    await client.delete(PODS, ("default", "p"))
    await gone(client, PODS, "p")


async def test_a_pod_ends_as_its_annotations_say(client: HttpClient, nodes: HollowNodes) -> None:
    for name, annotation in (("good", "run-seconds"), ("bad", "fail-after-seconds")):
        await placed(client, pod(name).annotation(f"pyscheduler.io/{annotation}", "0.01").spec(restartPolicy="Never"))
    await shown(client, PODS, "good", in_phase("Succeeded"))
    await shown(client, PODS, "bad", in_phase("Failed"))


async def test_a_pod_knows_of_the_attempts_before_it(client: HttpClient, nodes: HollowNodes) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    uid = (await client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    for name, phase in (("first", "Failed"), ("second", "Succeeded")):
        of_job = pod(name)._with("metadata.ownerReferences", [owner]).spec(restartPolicy="Never")
        notes = {"run-seconds": "0.01", "exits": "attempt 0: 1; 0"}
        for key, value in notes.items():
            of_job = of_job.annotation(f"pyscheduler.io/{key}", value)
        await placed(client, of_job)
        await shown(client, PODS, name, in_phase(phase))


async def test_a_failing_service_is_restarted(client: HttpClient, nodes: HollowNodes) -> None:
    await placed(client, pod("p").annotation("pyscheduler.io/fail-after-seconds", "0.01"))
    await shown(client, PODS, "p", lambda p: p["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2)


async def test_a_node_that_is_oversold_refuses_and_takes_the_next_when_there_is_room(
    client: HttpClient, nodes: HollowNodes
) -> None:
    await placed(client, pod("first").requests(cpu="1500m"))
    await shown(client, PODS, "first", in_phase("Running"))
    await placed(client, pod("second").requests(cpu="1"))
    refused = await shown(client, PODS, "second", in_phase("Failed"))
    assert refused["status"]["reason"] == "OutOfcpu"
    await client.delete(PODS, ("default", "first"))
    await gone(client, PODS, "first")
    await placed(client, pod("third").requests(cpu="2"))
    await shown(client, PODS, "third", in_phase("Running"))


async def test_nothing_happens_on_a_dead_node_until_it_is_back(client: HttpClient, nodes: HollowNodes) -> None:
    nodes.kill("n1")
    await placed(client, pod("stuck"))
    await placed(client, pod("fine"), "n2")
    await shown(client, PODS, "fine", in_phase("Running"))
    assert (await client.get(PODS, "default", "stuck"))["status"]["phase"] == "Pending"
    nodes.revive("n1")
    await shown(client, PODS, "stuck", in_phase("Running"))


async def test_a_node_can_be_added_and_deleted(client: HttpClient, nodes: HollowNodes) -> None:
    await nodes.add(NodeTemplate("n3", cpu="1"))
    await placed(client, pod("p"), "n3")
    await shown(client, PODS, "p", in_phase("Running"))
    await client.delete(NODES, ("", "n3"))
    await until(lambda: without(nodes, "n3"))


async def without(nodes: HollowNodes, name: str) -> dict[str, str] | None:
    return None if name in nodes.names else {}


async def test_nodes_that_start_again_give_room_first_to_the_pods_that_run(client: HttpClient) -> None:
    template = NodeTemplate("n1", cpu="2")
    async with HollowNodes(client, [template], clock=time.time, timings=FAST):
        await placed(client, pod("z-old").requests(cpu="2"))
        before = await shown(client, PODS, "z-old", in_phase("Running"))
    await placed(client, pod("a-new").requests(cpu="1"))
    async with HollowNodes(client, [template], clock=time.time, timings=FAST):
        await shown(client, PODS, "a-new", in_phase("Failed"))
        await placed(client, pod("marker").annotation("pyscheduler.io/run-seconds", "0").spec(restartPolicy="Never"))
        await shown(client, PODS, "marker", in_phase("Succeeded"))
    after = await client.get(PODS, "default", "z-old")
    assert after["status"] == before["status"]


class Late(HttpClient):
    """Tells of an end late, and somebody deletes each pod just before its end is written."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.told, self.deletion_seen = asyncio.Event(), asyncio.Event()
        self.phases: list[str] = []

    async def watch(self, resource: Resource, resource_version: str, **more: Any) -> AsyncIterator[bytes]:
        async for line in super().watch(resource, resource_version, **more):
            if b'"phase":"Succeeded"' in line:
                await self.told.wait()
            yield line
            if b"deletionTimestamp" in line:
                self.deletion_seen.set()

    async def patch_status(self, resource: Resource, key: Key, status: Json, *, uid: str = "") -> None:
        if status.get("phase") == "Succeeded":
            await self.delete(PODS, key)
            await self.deletion_seen.wait()
        if "phase" in status:
            self.phases.append(status["phase"])
        await super().patch_status(resource, key, status, uid=uid)


async def test_an_end_that_was_written_while_the_pod_was_being_deleted_stands() -> None:
    async with (
        ApiServer() as running,
        HttpClient(running.url) as client,
        Late(running.url) as late,
        HollowNodes(late, [NodeTemplate("n1", cpu="2")], clock=time.time, timings=FAST, heartbeat_seconds=None),
    ):
        await placed(client, pod("p").annotation("pyscheduler.io/run-seconds", "0.1").spec(restartPolicy="Never"))
        await shown(client, PODS, "p", in_phase("Succeeded"))
        for _ in range(20):  # meanwhile it looks at the pod once more, which has been deleted
            await client.get(PODS, "default", "p")
        late.told.set()
        await gone(client, PODS, "p")
        assert late.phases.count("Succeeded") == 1
        assert "Failed" not in late.phases
