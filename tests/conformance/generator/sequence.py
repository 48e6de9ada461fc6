"""Sequences: many pods one after the other on one cluster, each on what those before it have left.

What single cases cannot show: the order in which nodes are visited and where the next search starts, sampling, which of
equals wins, the in-memory effects of placing a pod, and preemption that later pods live with. Everything that is up to
chance in kube-scheduler is kept out: nodes asked for by name (a Go map's order), preemption that looks at a part of the
nodes, pods that started together, errors that cut a search short.
"""

from __future__ import annotations

from random import Random

from tests.conformance.generator import base, profiles
from tests.conformance.generator.case import Case, add_assigned, new_node, new_pod
from tests.conformance.generator.features import GROUPS
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, key_of

PODS = 50
_FEATURES = (
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
)
_TEMPLATES = 6


def draw_sequence(seed: int | str) -> Case:
    """The sequence of that seed: a few nodes in one zone or many in several, and 50 pods of a few templates."""
    world = GeneratedCluster(Random(f"sequence/{seed}"))
    world.errors = False
    chosen = {*world.some(_FEATURES, 1, 4), *(["preemption"] if world.chance(0.5) else [])}
    groups = tuple(name for name in _FEATURES if name in chosen)
    base.namespaces(world)
    for group in groups:
        if before := GROUPS[group].before:
            before(world)
    many = world.chance(0.5)
    for number in range(world.number(105, 260) if many else world.number(3, 25)):
        world.nodes.append(new_node(world, number, groups))
    world.mark("sequence:many-nodes" if many else "sequence:few-nodes")
    add_assigned(world, groups, world.number(0, 150 if many else 40))
    _pending(world, groups)
    for group in groups:
        if group in ("budgets", "volumes") and (after := GROUPS[group].after):
            after(world)
    names = [key_of(pod) for pod in world.pending]
    document = {"id": seed, "objects": world.objects(), "sequence": names, "config": _config(world)}
    return Case(document, tuple(sorted(world.used)))


def _pending(world: GeneratedCluster, groups: tuple[str, ...]) -> None:
    templates: list[Manifest] = []
    for number in range(PODS):
        if len(templates) < _TEMPLATES and (not templates or world.chance(0.3)):
            made = new_pod(world, f"p{number}", groups)
            made["status"].pop("nominatedNodeName", None)
            _without_names(made)
            templates.append(made)
        else:
            made = world.twin(world.one(*templates), f"p{number}")
        world.pending.append(made)


def _without_names(pod: Manifest) -> None:
    """Takes out the terms that ask for nodes by name."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required:
        terms = [term for term in required["nodeSelectorTerms"] if "matchFields" not in term]
        required["nodeSelectorTerms"] = terms or [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]


def _config(world: GeneratedCluster) -> Manifest:
    config: Manifest = profiles.configuration(world, profiles.DEFAULT) or {**profiles.HEAD, "profiles": [{}]}
    profile = config["profiles"][0]
    profile["schedulerName"] = "default-scheduler"
    percentage = world.one(0, 0, 10, 40, 70, 100)
    target = world.one(config, profile)
    target["percentageOfNodesToScore"] = percentage
    profile["pluginConfig"] = profiles.args("DefaultPreemption", minCandidateNodesPercentage=100)["pluginConfig"]
    world.mark(f"sequence:percentage-{percentage}")
    return config
