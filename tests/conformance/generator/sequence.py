"""Sequences: many pods scheduled one after the other on one cluster.

They cover what single cases cannot: the order in which nodes are visited, the start of the next search, sampling,
tie-breaking, the effects of a placed pod, and preemption with its consequences. Random behaviour of kube-scheduler is
excluded: nodes by name (a Go map's order), preemption on a sample of nodes, pods with equal start times, errors that
end a search early.
"""

from __future__ import annotations

from random import Random

from tests.conformance.generator import base, devices, profiles
from tests.conformance.generator.case import Case, add_assigned, new_node, new_pod
from tests.conformance.generator.features import GROUPS
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, key_of

PODS = 50
FEATURES = (
    "amounts",
    "extended",
    "init",
    "taints",
    "node-affinity",
    "ports",
    "images",
    "spread",
    "pod-affinity",
    "volumes",
    "disks",
    "preemption",
    "budgets",
    "devices",
)
_TEMPLATES = 6
_NODES_WITH_DEVICES = 15


def draw_sequence(seed: int | str, feature: str = "") -> Case:
    """Return the sequence of the seed: few nodes in one zone or many in several, and 50 pods of a few templates.

    `feature`, one of FEATURES, must be in it ("" for any).
    """
    cluster = GeneratedCluster(Random(f"sequence/{seed}/{feature}"))
    cluster.errors = False
    chosen = {*cluster.some(FEATURES, 1, 4), *(["preemption"] if cluster.chance(0.5) else []), feature}
    groups = tuple(name for name in FEATURES if name in chosen)
    base.namespaces(cluster)
    for group in groups:
        if before := GROUPS[group].before:
            before(cluster)
    many = cluster.chance(0.5)
    for number in range(cluster.number(105, 260) if many else cluster.number(3, 25)):
        cluster.nodes.append(new_node(cluster, number, groups))
    cluster.mark("sequence:many-nodes" if many else "sequence:few-nodes")
    add_assigned(cluster, groups, cluster.number(0, 150 if many else 40))
    _pending(cluster, groups)
    for group in groups:
        if group in ("budgets", "volumes") and (after := GROUPS[group].after):
            after(cluster)
    if "devices" in groups:
        devices.add_devices(cluster, _NODES_WITH_DEVICES)
    names = [key_of(pod) for pod in cluster.pending]
    document = {"id": seed, "objects": cluster.objects(), "sequence": names, "config": _config(cluster)}
    return Case(document, tuple(sorted(cluster.used)))


def _pending(cluster: GeneratedCluster, groups: tuple[str, ...]) -> None:
    templates: list[Manifest] = []
    for number in range(PODS):
        if len(templates) < _TEMPLATES and (not templates or cluster.chance(0.3)):
            made = new_pod(cluster, f"p{number}", groups)
            made["status"].pop("nominatedNodeName", None)
            _without_names(made)
            templates.append(made)
        else:
            made = cluster.twin(cluster.one(*templates), f"p{number}")
        cluster.pending.append(made)


def _without_names(pod: Manifest) -> None:
    """Remove terms that select nodes by name."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required:
        terms = [term for term in required["nodeSelectorTerms"] if "matchFields" not in term]
        required["nodeSelectorTerms"] = terms or [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]


def _config(cluster: GeneratedCluster) -> Manifest:
    config: Manifest = profiles.configuration(cluster, profiles.DEFAULT) or {**profiles.HEAD, "profiles": [{}]}
    profile = config["profiles"][0]
    profile["schedulerName"] = "default-scheduler"
    percentage = cluster.one(0, 0, 10, 40, 70, 100)
    target = cluster.one(config, profile)
    target["percentageOfNodesToScore"] = percentage
    profile["pluginConfig"] = profiles.args("DefaultPreemption", minCandidateNodesPercentage=100)["pluginConfig"]
    cluster.mark(f"sequence:percentage-{percentage}")
    return config
