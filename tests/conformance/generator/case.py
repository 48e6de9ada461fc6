"""A case: the document that both sides evaluate, and its features."""

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
    """A document for `evaluate` and its features: the groups drawn, and details as `group:detail`."""

    document: Manifest
    features: tuple[str, ...]


def draw(seed: int | str, profile: str = "", feature: str = "") -> Case:
    """Return the case of the seed. `profile` and `feature` must be in it ("" for any)."""
    cluster = GeneratedCluster(Random(f"{seed}/{profile}/{feature}"))
    populate(cluster, feature)
    requested, running = [*cluster.pending], [pod for pod in cluster.assigned if pod["status"]["phase"] == "Running"]
    if running and cluster.chance(0.04):
        requested.append(cluster.one(*running))
        cluster.mark("base:assigned-pod-asked")
    document: Manifest = {"id": seed, "objects": cluster.objects(), "pods": [key_of(pod) for pod in requested]}
    config = configuration(cluster, profile)
    if config:
        document["config"] = config
    return Case(document, tuple(sorted(cluster.used)))


def populate(cluster: GeneratedCluster, feature: str = "") -> tuple[str, ...]:
    """Draw a cluster; return its groups, `feature` among them unless ""."""
    groups = _groups(cluster, feature)
    cluster.used.update(groups)
    base.namespaces(cluster)
    for group in groups:
        if group_before := GROUPS[group].before:
            group_before(cluster)
    for number in range(_number_of_nodes(cluster)):
        cluster.nodes.append(new_node(cluster, number, groups))
    _assigned(cluster, groups)
    _pending(cluster, groups)
    for group in groups:
        if group_after := GROUPS[group].after:
            group_after(cluster)
    return groups


def _number_of_nodes(cluster: GeneratedCluster) -> int:
    if cluster.chance(0.03):
        cluster.mark("base:many-nodes")
        return cluster.number(9, 40)
    return cluster.one(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8) if cluster.chance(0.8) else 5


def _groups(cluster: GeneratedCluster, wanted: str) -> tuple[str, ...]:
    """Return a few features; one case in ten has many."""
    most = cluster.one(1, 2, 2, 3, 3, 4, 5) if cluster.chance(0.9) else 10
    weights = [group.weight for group in GROUPS.values()]
    chosen = set(cluster.rng.choices(list(GROUPS), weights, k=most)) | ({wanted} if wanted else set())
    if "budgets" in chosen:
        chosen.add("preemption")
    if "daemon" in chosen and cluster.chance(0.7):
        chosen.add("nominated")  # nodes other than those that PreFilter returns
    if "spread" in chosen and cluster.chance(0.5):
        chosen.add(cluster.one("taints", "node-affinity"))  # inclusion policies of spread constraints depend on them
    return tuple(name for name in GROUPS if name in chosen)


def new_node(cluster: GeneratedCluster, number: int, groups: Iterable[str]) -> Manifest:
    """Return a node with these features."""
    made = base.node(cluster, number)
    for group in groups:
        if touch := GROUPS[group].node:
            touch(cluster, made)
    return made


def new_pod(cluster: GeneratedCluster, name: str, groups: Iterable[str], node_name: str = "") -> Manifest:
    """Return a pod with these features, on the named node or pending."""
    made = base.pod(cluster, name, node_name)
    for group in groups:
        if touch := GROUPS[group].pod:
            touch(cluster, made)
    return made


def _assigned(cluster: GeneratedCluster, groups: tuple[str, ...]) -> None:
    most = cluster.one(10, 16, 25, 25) if "preemption" in groups else cluster.one(0, 4, 10, 16, 25)
    add_assigned(cluster, groups, min(cluster.number(most // 2, most), 6 * len(cluster.nodes)))


def add_assigned(cluster: GeneratedCluster, groups: Iterable[str], pods: int) -> None:
    """Add pods on nodes, some from the same template; one in a hundred is on a deleted node."""
    names = [node["metadata"]["name"] for node in cluster.nodes]
    for number in range(pods):
        node_name = cluster.one(*names) if cluster.chance(0.99) else "n-gone"
        if cluster.assigned and cluster.chance(0.25):
            made = cluster.twin(cluster.one(*cluster.assigned), f"a{number}")
            without_ports(made)
            made["spec"]["nodeName"] = node_name
            made["status"] = {"phase": "Running", "startTime": cluster.start_time()}
        else:
            made = new_pod(cluster, f"a{number}", groups, node_name)
        cluster.assigned.append(made)


def _pending(cluster: GeneratedCluster, groups: tuple[str, ...]) -> None:
    """Add pods to schedule, some from the template of the previous one."""
    for number in range(cluster.one(1, 1, 2, 2, 3, 4)):
        if cluster.pending and cluster.chance(0.3):
            made = cluster.twin(cluster.pending[-1], f"p{number}")
        else:
            made = new_pod(cluster, f"p{number}", groups)
        cluster.pending.append(made)
