"""What pods ask for: odd quantities, init containers, overhead, pod-level and extended resources, resizes."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, is_assigned, put

GPU, FPGA = "example.com/gpu", "example.com/fpga"
HUGE = "hugepages-2Mi"
_ODD_CPU = ("0.1", "1e-1", "0.0005", "1500m", "2", "100u")
_ODD_MEMORY = ("1.5Gi", "129e6", "129M", "134217728", "0.5", "123456789012m", "1Ki")


def extended_on_node(world: GeneratedCluster, node: Manifest) -> None:
    """Extended resources and huge pages, on some nodes none."""
    amounts = {}
    if world.chance(0.6):
        amounts[GPU] = world.one("0", "1", "2", "4")
    if world.chance(0.2):
        amounts[FPGA] = "2"
    if world.chance(0.4):
        amounts[HUGE] = world.one("0", "64Mi", "512Mi")
    node["status"]["allocatable"].update(amounts)


def extended_in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    if world.chance(0.5):
        return
    resource, amount = world.one((GPU, "1"), (GPU, "2"), (GPU, "0"), (FPGA, "1"), (HUGE, "32Mi"), (HUGE, "128Mi"))
    container = world.one(*containers(pod))
    for side in ("requests", "limits"):
        put(container, f"resources.{side}", {**container["resources"].get(side, {}), resource: amount})
    world.mark("extended:hugepages" if resource == HUGE else "extended:device")


def odd_amounts(world: GeneratedCluster, pod: Manifest) -> None:
    """Quantities in every notation that the API server takes, and ephemeral storage."""
    requests = containers(pod)[0]["resources"].setdefault("requests", {})
    if world.chance(0.4):
        requests["cpu"] = world.one(*_ODD_CPU)
        world.mark("amounts:odd-cpu")
    if world.chance(0.4):
        requests["memory"] = world.one(*_ODD_MEMORY)
        world.mark("amounts:odd-memory")
    if world.chance(0.4):
        requests["ephemeral-storage"] = world.one("1Gi", "9Gi", "20Gi", "0")
        world.mark("amounts:ephemeral-storage")


def large_amounts(world: GeneratedCluster, pod: Manifest) -> None:
    """Requests that few or no nodes can meet."""
    requests = containers(pod)[0]["resources"].setdefault("requests", {})
    if not is_assigned(pod) and world.chance(0.6):
        requests.update(world.one({"cpu": "3"}, {"memory": "7Gi"}, {"cpu": "9"}, {"cpu": "2", "memory": "30Gi"}))
        world.mark("amounts:large")


def init_containers(world: GeneratedCluster, pod: Manifest) -> None:
    """Init containers, sidecars among them in any order, and overhead."""
    if world.chance(0.6):
        put(pod, "spec.initContainers", [_init_container(world, number) for number in range(world.number(1, 3))])
    if world.chance(0.3):
        pod["spec"]["overhead"] = {"cpu": world.one("50m", "250m"), "memory": world.one("10Mi", "120Mi")}
        pod["spec"]["runtimeClassName"] = "sandboxed"
        world.mark("init:overhead")


def _init_container(world: GeneratedCluster, number: int) -> Manifest:
    requests = {}
    if world.chance(0.8):
        requests["cpu"] = world.one("100m", "500m", "1", "2")
    if world.chance(0.5):
        requests["memory"] = world.one("128Mi", "1Gi")
    made: Manifest = {"name": f"i{number}", "image": "registry.example/init:1", "resources": {}}
    if requests:
        made["resources"] = {"requests": requests}
    if world.chance(0.4):
        made["restartPolicy"] = "Always"
    world.mark("init:sidecar" if "restartPolicy" in made else "init:plain")
    return made


def pod_level(world: GeneratedCluster, pod: Manifest) -> None:
    """spec.resources, which stand for the containers' sum where they are given."""
    if world.chance(0.4):
        return
    requests = {}
    if world.chance(0.8):
        requests["cpu"] = world.one("2", "2500m", "4")
    if world.chance(0.6):
        requests["memory"] = world.one("2Gi", "3Gi")
    if world.chance(0.15):
        requests[HUGE] = "64Mi"
    if requests:
        limits = {k: v for k, v in requests.items() if k == HUGE or world.chance(0.2)}
        pod["spec"]["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
        world.mark("pod-level:requests")


def resize(world: GeneratedCluster, pod: Manifest) -> None:
    """Status of a pod that is being resized in place: what containers have beside what they ask for."""
    if not is_assigned(pod) or world.chance(0.4):
        return
    put(pod, "status.containerStatuses", [_resized(world, c["name"]) for c in containers(pod) if world.chance(0.8)])
    statuses = [_resized(world, c["name"]) for c in pod["spec"].get("initContainers", ()) if world.chance(0.7)]
    if statuses:
        pod["status"]["initContainerStatuses"] = statuses
        world.mark("resize:init-containers")
    world.mark("resize:containers")
    if "resources" in pod["spec"] and world.chance(0.6):
        pod["status"]["resources"] = {"requests": {"cpu": world.one("1", "3")}}
        pod["status"]["allocatedResources"] = {"cpu": world.one("1", "2"), "memory": "2Gi"}
        world.mark("resize:pod-level")
    if world.chance(0.4):
        reason = world.one("Infeasible", "Deferred")
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), condition]
        world.mark(f"resize:{reason.lower()}")


def _resized(world: GeneratedCluster, name: str) -> Manifest:
    made: Manifest = {"name": name, "image": "", "imageID": "", "ready": True, "restartCount": 0}
    if world.chance(0.8):
        made["resources"] = {"requests": _amounts(world)}
    if world.chance(0.6):
        made["allocatedResources"] = _amounts(world)
    return made


def _amounts(world: GeneratedCluster) -> dict[str, str]:
    amounts = {"cpu": world.one("100m", "700m", "1500m")}
    if world.chance(0.6):
        amounts["memory"] = world.one("100Mi", "1500Mi")
    return amounts
