"""Affinity and anti-affinity between pods: required and preferred, across namespaces, from either side."""

from __future__ import annotations

from tests.conformance.generator.base import NAMESPACES, selector
from tests.conformance.generator.generated_cluster import (
    HOSTNAME,
    RACK,
    REGION,
    ZONE,
    GeneratedCluster,
    Manifest,
    is_assigned,
)

_KEYS = (ZONE, ZONE, HOSTNAME, HOSTNAME, REGION, RACK)
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    """Any of the four kinds; required ones are rarer, or nothing would fit anywhere."""
    side = "existing" if is_assigned(pod) else "incoming"
    rarely, often = (0.08, 0.2) if is_assigned(pod) else (0.22, 0.35)
    for kind in ("podAffinity", "podAntiAffinity"):
        made: Manifest = {}
        if world.chance(rarely):
            made[_REQUIRED] = [_term(world, pod) for _ in range(world.one(1, 1, 1, 2))]
            world.mark(f"{kind}:required-{side}")
        if world.chance(often):
            made[_PREFERRED] = [
                {"weight": world.number(1, 100), "podAffinityTerm": _term(world, pod)}
                for _ in range(world.one(1, 1, 2))
            ]
            world.mark(f"{kind}:preferred-{side}")
        if made:
            pod["spec"].setdefault("affinity", {})[kind] = made


def _term(world: GeneratedCluster, pod: Manifest) -> Manifest:
    made: Manifest = {"topologyKey": world.one(*_KEYS)}
    labels = pod["metadata"]["labels"]
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels and world.chance(0.4) else None
    chosen = own or selector(world)
    if chosen is not None:
        made["labelSelector"] = chosen
    if world.chance(0.25):
        made["namespaces"] = world.some((*NAMESPACES, "nowhere"), 1, 2)
        world.mark("pod-affinity:namespaces")
    if world.chance(0.25):
        made["namespaceSelector"] = _namespace_selector(world)
        world.mark("pod-affinity:namespaceSelector")
    return made


def _namespace_selector(world: GeneratedCluster) -> Manifest:
    return world.one(
        {},
        {"matchLabels": {"team": "red"}},
        {"matchLabels": {"team": "blue"}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    )
