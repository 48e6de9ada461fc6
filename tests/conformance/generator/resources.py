"""Requests of pods: unusual quantities, init containers, overhead, pod-level and extended resources, resizes."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, is_assigned, put

GPU, FPGA = "example.com/gpu", "example.com/fpga"
HUGE = "hugepages-2Mi"
_ODD_CPU = ("0.1", "1e-1", "0.0005", "1500m", "2", "100u")
_ODD_MEMORY = ("1.5Gi", "129e6", "129M", "134217728", "0.5", "123456789012m", "1Ki")


def extended_on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    """Add extended resources and huge pages to some nodes."""
    amounts = {}
    if cluster.chance(0.6):
        amounts[GPU] = cluster.one("0", "1", "2", "4")
    if cluster.chance(0.2):
        amounts[FPGA] = "2"
    if cluster.chance(0.4):
        amounts[HUGE] = cluster.one("0", "64Mi", "512Mi")
    node["status"]["allocatable"].update(amounts)


def extended_in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if cluster.chance(0.5):
        return
    resource, amount = cluster.one((GPU, "1"), (GPU, "2"), (GPU, "0"), (FPGA, "1"), (HUGE, "32Mi"), (HUGE, "128Mi"))
    container = cluster.one(*containers(pod))
    for side in ("requests", "limits"):
        put(container, f"resources.{side}", {**container["resources"].get(side, {}), resource: amount})
    cluster.mark("extended:hugepages" if resource == HUGE else "extended:device")


def odd_amounts(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Use quantities in every notation that the API server accepts, and ephemeral storage."""
    requests = containers(pod)[0]["resources"].setdefault("requests", {})
    if cluster.chance(0.4):
        requests["cpu"] = cluster.one(*_ODD_CPU)
        cluster.mark("amounts:odd-cpu")
    if cluster.chance(0.4):
        requests["memory"] = cluster.one(*_ODD_MEMORY)
        cluster.mark("amounts:odd-memory")
    if cluster.chance(0.4):
        requests["ephemeral-storage"] = cluster.one("1Gi", "9Gi", "20Gi", "0")
        cluster.mark("amounts:ephemeral-storage")


def large_amounts(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add requests that few or no nodes can satisfy."""
    requests = containers(pod)[0]["resources"].setdefault("requests", {})
    if not is_assigned(pod) and cluster.chance(0.6):
        requests.update(cluster.one({"cpu": "3"}, {"memory": "7Gi"}, {"cpu": "9"}, {"cpu": "2", "memory": "30Gi"}))
        cluster.mark("amounts:large")


def init_containers(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add init containers, sidecars in any order, and overhead."""
    if cluster.chance(0.6):
        put(pod, "spec.initContainers", [_init_container(cluster, number) for number in range(cluster.number(1, 3))])
    if cluster.chance(0.3):
        pod["spec"]["overhead"] = {"cpu": cluster.one("50m", "250m"), "memory": cluster.one("10Mi", "120Mi")}
        pod["spec"]["runtimeClassName"] = "sandboxed"
        cluster.mark("init:overhead")


def _init_container(cluster: GeneratedCluster, number: int) -> Manifest:
    requests = {}
    if cluster.chance(0.8):
        requests["cpu"] = cluster.one("100m", "500m", "1", "2")
    if cluster.chance(0.5):
        requests["memory"] = cluster.one("128Mi", "1Gi")
    made: Manifest = {"name": f"i{number}", "image": "registry.example/init:1", "resources": {}}
    if requests:
        made["resources"] = {"requests": requests}
    if cluster.chance(0.4):
        made["restartPolicy"] = "Always"
    cluster.mark("init:sidecar" if "restartPolicy" in made else "init:plain")
    return made


def pod_level(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add spec.resources, which replace the containers' sum."""
    if cluster.chance(0.4):
        return
    requests = {}
    if cluster.chance(0.8):
        requests["cpu"] = cluster.one("2", "2500m", "4")
    if cluster.chance(0.6):
        requests["memory"] = cluster.one("2Gi", "3Gi")
    if cluster.chance(0.15):
        requests[HUGE] = "64Mi"
    if requests:
        limits = {k: v for k, v in requests.items() if k == HUGE or cluster.chance(0.2)}
        pod["spec"]["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
        cluster.mark("pod-level:requests")


def resize(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add the status of an in-place resize: container resources that differ from the requests."""
    if not is_assigned(pod) or cluster.chance(0.4):
        return
    put(pod, "status.containerStatuses", [_resized(cluster, c["name"]) for c in containers(pod) if cluster.chance(0.8)])
    statuses = [_resized(cluster, c["name"]) for c in pod["spec"].get("initContainers", ()) if cluster.chance(0.7)]
    if statuses:
        pod["status"]["initContainerStatuses"] = statuses
        cluster.mark("resize:init-containers")
    cluster.mark("resize:containers")
    if cluster.chance(0.6 if "resources" in pod["spec"] else 0.25):
        if cluster.chance(0.9):
            pod["status"]["resources"] = {"requests": {"cpu": cluster.one("1", "3")}}
        if cluster.chance(0.9):
            pod["status"]["allocatedResources"] = {"cpu": cluster.one("1", "2"), "memory": "2Gi"}
        cluster.mark("resize:pod-level")
    if cluster.chance(0.4):
        reason = cluster.one("Infeasible", "Deferred")
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), condition]
        cluster.mark(f"resize:{reason.lower()}")


def _resized(cluster: GeneratedCluster, name: str) -> Manifest:
    made: Manifest = {"name": name, "image": "", "imageID": "", "ready": True, "restartCount": 0}
    if cluster.chance(0.8):
        made["resources"] = {"requests": _amounts(cluster)}
    if cluster.chance(0.6):
        made["allocatedResources"] = _amounts(cluster)
    return made


def _amounts(cluster: GeneratedCluster) -> dict[str, str]:
    amounts = {"cpu": cluster.one("100m", "700m", "1500m")}
    if cluster.chance(0.6):
        amounts["memory"] = cluster.one("100Mi", "1500Mi")
    return amounts
