"""Nodes and pods of many kinds, built once and drawn by number, so that drawing is cheap and failures shrink well."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec

from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.api.pod import Pod
from pyscheduler.core.state import PodSignatures
from pyscheduler.intree.node_declared_features import RESTART_ALL
from pyscheduler.testing.builders import NodeBuilder, PodBuilder, node, pod

GPU = "nvidia.com/gpu"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)
TEAMS = ("", "red", "blue")
NAMES = tuple(f"n{i:02}" for i in range(12))


_HAS_NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}


def _node(cpu: str, zone: str, extra: int) -> NodeBuilder:
    built = node("n", cpu=cpu, memory="8Gi", pods="5").zone(zone).image("base:1", 50_000_000)
    variants = (
        built,
        built.has(GPU, "2").label("team", "red"),
        built.taint("team", "blue").label("team", "blue"),
        built.image("app:1", 300_000_000)
        .image("app:2", 400_000_000)
        .label("team", "red")
        .taint("slow", effect="PreferNoSchedule"),
        built.unschedulable(),
        built.has("memory", "9223372036854775807").has("ephemeral-storage", "10Gi").declares(RESTART_ALL),
    )
    return variants[extra]


def _pod(cpu: str, team: str, extra: int) -> PodBuilder:
    built = pod("p").requests(cpu=cpu).label("team", team).priority(10 if team == "red" else 0)
    variants = (
        built,
        built.host_port(80),
        built.host_port(443).request(GPU, "1"),
        built.tolerates("team", operator="Exists").requests(memory="1Gi"),
        built.node_affinity({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}),
        built.priority(-1).preferred_node_affinity(7, _HAS_NO_TEAM).image("app:2"),
    )
    return variants[extra]


def _of_team(team: str, key: str = "topology.kubernetes.io/zone") -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"team": team}}}


def _with_siblings(*built: PodBuilder) -> tuple[PodBuilder, ...]:
    """Return each pod, and one of the same signature group with another label."""
    return tuple(
        variant
        for builder in built
        for variant in (builder, builder.label("team", "blue" if _is_red(builder) else "red"))
    )


def _is_red(built: PodBuilder) -> bool:
    return bool(built.build().labels.get("team") == "red")


_WITH_AFFINITY = _with_siblings(
    pod("p")
    .label("team", "red")
    .pod_affinity(_of_team("red"))
    .pod_anti_affinity(_of_team("red", "kubernetes.io/hostname")),
    pod("p").label("team", "blue").pod_anti_affinity(_of_team("red")).preferred_pod_affinity(7, _of_team("blue")),
    pod("p")
    .preferred_pod_affinity(3, _of_team("red"))
    .preferred_pod_anti_affinity(5, _of_team("blue", "kubernetes.io/hostname")),
    pod("p")
    .label("team", "red")
    .pod_anti_affinity(_of_team("", "team"))
    .preferred_pod_anti_affinity(2, _of_team("red")),
)
"""Pods with pod affinity or anti-affinity."""


def _spread(key: str, action: str, of: str = "red blue", **fields: Any) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": of.split()}]}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector, **fields}


_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_HARD = "DoNotSchedule"
_BLUE_PER_HOST = _spread(_HOST, "ScheduleAnyway", of="blue", maxSkew=2)
_CLAIMS = ("data", "alone")
_RESTARTS = [{"action": "RestartAllContainers"}]
_CONSTRAINED = (
    *(pod("p").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}]) for name in _CLAIMS),
    *_with_siblings(
        pod("p").label("team", "red").spec(topologySpreadConstraints=[_spread(_ZONE, _HARD, of="red")]),
        pod("p")
        .label("team", "blue")
        .spec(topologySpreadConstraints=[_spread(_ZONE, "ScheduleAnyway"), _BLUE_PER_HOST]),
    ),
    pod("p").spec(topologySpreadConstraints=[_spread(_HOST, _HARD, minDomains=3, nodeTaintsPolicy="Honor")]),
    pod("p").spec(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "1"}}]),
    pod("p").spec(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "1", "readOnly": True}}]),
    pod("p").label("team", "red").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "alone"}}]),
    pod("p").container(restartPolicyRules=_RESTARTS),
    pod("p").request("deviceclass.resource.kubernetes.io/gpu", "1"),
    *(
        builder.node_affinity({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]})
        for builder in (pod("p"), pod("p").label("team", "red").spec(topologySpreadConstraints=[_spread(_HOST, _HARD)]))
        for operator in ("In", "NotIn")
        for name in NAMES[:2]
    ),
)
"""Pods with spread constraints, volumes and claims, features, and named nodes."""

_PLAIN = _node("1", "a", 0)
_CHANGED = (  # each differs from the first kind in one part of the node object only
    _PLAIN.image("app:2", 400_000_000),
    _PLAIN.label("team", "red"),
    _PLAIN.taint("team", "blue"),
    _PLAIN.taint("slow", effect="PreferNoSchedule"),
    _PLAIN.declares(RESTART_ALL),
    _PLAIN.annotation("team", "red"),
)
_NODES = tuple(
    each.build() for each in (*(_node(*kind) for kind in product(("1", "4"), ("a", "b"), range(6))), *_CHANGED)
)
_BASIC = tuple(_pod(*kind) for kind in product(("100m", "2"), TEAMS, range(6)))
_BUILDERS = (*_BASIC, *_WITH_AFFINITY, *_CONSTRAINED)
_PODS = tuple(built.object() for built in _BUILDERS)

NODE_KINDS = len(_NODES)
BASIC_KINDS = range(len(_BASIC))
"""Kinds of pods without pod affinity and volumes."""
AFFINITY_KINDS = range(len(_BASIC), len(_BASIC) + len(_WITH_AFFINITY))
"""Kinds of pods with pod affinity."""
CONSTRAINED_KINDS = range(len(_BASIC) + len(_WITH_AFFINITY), len(_PODS))
"""Kinds of pods with constraints other than pod affinity."""
CLAIM_KINDS = CONSTRAINED_KINDS[: len(_CLAIMS)]
"""Kinds of pods that differ only in the claim that they name."""
POD_KINDS = len(_PODS)


def node_of(name: str, kind: int) -> NodeObject:
    """Return the node of that name and kind."""
    source = _NODES[kind % NODE_KINDS]
    labels = {**(source.metadata.labels or {}), "kubernetes.io/hostname": name}
    return msgspec.structs.replace(source, metadata=msgspec.structs.replace(source.metadata, name=name, labels=labels))


def pod_builder(name: str, kind: int) -> PodBuilder:
    """Return the pod of that name, which is also its UID, and kind."""
    manifest = _BUILDERS[kind % POD_KINDS].manifest
    return PodBuilder({**manifest, "metadata": {**manifest["metadata"], "name": name, "uid": name}})


def pod_object(uid: str, kind: int, node_name: str = "", deleting: bool = False) -> PodObject:
    """Return the pod of that UID and kind as an API object."""
    source = _PODS[kind % POD_KINDS]
    stamp = "2026-01-01T00:00:00Z" if deleting else None
    meta = msgspec.structs.replace(source.metadata, uid=uid, name=uid, deletion_timestamp=stamp)
    return msgspec.structs.replace(
        source, metadata=meta, spec=msgspec.structs.replace(source.spec, node_name=node_name)
    )


def pod_of(shapes: PodSignatures, uid: str, kind: int, node_name: str = "", deleting: bool = False) -> Pod:
    """Return the pod of that UID and kind as the core holds it."""
    return shapes.pod(pod_object(uid, kind, node_name, deleting))
