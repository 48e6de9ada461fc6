"""Base cluster of every case: namespaces, nodes with labels and resources, pods with requests."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import (
    HOSTNAME,
    OLD_REGION,
    OLD_ZONE,
    REGION,
    ZONE,
    GeneratedCluster,
    Manifest,
    stamp,
)

NAMESPACES = ("default", "blue", "green")
TEAMS = {"default": "red", "blue": "blue"}  # green has none
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
PRIORITIES = (0, 0, 0, 10, 100, -5)


def namespaces(cluster: GeneratedCluster) -> None:
    """Add up to three namespaces; sometimes one with pods is missing, as when its watch lags behind."""
    cluster.apps = cluster.some(APPS, 1)
    cluster.namespaces = ["default", *(cluster.some(NAMESPACES[1:]) if cluster.chance(0.5) else [])]
    for name in cluster.namespaces:
        if name != "default" and cluster.chance(0.03):
            cluster.mark("base:namespace-unknown")
            continue
        labels = {"kubernetes.io/metadata.name": name}
        if name in TEAMS and cluster.chance(0.9):
            labels["team"] = TEAMS[name]
        cluster.add("v1", "Namespace", {**cluster.metadata(name), "labels": labels}, status={"phase": "Active"})


def node(cluster: GeneratedCluster, number: int) -> Manifest:
    """Return a ready node, nearly always with the labels that clouds and kubelets set."""
    name = f"n{number}"
    amounts = {
        "cpu": cluster.one("2", "4", "4", "8", "7900m", "16"),
        "memory": cluster.one("4Gi", "8Gi", "16Gi", "15950Mi", "32Gi"),
        "pods": cluster.one("110", "110", "110", "20", "8", "4"),
    }
    if cluster.chance(0.5):
        amounts["ephemeral-storage"] = cluster.one("10Gi", "50Gi")
    if cluster.chance(0.03):
        # No status, as before the kubelet's first update.
        amounts = {} if cluster.chance(0.5) else {name: amounts[name] for name in cluster.some(tuple(amounts), 1)}
        cluster.mark("base:little-allocatable")
    conditions = [{"type": "Ready", "status": cluster.one("True", "True", "True", "False")}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**cluster.metadata(name), "labels": _labels(cluster, name)},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": conditions},
    }


def _labels(cluster: GeneratedCluster, name: str) -> dict[str, str]:
    labels = {}
    if cluster.chance(0.97):
        labels[HOSTNAME] = name if cluster.chance(0.95) else f"host-{name}"
    if cluster.chance(0.88):
        labels[ZONE] = cluster.one("z1", "z2", "z3")
    if cluster.chance(0.7):
        labels[REGION] = cluster.one("r1", "r1", "r2")
    if cluster.chance(0.1):
        labels[OLD_ZONE] = labels.get(ZONE, "z1") if cluster.chance(0.7) else "z9"
        cluster.mark("nodes:old-labels")
    if cluster.chance(0.05):
        labels[OLD_REGION] = labels.get(REGION, "r1")
    if cluster.chance(0.4):
        labels["disk"] = cluster.one("ssd", "hdd")
    if cluster.chance(0.3):
        labels["rank"] = cluster.one("1", "5", "10", "-3", "x", "007", "")
    if cluster.chance(0.2):
        labels["rack"] = cluster.one("a", "b")
    return labels


def pod(cluster: GeneratedCluster, name: str, node_name: str = "") -> Manifest:
    """Return a pod with the API server's defaults where scheduling reads them."""
    meta = {
        **cluster.metadata(name, cluster.one("default", "default", *cluster.namespaces)),
        "labels": pod_labels(cluster),
    }
    spec: Manifest = {
        "containers": [_container(cluster, f"c{number}") for number in range(cluster.one(1, 1, 2))],
        "schedulerName": "default-scheduler",
        "priority": cluster.one(*PRIORITIES),
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if cluster.chance(0.15):
        spec["tolerations"] = [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ]
    if cluster.chance(0.02):
        del spec["priority"]
        cluster.mark("base:no-priority")
    status: Manifest = {"phase": "Pending"}
    if node_name:
        spec["nodeName"] = node_name
        status = {"phase": "Running", "startTime": cluster.start_time()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def pod_labels(cluster: GeneratedCluster) -> dict[str, str]:
    labels = {}
    if cluster.chance(0.9):
        labels["app"] = cluster.one(*cluster.apps)
    if cluster.chance(0.4):
        labels["tier"] = cluster.one(*TIERS)
    if cluster.chance(0.2):
        labels["version"] = cluster.one("1", "2")
    return labels


def _container(cluster: GeneratedCluster, name: str) -> Manifest:
    made: Manifest = {"name": name, "image": "registry.example/app:1", "resources": {}}
    requests = {}
    if cluster.chance(0.7):
        requests["cpu"] = cluster.one("50m", "100m", "200m", "250m", "500m", "0")
    if cluster.chance(0.6):
        requests["memory"] = cluster.one("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "0")
    if requests:
        made["resources"]["requests"] = requests
        if cluster.chance(0.3):
            made["resources"]["limits"] = dict(requests)
    return made


def selector(cluster: GeneratedCluster) -> Manifest | None:
    """Return a label selector of pods: by equality, by expressions, everything ({}) or nothing (None)."""
    kind = cluster.rng.random()
    if kind < 0.6:
        return {"matchLabels": {"app": cluster.one(*cluster.apps)}}
    if kind < 0.7:
        return {"matchLabels": {"app": cluster.one(*cluster.apps), "tier": cluster.one(*TIERS)}}
    if kind < 0.92:
        return {"matchExpressions": [_expression(cluster) for _ in range(cluster.one(1, 1, 2))]}
    return {} if kind < 0.97 else None


def _expression(cluster: GeneratedCluster) -> Manifest:
    key, values = cluster.one(("app", APPS), ("tier", TIERS), ("version", ("1", "2")))
    operator = cluster.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    made: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = cluster.some(values, 1)
    return made


def delete(cluster: GeneratedCluster, manifest: Manifest) -> None:
    """Mark the object as being deleted."""
    manifest["metadata"]["deletionTimestamp"] = stamp(200_000 + cluster.serial())
    manifest["metadata"]["deletionGracePeriodSeconds"] = 30
