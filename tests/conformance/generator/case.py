"""One case: the document that both sides evaluate, and what it has in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tests.conformance.generator import base
from tests.conformance.generator.features import GROUPS
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, key_of
from tests.conformance.generator.ports import without_ports
from tests.conformance.generator.profiles import configuration


@dataclass(frozen=True)
class Case:
    """A document for `evaluate`, and its features: the groups drawn, and what became of them as `group:detail`."""

    document: Manifest
    features: tuple[str, ...]


def draw(seed: int | str, profile: str = "", feature: str = "") -> Case:
    """The case of that seed. `profile` and `feature` name what must be in it ("" for anything)."""
    world = GeneratedCluster(Random(f"{seed}/{profile}/{feature}"))
    populate(world, feature)
    requested, running = [*world.pending], [pod for pod in world.assigned if pod["status"]["phase"] == "Running"]
    if running and world.chance(0.04):
        requested.append(world.one(*running))
        world.mark("base:assigned-pod-asked")
    document: Manifest = {"id": seed, "objects": world.objects(), "pods": [key_of(pod) for pod in requested]}
    config = configuration(world, profile)
    if config:
        document["config"] = config
    return Case(document, tuple(sorted(world.used)))


def populate(world: GeneratedCluster, feature: str = "") -> tuple[str, ...]:
    """Draw a cluster into the empty world; the groups that it has. `feature` names one that must be among them."""
    groups = _groups(world, feature)
    world.used.update(groups)
    base.namespaces(world)
    for group in groups:
        if group_before := GROUPS[group].before:
            group_before(world)
    for number in range(_number_of_nodes(world)):
        world.nodes.append(new_node(world, number, groups))
    _assigned(world, groups)
    _pending(world, groups)
    for group in groups:
        if group_after := GROUPS[group].after:
            group_after(world)
    return groups


def _number_of_nodes(world: GeneratedCluster) -> int:
    if world.chance(0.03):
        world.mark("base:many-nodes")
        return world.number(9, 40)
    return world.one(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8) if world.chance(0.8) else 5


def _groups(world: GeneratedCluster, wanted: str) -> tuple[str, ...]:
    """A few of the features; a case in ten has many."""
    most = world.one(1, 2, 2, 3, 3, 4, 5) if world.chance(0.9) else 10
    weights = [group.weight for group in GROUPS.values()]
    chosen = set(world.rng.choices(list(GROUPS), weights, k=most)) | ({wanted} if wanted else set())
    if "budgets" in chosen:
        chosen.add("preemption")
    if "daemon" in chosen and world.chance(0.7):
        chosen.add("nominated")  # nodes outside of those that PreFilter leaves
    if "spread" in chosen and world.chance(0.5):
        chosen.add(world.one("taints", "node-affinity"))  # which constraints may honor or ignore
    return tuple(name for name in GROUPS if name in chosen)


def new_node(world: GeneratedCluster, number: int, groups: Iterable[str]) -> Manifest:
    """A node with those features."""
    made = base.node(world, number)
    for group in groups:
        if touch := GROUPS[group].node:
            touch(world, made)
    return made


def new_pod(world: GeneratedCluster, name: str, groups: Iterable[str], node_name: str = "") -> Manifest:
    """A pod with those features, on the node of that name or on none."""
    made = base.pod(world, name, node_name)
    for group in groups:
        if touch := GROUPS[group].pod:
            touch(world, made)
    return made


def _assigned(world: GeneratedCluster, groups: tuple[str, ...]) -> None:
    most = world.one(10, 16, 25, 25) if "preemption" in groups else world.one(0, 4, 10, 16, 25)
    add_assigned(world, groups, min(world.number(most // 2, most), 6 * len(world.nodes)))


def add_assigned(world: GeneratedCluster, groups: Iterable[str], pods: int) -> None:
    """Pods on nodes, some of them twins; one in a hundred sits on a node that is no more."""
    names = [node["metadata"]["name"] for node in world.nodes]
    for number in range(pods):
        node_name = world.one(*names) if world.chance(0.99) else "n-gone"
        if world.assigned and world.chance(0.25):
            made = world.twin(world.one(*world.assigned), f"a{number}")
            without_ports(made)
            made["spec"]["nodeName"] = node_name
            made["status"] = {"phase": "Running", "startTime": world.start_time()}
        else:
            made = new_pod(world, f"a{number}", groups, node_name)
        world.assigned.append(made)


def _pending(world: GeneratedCluster, groups: tuple[str, ...]) -> None:
    """Pods to be placed, some of them twins of the one before."""
    for number in range(world.one(1, 1, 2, 2, 3, 4)):
        if world.pending and world.chance(0.3):
            made = world.twin(world.pending[-1], f"p{number}")
        else:
            made = new_pod(world, f"p{number}", groups)
        world.pending.append(made)
