"""Taints, tolerations with every operator, and nodes that are cordoned."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, put

_KEYS = ("dedicated", "example.com/maintenance", "node.kubernetes.io/unschedulable")
_VALUES = ("", "gpu", "batch", "5", "07")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")


def on_node(world: GeneratedCluster, node: Manifest) -> None:
    """Up to three taints, no two with the same key and effect; one node in six is cordoned."""
    drawn = [(world.one(*_KEYS), world.one(*_EFFECTS), world.one(*_VALUES)) for _ in range(world.one(0, 0, 1, 2, 3))]
    taints = {(key, effect): value for key, effect, value in drawn}
    if world.chance(0.16):
        node["spec"]["unschedulable"] = True
        world.mark("taints:unschedulable")
        if world.chance(0.7):
            taints["node.kubernetes.io/unschedulable", "NoSchedule"] = ""
    for (key, effect), value in taints.items():
        put(node, "spec.taints", [{"key": key, "effect": effect, **({"value": value} if value else {})}])
        world.mark(f"taints:{effect}")


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    tolerations = [_toleration(world) for _ in range(world.one(0, 1, 1, 2, 3))]
    if tolerations:
        put(pod, "spec.tolerations", tolerations)


def _toleration(world: GeneratedCluster) -> Manifest:
    operator = world.one("Exists", "Exists", "Equal", "Equal", "", "Gt", "Lt") if world.chance(0.3) else "Exists"
    made: Manifest = {"key": world.one(*_KEYS), "operator": operator}
    if operator != "Exists":
        made["value"] = world.one(*_VALUES) if operator in ("Equal", "") else world.one("3", "9")
    elif world.chance(0.1):
        made["key"] = ""
    if world.chance(0.7):
        made["effect"] = world.one("NoSchedule", "PreferNoSchedule", "NoExecute")
    world.mark(f"tolerations:{operator or 'no-operator'}")
    return {name: value for name, value in made.items() if value}
