"""Pod affinity and anti-affinity: required and preferred, across namespaces, of pending and placed pods."""

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


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add any of the four kinds; required ones are rarer, otherwise no pod would fit."""
    side = "existing" if is_assigned(pod) else "incoming"
    rarely, often = (0.08, 0.2) if is_assigned(pod) else (0.22, 0.35)
    for kind in ("podAffinity", "podAntiAffinity"):
        made: Manifest = {}
        if cluster.chance(rarely):
            made[_REQUIRED] = [_term(cluster, pod) for _ in range(cluster.one(1, 1, 1, 2))]
            cluster.mark(f"{kind}:required-{side}")
        if cluster.chance(often):
            made[_PREFERRED] = [
                {"weight": cluster.number(1, 100), "podAffinityTerm": _term(cluster, pod)}
                for _ in range(cluster.one(1, 1, 2))
            ]
            cluster.mark(f"{kind}:preferred-{side}")
        if made:
            pod["spec"].setdefault("affinity", {})[kind] = made


def _term(cluster: GeneratedCluster, pod: Manifest) -> Manifest:
    made: Manifest = {"topologyKey": cluster.one(*_KEYS)}
    labels = pod["metadata"]["labels"]
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels and cluster.chance(0.4) else None
    chosen = own or selector(cluster)
    if chosen is not None:
        made["labelSelector"] = chosen
    if cluster.chance(0.25):
        made["namespaces"] = cluster.some((*NAMESPACES, "nowhere"), 1, 2)
        cluster.mark("pod-affinity:namespaces")
    if cluster.chance(0.25):
        made["namespaceSelector"] = _namespace_selector(cluster)
        cluster.mark("pod-affinity:namespaceSelector")
    return made


def _namespace_selector(cluster: GeneratedCluster) -> Manifest:
    return cluster.one(
        {},
        {"matchLabels": {"team": "red"}},
        {"matchLabels": {"team": "blue"}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    )
