"""Node selectors and node affinity, required and preferred, matchFields included; for pods and for profiles."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import (
    HOSTNAME,
    REGION,
    ZONE,
    GeneratedCluster,
    Manifest,
    is_assigned,
)

_VALUES = {
    ZONE: ("z1", "z2", "z3"),
    REGION: ("r1", "r2"),
    "disk": ("ssd", "hdd"),
    HOSTNAME: ("n0", "n1", "n2", "n3"),
    "rank": ("1", "5", "10"),
}
_KEYS = (ZONE, ZONE, REGION, "disk", "rank", HOSTNAME)


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    if world.chance(0.25):
        key = world.one(ZONE, "disk", REGION)
        pod["spec"]["nodeSelector"] = {key: world.one(*_VALUES[key])} if world.chance(0.95) else {}
        world.mark("node-affinity:nodeSelector")
    affinity = node_affinity(world)
    if world.chance(0.01):
        affinity = _older()
        world.mark("node-affinity:bad-value")
    if affinity:
        pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity


def _older() -> Manifest:
    """What the API server took before it checked values, and what makes kube-scheduler end the attempt in an error."""
    term = {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["-4"]}]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}


def in_daemon_pod(world: GeneratedCluster, pod: Manifest) -> None:
    """Pins the pod to one node, as the DaemonSet controller does; PreFilter then leaves that node only."""
    if is_assigned(pod) or world.chance(0.3):
        return
    name = world.one("n0", "n0", "n1", "n2", "n3", "nowhere")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})[required] = {"nodeSelectorTerms": [term]}
    world.mark("node-affinity:daemon")


def node_affinity(world: GeneratedCluster) -> Manifest:
    """A NodeAffinity; empty where neither part was drawn."""
    made: Manifest = {}
    if world.chance(0.3):
        terms = [_term(world) for _ in range(world.one(1, 1, 2, 3))]
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        world.mark("node-affinity:required")
    if world.chance(0.5):
        preferred = [{"weight": world.number(1, 100), "preference": _term(world)} for _ in range(world.one(1, 2, 3))]
        made["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        world.mark("node-affinity:preferred")
    return made


def _term(world: GeneratedCluster) -> Manifest:
    kind = world.rng.random()
    made: Manifest = {}
    if kind < 0.85:
        made["matchExpressions"] = [_expression(world) for _ in range(world.one(1, 1, 2))]
    if kind > 0.72:
        made["matchFields"] = [_field(world) for _ in range(world.one(1, 1, 1, 2))]
        world.mark("node-affinity:matchFields")
    if kind > 0.98:
        world.mark("node-affinity:empty-term")
        return {}
    return made


def _expression(world: GeneratedCluster) -> Manifest:
    key = world.one(*_KEYS)
    if key == "rank":
        operator = world.one("Gt", "Lt", "Exists", "In")
    else:
        operator = world.one("In", "In", "In", "NotIn", "Exists", "DoesNotExist")
    world.mark(f"node-affinity:{operator}")
    made: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = world.some(_VALUES[key], 1)
    elif operator in ("Gt", "Lt"):
        made["values"] = [world.one("4", "0", "9", "2")]
    return made


def _field(world: GeneratedCluster) -> Manifest:
    operator = world.one("In", "In", "NotIn")
    return {"key": "metadata.name", "operator": operator, "values": [world.one("n0", "n1", "n2", "n5", "nowhere")]}
