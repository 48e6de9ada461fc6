"""StatefulSets, DaemonSets, ReplicationControllers, claims and Services come to life on both control planes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Json
from tests.e2e.jobs import crew_with_scheduler
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="session")
VOLUMES = "/api/v1/persistentvolumes"
LABELS = {"app": "web"}


def workload(api_version: str, kind: str, pool: str, image: str = "i:1", **spec: object) -> Json:
    container = {"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}
    nodes = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"{pool}-{number}" for number in (1, 2, 3)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [nodes]}]}
    template = {
        "metadata": {"labels": LABELS},
        "spec": {
            "schedulerName": "pyscheduler",
            "terminationGracePeriodSeconds": 0,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "containers": [container],
        },
    }
    selector: Json = LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def images(found: Json) -> dict[str, str]:
    """Return the image of each running pod by name."""
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in found["items"]
        if pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def run(image: str, count: int) -> Callable[[Json], bool]:
    return lambda found: list(images(found).values()) == [image] * count == [image] * len(found["items"])


async def test_stateful_set_is_rolled_out_updated_undone_and_scaled(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, root = control_plane.api, f"/apis/apps/v1/namespaces/{namespace}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with crew_with_scheduler(control_plane, namespace, tmp_path):
        await api.create(
            f"{root}/statefulsets", workload("apps/v1", "StatefulSet", namespace, replicas=3, serviceName="web")
        )
        found = await api.until(pods, run("i:1", 3))
        assert sorted(images(found)) == ["web-0", "web-1", "web-2"]
        assert found["items"][0]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
        rollout = ("-n", namespace, "rollout")
        await kubectl(control_plane, *rollout, "status", "sts/web", "--timeout=60s")
        await kubectl(control_plane, "-n", namespace, "set", "image", "sts/web", "main=i:2")
        await kubectl(control_plane, *rollout, "status", "sts/web", "--timeout=60s")
        await api.until(pods, run("i:2", 3))
        await kubectl(control_plane, *rollout, "undo", "sts/web")
        await kubectl(control_plane, *rollout, "status", "sts/web", "--timeout=60s")
        await api.until(pods, run("i:1", 3))
        await kubectl(control_plane, "-n", namespace, "scale", "sts/web", "--replicas=1")
        assert list(images(await api.until(pods, run("i:1", 1)))) == ["web-0"]
        status = await api.until(f"{root}/statefulsets/web", lambda found: found["status"].get("replicas") == 1)
        assert status["status"]["currentRevision"] == status["status"]["updateRevision"]


async def test_partition_updates_the_upper_pods_only(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, root = control_plane.api, f"/apis/apps/v1/namespaces/{namespace}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    body = workload(
        "apps/v1",
        "StatefulSet",
        namespace,
        replicas=3,
        serviceName="web",
        podManagementPolicy="Parallel",
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
    )
    async with crew_with_scheduler(control_plane, namespace, tmp_path):
        await api.create(f"{root}/statefulsets", body)
        await api.until(pods, run("i:1", 3))
        await kubectl(control_plane, "-n", namespace, "set", "image", "sts/web", "main=i:2")
        await kubectl(control_plane, "-n", namespace, "rollout", "status", "sts/web", "--timeout=60s")
        expected = {"web-0": "i:1", "web-1": "i:2", "web-2": "i:2"}
        await api.until(pods, lambda found: images(found) == expected)
        await api.delete(f"{pods}/web-0")
        await api.until(pods, lambda found: images(found) == expected)


async def test_daemon_set_is_rolled_out_and_updated(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, root = control_plane.api, f"/apis/apps/v1/namespaces/{namespace}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with crew_with_scheduler(control_plane, namespace, tmp_path) as nodes:
        await api.create(f"{root}/daemonsets", workload("apps/v1", "DaemonSet", namespace))
        found = await api.until(pods, run("i:1", 3))
        assert {pod["spec"]["nodeName"] for pod in found["items"]} == set(nodes.names)
        await kubectl(control_plane, "-n", namespace, "rollout", "status", "ds/web", "--timeout=60s")
        await kubectl(control_plane, "-n", namespace, "set", "image", "ds/web", "main=i:2")
        await kubectl(control_plane, "-n", namespace, "rollout", "status", "ds/web", "--timeout=60s")
        await api.until(pods, run("i:2", 3))
        taint = {"key": "example.com/maintenance", "effect": "NoExecute"}
        await api.patch(f"/api/v1/nodes/{nodes.names[0]}", {"spec": {"taints": [taint]}})
        await api.until(pods, run("i:2", 2))


async def test_replication_controller_keeps_its_replicas(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, root = control_plane.api, f"/api/v1/namespaces/{namespace}"
    async with crew_with_scheduler(control_plane, namespace, tmp_path):
        controllers = f"{root}/replicationcontrollers"
        await api.create(controllers, workload("v1", "ReplicationController", namespace, replicas=2))
        first = images(await api.until(f"{root}/pods", run("i:1", 2)))
        await api.delete(f"{root}/pods/{min(first)}")
        await api.until(f"{root}/pods", lambda found: run("i:1", 2)(found) and min(first) not in images(found))
        status = await api.until(f"{controllers}/web", lambda found: found["status"].get("readyReplicas") == 2)
        assert status["status"]["replicas"] == 2


async def test_service_has_the_addresses_of_its_ready_pods(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, root = control_plane.api, f"/api/v1/namespaces/{namespace}"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    service = {"metadata": {"name": "web"}, "spec": {"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}}

    def addresses(found: Json) -> list[str]:
        endpoints = [
            each for item in found["items"] for each in item.get("endpoints") or () if each["conditions"]["ready"]
        ]
        return sorted(address for each in endpoints for address in each["addresses"])

    async with crew_with_scheduler(control_plane, namespace, tmp_path):
        await api.create(f"{root}/services", service)
        await api.create(
            f"{root}/replicationcontrollers", workload("v1", "ReplicationController", namespace, replicas=2)
        )
        pods = await api.until(f"{root}/pods", run("i:1", 2))
        wanted = sorted(pod["status"]["podIP"] for pod in pods["items"])
        found = await api.until(slices, lambda found: addresses(found) == wanted)
        assert [port["port"] for port in found["items"][0]["ports"]] == [8080]
        await kubectl(control_plane, "-n", namespace, "scale", "rc/web", "--replicas=0")
        await api.until(slices, lambda found: addresses(found) == [])


async def test_claim_templates_are_bound_and_kept(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, root = control_plane.api, f"/apis/apps/v1/namespaces/{namespace}"
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    request = {"accessModes": ["ReadWriteOnce"], "storageClassName": namespace}
    template = {"metadata": {"name": "data"}, "spec": {**request, "resources": {"requests": {"storage": "1Gi"}}}}
    for number in range(2):
        spec = {**request, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
        await api.create(VOLUMES, {"metadata": {"name": f"{namespace}-{number}"}, "spec": spec})
    body = workload("apps/v1", "StatefulSet", namespace, replicas=2, serviceName="web", volumeClaimTemplates=[template])
    async with crew_with_scheduler(control_plane, namespace, tmp_path):
        await api.create(f"{root}/statefulsets", body)
        await api.until(f"/api/v1/namespaces/{namespace}/pods", run("i:1", 2))
        found = await api.get(claims)
        assert {c["metadata"]["name"]: c["status"]["phase"] for c in found["items"]} == {
            "data-web-0": "Bound",
            "data-web-1": "Bound",
        }
        await api.delete(f"{root}/statefulsets/web", propagationPolicy="Background")
        await api.until(f"/api/v1/namespaces/{namespace}/pods", lambda found: not found["items"])
        assert len((await api.get(claims))["items"]) == 2
        await api.delete(f"{claims}/data-web-0")
        name = next(c["spec"]["volumeName"] for c in found["items"] if c["metadata"]["name"] == "data-web-0")
        await api.until(f"{VOLUMES}/{name}", lambda found: found["status"]["phase"] == "Released")
    for number in range(2):
        await api.delete(f"{VOLUMES}/{namespace}-{number}")
