"""The controllers at work in an embedded cluster, with a scheduler of three lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

import pytest

from pyscheduler.embedded.client import DEPLOYMENTS, JOBS, NODES, PODS, HttpClient, StatusError
from pyscheduler.embedded.cluster import ClusterSettings, EmbeddedCluster, settings_for_size
from pyscheduler.embedded.hollow import LifecycleTimings
from pyscheduler.embedded.server import ApiServer, ApiServerError
from pyscheduler.embedded.workloads import ControllerSettings
from tests.unit.hollow.live import bind, listed, shown, until

Json = dict[str, Any]
SETTINGS = ClusterSettings(
    timings=LifecycleTimings(start_seconds=0, job_seconds=0.01),
    heartbeat_seconds=0.05,
    controllers=ControllerSettings(node_grace_seconds=0.3, job_backoff_seconds=0.01),
)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(nodes=3, settings=SETTINGS) as running:
        scheduler = asyncio.create_task(place_everything(running.client, running.nodes.names))
        yield running
        scheduler.cancel()


async def place_everything(client: HttpClient, nodes: list[str]) -> None:
    turns = cycle(nodes)
    while True:
        for pod in await listed(client, PODS):
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                with contextlib.suppress(StatusError):
                    await bind(client, pod["metadata"]["name"], next(turns))
        await asyncio.sleep(0.02)


def manifest(kind: str, group: str, image: str = "i:1", **spec: Any) -> Json:
    pod: Json = {"containers": [{"name": "c", "image": image}]}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    else:
        pod["tolerations"] = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
        spec["selector"] = {"matchLabels": {"app": "w"}}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {**spec, "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod}},
    }


def available(count: int) -> Any:
    return lambda obj: (
        obj["status"].get("availableReplicas") == obj["status"].get("updatedReplicas") == count
        and obj["status"].get("replicas") == count
        and obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
    )


async def test_a_deployment_rolls_scales_and_goes(cluster: EmbeddedCluster) -> None:
    client, key = cluster.client, ("default", "w")
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await shown(client, DEPLOYMENTS, "w", available(3))
    template = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    await client.patch(DEPLOYMENTS, key, {"spec": {"template": template}}, kind="strategic-merge")
    await shown(client, DEPLOYMENTS, "w", available(3))
    assert {pod["spec"]["containers"][0]["image"] for pod in await alive(client)} == {"i:2"}
    await client.patch(DEPLOYMENTS, key, {"spec": {"replicas": 5}})
    await shown(client, DEPLOYMENTS, "w", available(5))
    assert len(await alive(client)) == 5
    await client.delete(DEPLOYMENTS, key)
    await until(lambda: nothing_left(client))


async def alive(client: HttpClient) -> list[Json]:
    return [pod for pod in await listed(client, PODS) if "deletionTimestamp" not in pod["metadata"]]


async def nothing_left(client: HttpClient) -> Json | None:
    return None if await listed(client, PODS) else {}


async def test_a_job_runs_all_its_indexes_and_completes(cluster: EmbeddedCluster) -> None:
    of = manifest("Job", "batch/v1", completions=5, parallelism=2, completionMode="Indexed")
    await cluster.client.create(JOBS, of)
    done = await shown(cluster.client, JOBS, "w", lambda job: job["status"].get("completionTime"))
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (5, "0-4")
    assert len(await listed(cluster.client, PODS)) == 5, "none was made twice"


async def test_pods_of_a_dead_node_are_replaced_on_another(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await shown(client, DEPLOYMENTS, "w", available(3))
    cluster.kill_node("node-1")
    lost = await until(lambda: node_with(client, "node-1", "Unknown"))
    assert lost["spec"]["taints"]
    await until(lambda: running_elsewhere(client, "node-1", 3))
    cluster.revive_node("node-1")
    back = await until(lambda: node_with(client, "node-1", "True"))
    assert "taints" not in back["spec"]


async def running_elsewhere(client: HttpClient, lost: str, count: int) -> Json | None:
    """Something, once so many pods run and all of them on other nodes."""
    nodes = [pod["spec"].get("nodeName") for pod in await alive(client) if pod["status"]["phase"] == "Running"]
    return {} if len(nodes) == count and lost not in nodes else None


async def node_with(client: HttpClient, name: str, ready: str) -> Json | None:
    """The node once its Ready condition says so and its taints have followed."""
    node = await client.get(NODES, "", name)
    says = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
    return node if says == ready and bool(node["spec"].get("taints")) == (ready != "True") else None


async def test_pods_of_a_deleted_node_go_with_it(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await shown(client, DEPLOYMENTS, "w", available(3))
    orphans = [p["metadata"]["uid"] for p in await listed(client, PODS) if p["spec"]["nodeName"] == "node-2"]
    await client.delete(NODES, ("", "node-2"))
    await until(lambda: none_of(client, orphans))


async def none_of(client: HttpClient, uids: list[str]) -> Json | None:
    return None if {pod["metadata"]["uid"] for pod in await listed(client, PODS)} & set(uids) else {}


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        pytest.param(ClusterSettings(), 100, (10.0, 50.0), id="few nodes"),
        pytest.param(ClusterSettings(), 5000, (100.0, 500.0), id="many nodes"),
        pytest.param(SETTINGS, 5000, (0.05, 0.3), id="as the user says"),
    ],
)
def test_many_nodes_report_more_seldom(settings: ClusterSettings, nodes: int, expected: tuple[float, float]) -> None:
    heartbeat, controllers = settings_for_size(settings, nodes)
    assert (heartbeat, controllers.node_grace_seconds) == expected


async def test_a_port_in_use_is_one_clear_error_and_leaves_nothing_behind() -> None:
    async with ApiServer() as other:
        port = int(other.url.rpartition(":")[2])
        cluster = EmbeddedCluster(port=port)
        with pytest.raises(ApiServerError, match="in use"):
            await cluster.__aenter__()
        assert not cluster.kubeconfig.exists()


def test_outside_of_the_block_there_are_no_nodes() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        EmbeddedCluster().nodes  # noqa: B018
