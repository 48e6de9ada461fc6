"""Topology spread constraints, and the Services and controllers that give default constraints their selector."""

from __future__ import annotations

from typing import Any

from tests.conformance.generator.base import APPS, selector
from tests.conformance.generator.generated_cluster import HOSTNAME, RACK, REGION, ZONE, GeneratedCluster, Manifest, put

_KEYS = (ZONE, ZONE, HOSTNAME, HOSTNAME, REGION, RACK)
_OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add up to three constraints with distinct pairs of key and action."""
    if cluster.chance(0.3):
        return
    constraints = {}
    for _ in range(cluster.one(1, 1, 2, 3)):
        made = _constraint(cluster, pod)
        constraints[made["topologyKey"], made["whenUnsatisfiable"]] = made
    put(pod, "spec.topologySpreadConstraints", list(constraints.values()))


def _constraint(cluster: GeneratedCluster, pod: Manifest) -> Manifest:
    action = cluster.one("DoNotSchedule", "ScheduleAnyway")
    cluster.mark(f"spread:{action}")
    made: Manifest = {
        "maxSkew": cluster.one(1, 1, 2, 3),
        "topologyKey": cluster.one(*_KEYS),
        "whenUnsatisfiable": action,
    }
    labels = pod["metadata"]["labels"]
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels else None
    chosen = own if own and cluster.chance(0.6) else selector(cluster)
    if chosen is not None:
        made["labelSelector"] = chosen
    if action == "DoNotSchedule" and cluster.chance(0.3):
        made["minDomains"] = cluster.one(1, 2, 3, 5)
        cluster.mark("spread:minDomains")
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if cluster.chance(0.35):
            made[policy] = cluster.one("Honor", "Ignore")
            cluster.mark(f"spread:{policy}")
    if chosen is not None and "version" in labels and cluster.chance(0.5):
        _match_label_keys(cluster, made, labels["version"])
    return made


def _match_label_keys(cluster: GeneratedCluster, constraint: Manifest, version: str) -> None:
    """Add matchLabelKeys, mostly with the selector terms that the API server adds and older versions did not."""
    constraint["matchLabelKeys"] = ["version"]
    cluster.mark("spread:matchLabelKeys")
    if cluster.chance(0.7):
        merged = {"key": "version", "operator": "In", "values": [version]}
        old = constraint["labelSelector"]
        constraint["labelSelector"] = {**old, "matchExpressions": [*old.get("matchExpressions", ()), merged]}


def owners(cluster: GeneratedCluster) -> None:
    """Add Services and controllers with pods that belong to them, for the selector of default constraints."""
    for namespace in cluster.namespaces:
        for number in range(cluster.number(0, 2)):
            spec: Manifest = {"selector": {"app": cluster.one(*APPS)}} if cluster.chance(0.9) else {}
            cluster.add("v1", "Service", cluster.metadata(f"service-{number}", namespace), spec=spec)
            cluster.mark("owners:service")
    owned = [
        p for p in (*cluster.assigned, *cluster.pending) if "app" in p["metadata"]["labels"] and cluster.chance(0.6)
    ]
    for pod in owned:
        kind = cluster.one("ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")
        app, namespace = pod["metadata"]["labels"]["app"], pod["metadata"]["namespace"]
        owner = _owner(cluster, kind, app, namespace)
        reference = {"apiVersion": _OWNERS[kind], "kind": kind, "name": owner["name"], "uid": owner["uid"]}
        pod["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        cluster.mark(f"owners:{kind}")


def _owner(cluster: GeneratedCluster, kind: str, app: str, namespace: str) -> Manifest:
    name = f"{kind.lower()}-{app}"
    for other in cluster.others:
        meta: Manifest = other["metadata"]
        if (other["kind"], meta["name"], meta.get("namespace")) == (kind, name, namespace):
            return meta
    meta = cluster.metadata(name, namespace)
    if cluster.chance(0.1):
        cluster.mark("owners:missing")
        return meta
    labels: dict[str, Any] = {"app": app}
    chosen = labels if kind == "ReplicationController" else selector(cluster) if cluster.chance(0.2) else None
    cluster.add(_OWNERS[kind], kind, meta, spec={"selector": chosen or {"matchLabels": labels}, "replicas": 3})
    return meta
