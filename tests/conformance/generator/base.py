"""The plain cluster that every case starts from: namespaces, nodes with labels and amounts, pods that ask for some."""

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


def namespaces(world: GeneratedCluster) -> None:
    """Up to three; sometimes one that holds pods is missing, as it is when its watch lags behind."""
    world.apps = world.some(APPS, 1)
    world.namespaces = ["default", *(world.some(NAMESPACES[1:]) if world.chance(0.5) else [])]
    for name in world.namespaces:
        if name != "default" and world.chance(0.03):
            world.mark("base:namespace-unknown")
            continue
        labels = {"kubernetes.io/metadata.name": name}
        if name in TEAMS and world.chance(0.9):
            labels["team"] = TEAMS[name]
        world.add("v1", "Namespace", {**world.metadata(name), "labels": labels}, status={"phase": "Active"})


def node(world: GeneratedCluster, number: int) -> Manifest:
    """One ready node, nearly always with the labels that clouds and kubelets give it."""
    name = f"n{number}"
    amounts = {
        "cpu": world.one("2", "4", "4", "8", "7900m", "16"),
        "memory": world.one("4Gi", "8Gi", "16Gi", "15950Mi", "32Gi"),
        "pods": world.one("110", "110", "110", "20", "8", "4"),
    }
    if world.chance(0.5):
        amounts["ephemeral-storage"] = world.one("10Gi", "50Gi")
    if world.chance(0.03):
        # As it is before the kubelet has told, or where it cannot.
        amounts = {} if world.chance(0.5) else {name: amounts[name] for name in world.some(tuple(amounts), 1)}
        world.mark("base:little-allocatable")
    conditions = [{"type": "Ready", "status": world.one("True", "True", "True", "False")}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**world.metadata(name), "labels": _labels(world, name)},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": conditions},
    }


def _labels(world: GeneratedCluster, name: str) -> dict[str, str]:
    labels = {}
    if world.chance(0.97):
        labels[HOSTNAME] = name if world.chance(0.95) else f"host-{name}"
    if world.chance(0.88):
        labels[ZONE] = world.one("z1", "z2", "z3")
    if world.chance(0.7):
        labels[REGION] = world.one("r1", "r1", "r2")
    if world.chance(0.1):
        labels[OLD_ZONE] = labels.get(ZONE, "z1") if world.chance(0.7) else "z9"
        world.mark("nodes:old-labels")
    if world.chance(0.05):
        labels[OLD_REGION] = labels.get(REGION, "r1")
    if world.chance(0.4):
        labels["disk"] = world.one("ssd", "hdd")
    if world.chance(0.3):
        labels["rank"] = world.one("1", "5", "10", "-3", "x", "007", "")
    if world.chance(0.2):
        labels["rack"] = world.one("a", "b")
    return labels


def pod(world: GeneratedCluster, name: str, node_name: str = "") -> Manifest:
    """One pod with the defaults that the API server fills in where scheduling reads them."""
    meta = {**world.metadata(name, world.one("default", "default", *world.namespaces)), "labels": pod_labels(world)}
    spec: Manifest = {
        "containers": [_container(world, f"c{number}") for number in range(world.one(1, 1, 2))],
        "schedulerName": "default-scheduler",
        "priority": world.one(*PRIORITIES),
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if world.chance(0.15):
        spec["tolerations"] = [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ]
    if world.chance(0.02):
        del spec["priority"]
        world.mark("base:no-priority")
    status: Manifest = {"phase": "Pending"}
    if node_name:
        spec["nodeName"] = node_name
        status = {"phase": "Running", "startTime": world.start_time()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def pod_labels(world: GeneratedCluster) -> dict[str, str]:
    labels = {}
    if world.chance(0.9):
        labels["app"] = world.one(*world.apps)
    if world.chance(0.4):
        labels["tier"] = world.one(*TIERS)
    if world.chance(0.2):
        labels["version"] = world.one("1", "2")
    return labels


def _container(world: GeneratedCluster, name: str) -> Manifest:
    made: Manifest = {"name": name, "image": "registry.example/app:1", "resources": {}}
    requests = {}
    if world.chance(0.7):
        requests["cpu"] = world.one("50m", "100m", "200m", "250m", "500m", "0")
    if world.chance(0.6):
        requests["memory"] = world.one("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "0")
    if requests:
        made["resources"]["requests"] = requests
        if world.chance(0.3):
            made["resources"]["limits"] = dict(requests)
    return made


def selector(world: GeneratedCluster) -> Manifest | None:
    """A label selector of pods: by equality, by expressions, everything ({}) or nothing (none)."""
    kind = world.rng.random()
    if kind < 0.6:
        return {"matchLabels": {"app": world.one(*world.apps)}}
    if kind < 0.7:
        return {"matchLabels": {"app": world.one(*world.apps), "tier": world.one(*TIERS)}}
    if kind < 0.92:
        return {"matchExpressions": [_expression(world) for _ in range(world.one(1, 1, 2))]}
    return {} if kind < 0.97 else None


def _expression(world: GeneratedCluster) -> Manifest:
    key, values = world.one(("app", APPS), ("tier", TIERS), ("version", ("1", "2")))
    operator = world.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    made: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = world.some(values, 1)
    return made


def delete(world: GeneratedCluster, manifest: Manifest) -> None:
    """Marks the object as being deleted."""
    manifest["metadata"]["deletionTimestamp"] = stamp(200_000 + world.serial())
    manifest["metadata"]["deletionGracePeriodSeconds"] = 30
