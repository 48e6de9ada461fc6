"""Taints, tolerations with every operator, and cordoned nodes."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, put

_KEYS = ("dedicated", "example.com/maintenance", "node.kubernetes.io/unschedulable")
_VALUES = ("", "gpu", "batch", "5", "07")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")


def on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    """Add up to three taints with distinct pairs of key and effect; one node in six is cordoned."""
    drawn = [
        (cluster.one(*_KEYS), cluster.one(*_EFFECTS), cluster.one(*_VALUES)) for _ in range(cluster.one(0, 0, 1, 2, 3))
    ]
    taints = {(key, effect): value for key, effect, value in drawn}
    if cluster.chance(0.16):
        node["spec"]["unschedulable"] = True
        cluster.mark("taints:unschedulable")
        if cluster.chance(0.7):
            taints["node.kubernetes.io/unschedulable", "NoSchedule"] = ""
    for (key, effect), value in taints.items():
        put(node, "spec.taints", [{"key": key, "effect": effect, **({"value": value} if value else {})}])
        cluster.mark(f"taints:{effect}")


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    tolerations = [_toleration(cluster) for _ in range(cluster.one(0, 1, 1, 2, 3))]
    if tolerations:
        put(pod, "spec.tolerations", tolerations)


def _toleration(cluster: GeneratedCluster) -> Manifest:
    operator = cluster.one("Exists", "Exists", "Equal", "Equal", "", "Gt", "Lt") if cluster.chance(0.3) else "Exists"
    made: Manifest = {"key": cluster.one(*_KEYS), "operator": operator}
    if operator != "Exists":
        made["value"] = cluster.one(*_VALUES) if operator in ("Equal", "") else cluster.one("3", "9")
    elif cluster.chance(0.1):
        made["key"] = ""
    if cluster.chance(0.7):
        made["effect"] = cluster.one("NoSchedule", "PreferNoSchedule", "NoExecute")
    cluster.mark(f"tolerations:{operator or 'no-operator'}")
    return {name: value for name, value in made.items() if value}
