"""Controllers in an embedded cluster, with a round-robin scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.embedded.client import DEPLOYMENTS, JOBS
from pyscheduler.embedded.client.kinds import AUTOSCALERS, RESOURCE_SLICES
from pyscheduler.embedded.cluster import ClusterSettings, EmbeddedCluster, settings_for_size
from pyscheduler.embedded.hollow import LifecycleTimings
from pyscheduler.embedded.server import ApiServer, ApiServerError
from pyscheduler.embedded.workloads import ControllerSettings
from pyscheduler.embedded.workloads.daemon_nodes import pinned_node
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import CORE_EVENTS, NODES, PODS
from tests.unit.hollow.live import bind, list_objects, until, wait_for
from tests.unit.workloads.builders import conditions

Json = dict[str, Any]
QUOTAS = ResourceKind("", "v1", "resourcequotas", "ResourceQuota")
SETTINGS = ClusterSettings(
    timings=LifecycleTimings(start_seconds=0, job_seconds=0.01),
    heartbeat_seconds=0.05,
    controllers=ControllerSettings(node_grace_seconds=0.3, job_backoff_seconds=0.01),
)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(nodes=3, settings=SETTINGS) as running:
        scheduler = asyncio.create_task(bind_round_robin(running.client, running.nodes.names))
        yield running
        scheduler.cancel()


async def bind_round_robin(client: ObjectClient, nodes: list[str]) -> None:
    turns = cycle(nodes)
    while True:
        for pod in await list_objects(client, PODS):
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                with contextlib.suppress(ApiError):
                    await bind(client, pod["metadata"]["name"], pinned_node(pod) or next(turns))
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


async def test_deployment_is_rolled_out_scaled_and_deleted(cluster: EmbeddedCluster) -> None:
    client, key = cluster.client, ("default", "w")
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await wait_for(client, DEPLOYMENTS, "w", available(3))
    template = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    await client.patch(DEPLOYMENTS, key, {"spec": {"template": template}}, "strategic-merge")
    await wait_for(client, DEPLOYMENTS, "w", available(3))
    assert {pod["spec"]["containers"][0]["image"] for pod in await not_terminating(client)} == {"i:2"}
    await client.patch(DEPLOYMENTS, key, {"spec": {"replicas": 5}})
    await wait_for(client, DEPLOYMENTS, "w", available(5))
    assert len(await not_terminating(client)) == 5
    await client.delete(DEPLOYMENTS, key)
    await until(lambda: no_pods(client))


async def not_terminating(client: ObjectClient) -> list[Json]:
    return [pod for pod in await list_objects(client, PODS) if "deletionTimestamp" not in pod["metadata"]]


async def no_pods(client: ObjectClient) -> Json | None:
    return None if await list_objects(client, PODS) else {}


async def test_indexed_job_completes(cluster: EmbeddedCluster) -> None:
    of = manifest("Job", "batch/v1", completions=5, parallelism=2, completionMode="Indexed")
    await cluster.client.create(JOBS, of)
    done = await wait_for(cluster.client, JOBS, "w", lambda job: job["status"].get("completionTime"))
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (5, "0-4")
    assert len(await list_objects(cluster.client, PODS)) == 5, "no pod was created twice"


async def limit(client: ObjectClient, **hard: str) -> None:
    """Create a ResourceQuota of these amounts."""
    await client.create(QUOTAS, {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})


async def failed_creation(client: ObjectClient) -> Json:
    async def find() -> Json | None:
        events = await list_objects(client, CORE_EVENTS)
        return next((event for event in events if event["reason"] == "FailedCreate"), None)

    return await until(find)


async def test_replica_set_reaches_its_quota(cluster: EmbeddedCluster) -> None:
    await limit(cluster.client, pods="5")
    await cluster.client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=10))
    await wait_for(cluster.client, DEPLOYMENTS, "w", lambda found: found["status"].get("availableReplicas") == 5)
    event = await failed_creation(cluster.client)
    assert (event["involvedObject"]["kind"], event["type"]) == ("ReplicaSet", "Warning")
    assert event["message"].startswith('Error creating: pods "w-')
    assert "is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5" in event["message"]


async def test_job_counts_the_pods_that_its_quota_admits(cluster: EmbeddedCluster) -> None:
    await limit(cluster.client, **{"count/pods": "2"})
    await cluster.client.create(JOBS, manifest("Job", "batch/v1", completions=4, parallelism=4))
    done = await wait_for(cluster.client, JOBS, "w", lambda found: found["status"].get("succeeded") == 2)
    assert not done["status"].get("active")
    assert all(not pod["metadata"].get("finalizers") for pod in await list_objects(cluster.client, PODS))
    assert (await failed_creation(cluster.client))["involvedObject"]["kind"] == "Job"


async def test_pods_of_a_lost_node_are_replaced_on_other_nodes(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await wait_for(client, DEPLOYMENTS, "w", available(3))
    cluster.kill_node("node-1")
    lost = await until(lambda: node_with(client, "node-1", "Unknown"))
    assert lost["spec"]["taints"]
    await until(lambda: running_elsewhere(client, "node-1", 3))
    cluster.revive_node("node-1")
    back = await until(lambda: node_with(client, "node-1", "True"))
    assert "taints" not in back["spec"]


async def running_elsewhere(client: ObjectClient, lost: str, count: int) -> Json | None:
    """Return {} once `count` pods run, all of them on other nodes."""
    nodes = [
        pod["spec"].get("nodeName") for pod in await not_terminating(client) if pod["status"]["phase"] == "Running"
    ]
    return {} if len(nodes) == count and lost not in nodes else None


async def node_with(client: ObjectClient, name: str, ready: str) -> Json | None:
    """Return the node once it has that Ready status and the taints that belong to it."""
    node = await client.get(NODES, "", name)
    status = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
    return node if status == ready and bool(node["spec"].get("taints")) == (ready != "True") else None


async def test_pods_of_a_deleted_node_are_deleted(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    await client.create(DEPLOYMENTS, manifest("Deployment", "apps/v1", replicas=3))
    await wait_for(client, DEPLOYMENTS, "w", available(3))
    orphans = [p["metadata"]["uid"] for p in await list_objects(client, PODS) if p["spec"]["nodeName"] == "node-2"]
    await client.delete(NODES, ("", "node-2"))
    await until(lambda: none_of(client, orphans))


async def none_of(client: ObjectClient, uids: list[str]) -> Json | None:
    return None if {pod["metadata"]["uid"] for pod in await list_objects(client, PODS)} & set(uids) else {}


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        pytest.param(ClusterSettings(), 100, (10.0, 50.0), id="few nodes"),
        pytest.param(ClusterSettings(), 5000, (100.0, 500.0), id="many nodes"),
        pytest.param(SETTINGS, 5000, (0.05, 0.3), id="explicit heartbeat"),
    ],
)
def test_heartbeats_are_rarer_in_large_clusters(
    settings: ClusterSettings, nodes: int, expected: tuple[float, float]
) -> None:
    heartbeat, controllers = settings_for_size(settings, nodes)
    assert (heartbeat, controllers.node_grace_seconds) == expected


async def test_port_in_use_raises_and_removes_the_kubeconfig() -> None:
    async with ApiServer() as other:
        port = int(other.url.rpartition(":")[2])
        cluster = EmbeddedCluster(port=port)
        with pytest.raises(ApiServerError, match="in use"):
            await cluster.__aenter__()
        assert not cluster.kubeconfig.exists()


def test_nodes_outside_of_the_block_raise() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        EmbeddedCluster().nodes  # noqa: B018


async def test_autoscaler_follows_the_load_of_its_annotation(cluster: EmbeddedCluster) -> None:
    client, key = cluster.client, ("default", "w")
    deployment = manifest("Deployment", "apps/v1", replicas=1)
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m"}}
    await client.create(DEPLOYMENTS, deployment)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    spec = {"scaleTargetRef": target, "maxReplicas": 4, "behavior": behavior}
    await client.create(AUTOSCALERS, {"metadata": {"name": "w", "namespace": "default"}, "spec": spec})
    inactive = await wait_for(client, AUTOSCALERS, "w", lambda found: "ScalingActive" in conditions(found["status"]))
    assert conditions(inactive["status"])["ScalingActive"] == "False"
    for load, replicas in (("480m", 3), ("2", 4), ("100m", 1)):
        await client.patch(AUTOSCALERS, key, {"metadata": {"annotations": {"load.pyscheduler.io/cpu": load}}})
        await wait_for(client, DEPLOYMENTS, "w", available(replicas))
        await wait_for(client, AUTOSCALERS, "w", scaled_to(replicas))


def scaled_to(replicas: int) -> Any:
    return lambda found: (
        found["status"]["currentReplicas"] == found["status"]["desiredReplicas"] == replicas
        and conditions(found["status"])["ScalingActive"] == "True"
    )


async def test_devices_of_a_node_follow_its_annotation_and_its_end(cluster: EmbeddedCluster) -> None:
    client, key = cluster.client, ("", "node-1")

    async def devices() -> int:
        return sum(len(each["spec"].get("devices") or ()) for each in await list_objects(client, RESOURCE_SLICES))

    async def has(count: int) -> Json | None:
        return {} if await devices() == count else None

    for text, count in (("2", 2), ('{"count": 200}', 200), (None, 0), ("1", 1)):
        await client.patch(NODES, key, {"metadata": {"annotations": {"devices.pyscheduler.io/gpu.example.com": text}}})
        await until(partial(has, count))
    await client.delete(NODES, key)
    await until(partial(has, 0))
