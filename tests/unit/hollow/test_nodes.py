"""Hollow nodes on an API server: node status and leases, pods that run and terminate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pyscheduler.clock import SystemClock
from pyscheduler.embedded.client import JOBS
from pyscheduler.embedded.hollow import HollowNodes, LifecycleTimings, NodeTemplate
from pyscheduler.embedded.server import ApiServer
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.credentials import Credentials, load
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import LEASES, NODES, PODS
from pyscheduler.testing import PodBuilder, pod
from tests.unit.hollow.live import (
    bind,
    connected,
    create_pod,
    in_phase,
    list_objects,
    server,
    until,
    wait_for,
    wait_until_deleted,
)

FAST = LifecycleTimings(start_seconds=0.01, backoff_seconds=0.01)


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with server() as connection:
        yield connection


@pytest.fixture
def client(connection: Connection) -> ObjectClient:
    return ObjectClient(connection)


@pytest.fixture
async def nodes(connection: Connection) -> AsyncIterator[HollowNodes]:
    templates = [NodeTemplate("n1", cpu="2"), NodeTemplate("n2", cpu="2")]
    async with HollowNodes(connection, templates, clock=SystemClock(), timings=FAST, heartbeat_seconds=0.05) as running:
        yield running


async def create_bound(client: ObjectClient, builder: PodBuilder, node: str = "n1") -> None:
    await create_pod(client, builder)
    await bind(client, builder.manifest["metadata"]["name"], node)


async def test_nodes_are_ready_and_renew_their_leases(client: ObjectClient, nodes: HollowNodes) -> None:
    assert [node["metadata"]["name"] for node in await list_objects(client, NODES)] == nodes.names == ["n1", "n2"]
    first = await until(lambda: lease_of(client, "n1"))
    await until(lambda: lease_of(client, "n1", other_than=first["spec"]["renewTime"]))


async def lease_of(client: ObjectClient, node: str, other_than: str = "") -> dict[str, dict[str, str]] | None:
    found = [lease for lease in await list_objects(client, LEASES) if lease["metadata"]["name"] == node]
    return next((lease for lease in found if lease["spec"]["renewTime"] != other_than), None)


async def test_bound_pod_runs_until_it_is_deleted(client: ObjectClient, nodes: HollowNodes) -> None:
    await create_bound(client, pod("p"))
    running = await wait_for(client, PODS, "p", in_phase("Running"))
    assert running["status"]["podIP"].startswith("10.128.")
    assert {c["type"] for c in running["status"]["conditions"]} >= {"PodScheduled", "Ready", "Initialized"}
    await client.delete(PODS, ("default", "p"))
    await wait_until_deleted(client, PODS, "p")


async def test_annotations_set_the_end_of_a_pod(client: ObjectClient, nodes: HollowNodes) -> None:
    for name, annotation in (("good", "run-seconds"), ("bad", "fail-after-seconds")):
        await create_bound(
            client, pod(name).annotation(f"pyscheduler.io/{annotation}", "0.01").spec(restartPolicy="Never")
        )
    await wait_for(client, PODS, "good", in_phase("Succeeded"))
    await wait_for(client, PODS, "bad", in_phase("Failed"))


async def test_failed_pods_of_a_job_count_as_attempts(client: ObjectClient, nodes: HollowNodes) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    uid = (await client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    for name, phase in (("first", "Failed"), ("second", "Succeeded")):
        of_job = pod(name)._with("metadata.ownerReferences", [owner]).spec(restartPolicy="Never")
        annotations = {"run-seconds": "0.01", "exits": "attempt 0: 1; 0"}
        for key, value in annotations.items():
            of_job = of_job.annotation(f"pyscheduler.io/{key}", value)
        await create_bound(client, of_job)
        await wait_for(client, PODS, name, in_phase(phase))


async def test_failing_pod_is_restarted(client: ObjectClient, nodes: HollowNodes) -> None:
    await create_bound(client, pod("p").annotation("pyscheduler.io/fail-after-seconds", "0.01"))
    await wait_for(
        client, PODS, "p", lambda p: p["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2
    )


async def test_full_node_rejects_a_pod_and_admits_one_when_there_is_room(
    client: ObjectClient, nodes: HollowNodes
) -> None:
    await create_bound(client, pod("first").requests(cpu="1500m"))
    await wait_for(client, PODS, "first", in_phase("Running"))
    await create_bound(client, pod("second").requests(cpu="1"))
    rejected = await wait_for(client, PODS, "second", in_phase("Failed"))
    assert rejected["status"]["reason"] == "OutOfcpu"
    await client.delete(PODS, ("default", "first"))
    await wait_until_deleted(client, PODS, "first")
    await create_bound(client, pod("third").requests(cpu="2"))
    await wait_for(client, PODS, "third", in_phase("Running"))


async def test_pods_of_a_killed_node_start_when_it_is_revived(client: ObjectClient, nodes: HollowNodes) -> None:
    nodes.kill("n1")
    await create_bound(client, pod("stuck"))
    await create_bound(client, pod("fine"), "n2")
    await wait_for(client, PODS, "fine", in_phase("Running"))
    assert (await client.get(PODS, "default", "stuck"))["status"]["phase"] == "Pending"
    nodes.revive("n1")
    await wait_for(client, PODS, "stuck", in_phase("Running"))


async def test_node_can_be_added_and_deleted(client: ObjectClient, nodes: HollowNodes) -> None:
    await nodes.add(NodeTemplate("n3", cpu="1"))
    await create_bound(client, pod("p"), "n3")
    await wait_for(client, PODS, "p", in_phase("Running"))
    await client.delete(NODES, ("", "n3"))
    await until(lambda: without(nodes, "n3"))


async def without(nodes: HollowNodes, name: str) -> dict[str, str] | None:
    return None if name in nodes.names else {}


async def test_running_pods_have_precedence_when_nodes_restart(connection: Connection, client: ObjectClient) -> None:
    template = NodeTemplate("n1", cpu="2")
    async with HollowNodes(connection, [template], clock=SystemClock(), timings=FAST):
        await create_bound(client, pod("z-old").requests(cpu="2"))
        before = await wait_for(client, PODS, "z-old", in_phase("Running"))
    await create_bound(client, pod("a-new").requests(cpu="1"))
    async with HollowNodes(connection, [template], clock=SystemClock(), timings=FAST):
        await wait_for(client, PODS, "a-new", in_phase("Failed"))
        await create_bound(
            client, pod("marker").annotation("pyscheduler.io/run-seconds", "0").spec(restartPolicy="Never")
        )
        await wait_for(client, PODS, "marker", in_phase("Succeeded"))
    after = await client.get(PODS, "default", "z-old")
    assert after["status"] == before["status"]


class DelayedConnection(Connection):
    """Delays the watch event of a finished pod, and deletes each pod just before its final status is written."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials, ConnectionOptions(qps=-1), SystemClock())
        self.release, self.deletion_seen = asyncio.Event(), asyncio.Event()
        self.phases: list[str] = []

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().watching(path, seconds) as chunks:
            yield self._delayed(chunks)

    async def _delayed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if b'"phase":"Succeeded"' in chunk:
                await self.release.wait()
            yield chunk
            if b"deletionTimestamp" in chunk:
                self.deletion_seen.set()

    async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
        if method == "PATCH" and path.startswith("/api/v1/namespaces/default/pods/"):
            phase = msgspec.json.decode(arguments[0])["status"].get("phase")
            if phase == "Succeeded":
                await ObjectClient(self).delete(PODS, ("default", "p"))
                await self.deletion_seen.wait()
            self.phases.append(phase)
        return await super().request(method, path, *arguments, **options)


async def test_final_status_written_during_a_deletion_is_not_overwritten() -> None:
    async with ApiServer() as running, connected(running.url) as connection:
        client = ObjectClient(connection)
        delayed = DelayedConnection(await load(None, SystemClock(), running.url))
        nodes = [NodeTemplate("n1", cpu="2")]
        async with HollowNodes(delayed, nodes, clock=SystemClock(), timings=FAST, heartbeat_seconds=None):
            finite = pod("p").annotation("pyscheduler.io/run-seconds", "0.1").spec(restartPolicy="Never")
            await create_bound(client, finite)
            await wait_for(client, PODS, "p", in_phase("Succeeded"))
            for _ in range(20):  # gives the nodes time to sync the deleted pod once more
                await client.get(PODS, "default", "p")
            delayed.release.set()
            await wait_until_deleted(client, PODS, "p")
        await delayed.close()
        assert delayed.phases.count("Succeeded") == 1
        assert "Failed" not in delayed.phases
