"""Preemption: priorities, disruption budgets, preemption policies, nominated pods, full nodes."""

from __future__ import annotations

from collections import Counter

from tests.conformance.generator.base import selector
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, is_assigned, stamp

_LOW = (0, 0, 5, 10, -10)
_HIGH = (1000, 1000, 50, 2_000_000_000)


def before(cluster: GeneratedCluster) -> None:
    """Prepare small, mostly equal nodes, which fill up with lower-priority pods, so that there are many candidates."""
    if cluster.chance(0.75):
        cluster.room = {
            "cpu": cluster.one("1", "2"),
            "memory": cluster.one("2Gi", "4Gi"),
            "pods": cluster.one("3", "4", "110"),
        }


def on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    if cluster.room and cluster.chance(0.9):
        node["status"]["allocatable"].update(cluster.room)


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if is_assigned(pod):
        pod["spec"]["priority"] = cluster.one(*_LOW, *_LOW, *_LOW, *_HIGH)
        _request(pod, cluster.one({}, {"cpu": "300m"}, {"cpu": "500m"}, {"cpu": "700m", "memory": "512Mi"}))
        if (
            cluster.chance(0.04)
            and cluster.assigned
            and not any("startTime" not in p["status"] for p in cluster.assigned)
        ):
            del pod["status"]["startTime"]
            cluster.mark("preemption:no-start-time")
        return
    pod["spec"]["priority"] = cluster.one(*_HIGH, *_HIGH, 7)
    if cluster.chance(0.08):
        pod["spec"]["preemptionPolicy"] = "Never"
        cluster.mark("preemption:never")
    _request(pod, cluster.one({"cpu": "500m"}, {"cpu": "1"}, {"cpu": "900m", "memory": "1Gi"}, {"memory": "2Gi"}))


def _request(pod: Manifest, wanted: Manifest) -> None:
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources.get("requests", {}), **wanted}
    if "limits" in resources:
        resources["limits"] = {name: amount for name, amount in resources["limits"].items() if name not in wanted}


def start_together(cluster: GeneratedCluster) -> None:
    """Give the first pods of all nodes the same start time, and so on, so that nodes can tie in preemption."""
    if cluster.chance(0.6):
        return
    alike, priority = cluster.chance(0.6), cluster.one(0, 0, -7)
    on_node: Counter[str] = Counter()
    for pod in cluster.assigned:
        number = on_node[pod["spec"]["nodeName"]]
        on_node[pod["spec"]["nodeName"]] += 1
        if "startTime" in pod["status"]:
            pod["status"]["startTime"] = stamp(60 * number)
        if alike:
            pod["spec"]["priority"] = priority
    cluster.mark("preemption:same-start")


def nominations(cluster: GeneratedCluster) -> None:
    """Nominate pending pods that wait for victims to terminate; the node may be deleted."""
    for pod in cluster.pending:
        if cluster.chance(0.35) and cluster.nodes:
            chosen = cluster.one(*cluster.nodes)["metadata"]["name"] if cluster.chance(0.93) else "n-gone"
            pod["status"]["nominatedNodeName"] = chosen
            cluster.mark("nominated:pod")


def budgets(cluster: GeneratedCluster) -> None:
    """Add disruption budgets with none, some or many allowed disruptions."""
    for number in range(cluster.number(0, 3)):
        namespace = cluster.one("default", *cluster.namespaces)
        allowed = cluster.one(0, 0, 1, 2)
        status: Manifest = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
        here = [p for p in cluster.assigned if p["metadata"]["namespace"] == namespace]
        if here and cluster.chance(0.25):
            status["disruptedPods"] = {cluster.one(*here)["metadata"]["name"]: stamp(100_000)}
            cluster.mark("budgets:disrupted")
        spec: Manifest = {"minAvailable": 2}
        chosen = selector(cluster)
        if chosen is not None:
            spec["selector"] = chosen
        cluster.add(
            "policy/v1",
            "PodDisruptionBudget",
            cluster.metadata(f"budget-{number}", namespace),
            spec=spec,
            status=status,
        )
        cluster.mark("budgets:some")
