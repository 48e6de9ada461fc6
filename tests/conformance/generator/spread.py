"""Topology spread constraints, and the Services and controllers from which default constraints take their selector."""

from __future__ import annotations

from typing import Any

from tests.conformance.generator.base import APPS, selector
from tests.conformance.generator.generated_cluster import HOSTNAME, RACK, REGION, ZONE, GeneratedCluster, Manifest, put

_KEYS = (ZONE, ZONE, HOSTNAME, HOSTNAME, REGION, RACK)
_OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    """Up to three constraints, no two with the same key and action."""
    if world.chance(0.3):
        return
    constraints = {}
    for _ in range(world.one(1, 1, 2, 3)):
        made = _constraint(world, pod)
        constraints[made["topologyKey"], made["whenUnsatisfiable"]] = made
    put(pod, "spec.topologySpreadConstraints", list(constraints.values()))


def _constraint(world: GeneratedCluster, pod: Manifest) -> Manifest:
    action = world.one("DoNotSchedule", "ScheduleAnyway")
    world.mark(f"spread:{action}")
    made: Manifest = {"maxSkew": world.one(1, 1, 2, 3), "topologyKey": world.one(*_KEYS), "whenUnsatisfiable": action}
    labels = pod["metadata"]["labels"]
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels else None
    chosen = own if own and world.chance(0.6) else selector(world)
    if chosen is not None:
        made["labelSelector"] = chosen
    if action == "DoNotSchedule" and world.chance(0.3):
        made["minDomains"] = world.one(1, 2, 3, 5)
        world.mark("spread:minDomains")
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if world.chance(0.35):
            made[policy] = world.one("Honor", "Ignore")
            world.mark(f"spread:{policy}")
    if chosen is not None and "version" in labels and world.chance(0.5):
        _match_label_keys(world, made, labels["version"])
    return made


def _match_label_keys(world: GeneratedCluster, constraint: Manifest, version: str) -> None:
    """matchLabelKeys, mostly with what the API server adds to the selector, as older versions did not."""
    constraint["matchLabelKeys"] = ["version"]
    world.mark("spread:matchLabelKeys")
    if world.chance(0.7):
        merged = {"key": "version", "operator": "In", "values": [version]}
        old = constraint["labelSelector"]
        constraint["labelSelector"] = {**old, "matchExpressions": [*old.get("matchExpressions", ()), merged]}


def owners(world: GeneratedCluster) -> None:
    """Services and controllers, and pods that belong to them: the selector of the default constraints."""
    for namespace in world.namespaces:
        for number in range(world.number(0, 2)):
            spec: Manifest = {"selector": {"app": world.one(*APPS)}} if world.chance(0.9) else {}
            world.add("v1", "Service", world.metadata(f"service-{number}", namespace), spec=spec)
            world.mark("owners:service")
    owned = [p for p in (*world.assigned, *world.pending) if "app" in p["metadata"]["labels"] and world.chance(0.6)]
    for pod in owned:
        kind = world.one("ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")
        app, namespace = pod["metadata"]["labels"]["app"], pod["metadata"]["namespace"]
        owner = _owner(world, kind, app, namespace)
        reference = {"apiVersion": _OWNERS[kind], "kind": kind, "name": owner["name"], "uid": owner["uid"]}
        pod["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        world.mark(f"owners:{kind}")


def _owner(world: GeneratedCluster, kind: str, app: str, namespace: str) -> Manifest:
    name = f"{kind.lower()}-{app}"
    for other in world.others:
        meta: Manifest = other["metadata"]
        if (other["kind"], meta["name"], meta.get("namespace")) == (kind, name, namespace):
            return meta
    meta = world.metadata(name, namespace)
    if world.chance(0.1):
        world.mark("owners:missing")
        return meta
    labels: dict[str, Any] = {"app": app}
    chosen = labels if kind == "ReplicationController" else selector(world) if world.chance(0.2) else None
    world.add(_OWNERS[kind], kind, meta, spec={"selector": chosen or {"matchLabels": labels}, "replicas": 3})
    return meta
