"""Who gives way to whom: priorities, disruption budgets, preemption policies, nominated pods, full nodes."""

from __future__ import annotations

from collections import Counter

from tests.conformance.generator.base import selector
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, is_assigned, stamp

_LOW = (0, 0, 5, 10, -10)
_HIGH = (1000, 1000, 50, 2_000_000_000)


def before(world: GeneratedCluster) -> None:
    """Small nodes, mostly all alike, so that they are full of what may be evicted, and many would do."""
    if world.chance(0.75):
        world.room = {"cpu": world.one("1", "2"), "memory": world.one("2Gi", "4Gi"), "pods": world.one("3", "4", "110")}


def on_node(world: GeneratedCluster, node: Manifest) -> None:
    if world.room and world.chance(0.9):
        node["status"]["allocatable"].update(world.room)


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    if is_assigned(pod):
        pod["spec"]["priority"] = world.one(*_LOW, *_LOW, *_LOW, *_HIGH)
        _ask(pod, world.one({}, {"cpu": "300m"}, {"cpu": "500m"}, {"cpu": "700m", "memory": "512Mi"}))
        if world.chance(0.04) and world.assigned and not any("startTime" not in p["status"] for p in world.assigned):
            del pod["status"]["startTime"]
            world.mark("preemption:no-start-time")
        return
    pod["spec"]["priority"] = world.one(*_HIGH, *_HIGH, 7)
    if world.chance(0.08):
        pod["spec"]["preemptionPolicy"] = "Never"
        world.mark("preemption:never")
    _ask(pod, world.one({"cpu": "500m"}, {"cpu": "1"}, {"cpu": "900m", "memory": "1Gi"}, {"memory": "2Gi"}))


def _ask(pod: Manifest, wanted: Manifest) -> None:
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources.get("requests", {}), **wanted}
    if "limits" in resources:
        resources["limits"] = {name: amount for name, amount in resources["limits"].items() if name not in wanted}


def start_together(world: GeneratedCluster) -> None:
    """The first pods of all nodes started together, and so on: nodes can be equally good to make room on."""
    if world.chance(0.6):
        return
    alike, priority = world.chance(0.6), world.one(0, 0, -7)
    on_node: Counter[str] = Counter()
    for pod in world.assigned:
        number = on_node[pod["spec"]["nodeName"]]
        on_node[pod["spec"]["nodeName"]] += 1
        if "startTime" in pod["status"]:
            pod["status"]["startTime"] = stamp(60 * number)
        if alike:
            pod["spec"]["priority"] = priority
    world.mark("preemption:same-start")


def nominations(world: GeneratedCluster) -> None:
    """Pending pods that wait for a node to be cleared for them; the node may be gone."""
    for pod in world.pending:
        if world.chance(0.35) and world.nodes:
            chosen = world.one(*world.nodes)["metadata"]["name"] if world.chance(0.93) else "n-gone"
            pod["status"]["nominatedNodeName"] = chosen
            world.mark("nominated:pod")


def budgets(world: GeneratedCluster) -> None:
    """Disruption budgets with none, some or enough to spare."""
    for number in range(world.number(0, 3)):
        namespace = world.one("default", *world.namespaces)
        allowed = world.one(0, 0, 1, 2)
        status: Manifest = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
        here = [p for p in world.assigned if p["metadata"]["namespace"] == namespace]
        if here and world.chance(0.25):
            status["disruptedPods"] = {world.one(*here)["metadata"]["name"]: stamp(100_000)}
            world.mark("budgets:disrupted")
        spec: Manifest = {"minAvailable": 2}
        chosen = selector(world)
        if chosen is not None:
            spec["selector"] = chosen
        world.add(
            "policy/v1", "PodDisruptionBudget", world.metadata(f"budget-{number}", namespace), spec=spec, status=status
        )
        world.mark("budgets:some")
