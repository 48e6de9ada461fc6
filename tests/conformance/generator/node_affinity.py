"""nodeSelector and node affinity, required and preferred, with matchFields; for pods and for profiles."""

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


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if cluster.chance(0.25):
        key = cluster.one(ZONE, "disk", REGION)
        pod["spec"]["nodeSelector"] = {key: cluster.one(*_VALUES[key])} if cluster.chance(0.95) else {}
        cluster.mark("node-affinity:nodeSelector")
    affinity = node_affinity(cluster)
    if cluster.chance(0.01):
        affinity = _older()
        cluster.mark("node-affinity:bad-value")
    if affinity:
        pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity


def _older() -> Manifest:
    """Return a term that older API servers accepted and that makes kube-scheduler fail the attempt."""
    term = {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["-4"]}]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}


def in_daemon_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Pin the pod to one node, as the DaemonSet controller does; PreFilter then returns that node only."""
    if is_assigned(pod) or cluster.chance(0.3):
        return
    name = cluster.one("n0", "n0", "n1", "n2", "n3", "nowhere")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})[required] = {"nodeSelectorTerms": [term]}
    cluster.mark("node-affinity:daemon")


def node_affinity(cluster: GeneratedCluster) -> Manifest:
    """Return a NodeAffinity, empty if neither part was drawn."""
    made: Manifest = {}
    if cluster.chance(0.3):
        terms = [_term(cluster) for _ in range(cluster.one(1, 1, 2, 3))]
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        cluster.mark("node-affinity:required")
    if cluster.chance(0.5):
        preferred = [
            {"weight": cluster.number(1, 100), "preference": _term(cluster)} for _ in range(cluster.one(1, 2, 3))
        ]
        made["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        cluster.mark("node-affinity:preferred")
    return made


def _term(cluster: GeneratedCluster) -> Manifest:
    kind = cluster.rng.random()
    made: Manifest = {}
    if kind < 0.85:
        made["matchExpressions"] = [_expression(cluster) for _ in range(cluster.one(1, 1, 2))]
    if kind > 0.72:
        made["matchFields"] = [_field(cluster) for _ in range(cluster.one(1, 1, 1, 2))]
        cluster.mark("node-affinity:matchFields")
    if kind > 0.98:
        cluster.mark("node-affinity:empty-term")
        return {}
    return made


def _expression(cluster: GeneratedCluster) -> Manifest:
    key = cluster.one(*_KEYS)
    if key == "rank":
        operator = cluster.one("Gt", "Lt", "Exists", "In")
    else:
        operator = cluster.one("In", "In", "In", "NotIn", "Exists", "DoesNotExist")
    cluster.mark(f"node-affinity:{operator}")
    made: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = cluster.some(_VALUES[key], 1)
    elif operator in ("Gt", "Lt"):
        made["values"] = [cluster.one("4", "0", "9", "2")]
    return made


def _field(cluster: GeneratedCluster) -> Manifest:
    operator = cluster.one("In", "In", "NotIn")
    return {"key": "metadata.name", "operator": operator, "values": [cluster.one("n0", "n1", "n2", "n5", "nowhere")]}
