"""Configurations: scoring strategies, disabled and reweighted plugins, plugin args."""

from __future__ import annotations

from collections.abc import Callable

from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX
from tests.conformance.generator.generated_cluster import HOSTNAME, REGION, ZONE, GeneratedCluster, Manifest
from tests.conformance.generator.node_affinity import node_affinity
from tests.conformance.generator.resources import FPGA, GPU

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_SWITCHABLE = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
)
_SCORING = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)

_SCORE_ALONE = {"NodeResourcesFit", "ImageLocality"}
"""Plugins that can be enabled at Score alone; the others need the state of their PreScore."""


def args(plugin: str, **fields: object) -> Manifest:
    """Return a part of a profile with args of a plugin."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {"pluginConfig": [{"name": plugin, "args": {**head, **fields}}]}


def _resources(cluster: GeneratedCluster) -> list[Manifest]:
    named = cluster.some(("cpu", "memory", GPU, FPGA, "ephemeral-storage", f"{CLASS_PREFIX}gpu"), 1)
    return [{"name": name, "weight": cluster.one(1, 1, 2, 5, 100)} for name in named]


def _most_allocated(cluster: GeneratedCluster) -> Manifest:
    return args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": _resources(cluster)})


def _least_allocated(cluster: GeneratedCluster) -> Manifest:
    return args("NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", "resources": _resources(cluster)})


def _ratio(cluster: GeneratedCluster) -> Manifest:
    """Return any shape: increasing, decreasing, or both."""
    points = sorted(cluster.some(range(0, 101, 5), 2, 4))
    shape = [{"utilization": u, "score": cluster.number(0, 10)} for u in points]
    ratio = {
        "type": "RequestedToCapacityRatio",
        "resources": _resources(cluster),
        "requestedToCapacityRatio": {"shape": shape},
    }
    return args("NodeResourcesFit", scoringStrategy=ratio)


def _ignored(cluster: GeneratedCluster) -> Manifest:
    fields: Manifest = {}
    if cluster.chance(0.7):
        fields["ignoredResources"] = cluster.some((GPU, FPGA), 1)
    if cluster.chance(0.5):
        fields["ignoredResourceGroups"] = ["example.com"]
    return args("NodeResourcesFit", **fields)


def _balanced(cluster: GeneratedCluster) -> Manifest:
    resources = [{"name": r["name"], "weight": 1} for r in _resources(cluster)]
    return args("NodeResourcesBalancedAllocation", resources=resources)


def _spread_list(cluster: GeneratedCluster) -> Manifest:
    constraints = [
        {
            "maxSkew": cluster.one(1, 2, 3),
            "topologyKey": key,
            "whenUnsatisfiable": cluster.one("ScheduleAnyway", "DoNotSchedule"),
        }
        for key in cluster.some((ZONE, HOSTNAME, REGION))
    ]
    return args("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)


def _added_affinity(cluster: GeneratedCluster) -> Manifest:
    return args("NodeAffinity", addedAffinity=node_affinity(cluster))


def _pod_affinity(cluster: GeneratedCluster) -> Manifest:
    ignore = cluster.chance(0.5)
    weight = cluster.one(0, 1, 10, 100)
    return args("InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=ignore)


def _preemption(cluster: GeneratedCluster) -> Manifest:
    percentage, absolute = cluster.one((10, 1), (100, 100), (0, 5), (50, 0))
    return args("DefaultPreemption", minCandidateNodesPercentage=percentage, minCandidateNodesAbsolute=absolute)


def _weights(cluster: GeneratedCluster) -> Manifest:
    enabled = [{"name": name, "weight": cluster.number(1, 20)} for name in cluster.some(_SCORING, 1, 4)]
    return {"plugins": {cluster.one("multiPoint", "score"): {"enabled": enabled}}}


def _disabled(cluster: GeneratedCluster) -> Manifest:
    names = [{"name": name} for name in cluster.some(_SWITCHABLE, 1, 4)]
    return {"plugins": {"multiPoint": {"disabled": names}}}


def _score_disabled(cluster: GeneratedCluster) -> Manifest:
    names = [{"name": name} for name in cluster.some(_SCORING, 1, 4)]
    return {"plugins": {"score": {"disabled": cluster.one(names, names, names, [{"name": "*"}])}}}


def _without_post_filter(cluster: GeneratedCluster) -> Manifest:
    names = cluster.one(["*"], ["DefaultPreemption"], ["DynamicResources"])
    return {"plugins": {"postFilter": {"disabled": [{"name": name} for name in names]}}}


PROFILES: dict[str, Callable[[GeneratedCluster], Manifest]] = {
    "most-allocated": _most_allocated,
    "least-allocated": _least_allocated,
    "ratio": _ratio,
    "ignored-resources": _ignored,
    "balanced": _balanced,
    "spread-list": _spread_list,
    "added-affinity": _added_affinity,
    "pod-affinity": _pod_affinity,
    "preemption": _preemption,
    "weights": _weights,
    "disabled": _disabled,
    "score-disabled": _score_disabled,
    "no-post-filter": _without_post_filter,
}
"""Parts of a profile by name; the profile of a case is merged from one or more of them."""

DEFAULT = "default"


def configuration(cluster: GeneratedCluster, wanted: str = "") -> Manifest | None:
    """Return a KubeSchedulerConfiguration, None for the default. The part `wanted` must be in it."""
    if wanted == DEFAULT or (not wanted and cluster.chance(0.55)):
        cluster.mark("profile:default")
        return None
    names = {wanted} if wanted else set(cluster.some(tuple(PROFILES), 1, 3))
    if "extended:device" in cluster.used and cluster.chance(0.4):
        names.add("ignored-resources")
    profiles = [_profile(cluster, "default-scheduler", names)]
    if cluster.chance(0.12):
        profiles.append(_profile(cluster, "second", set(cluster.some(tuple(PROFILES), 0, 2))))
        for pod in cluster.pending:
            pod["spec"]["schedulerName"] = cluster.one("default-scheduler", "second")
        cluster.mark("profile:two")
    return {**HEAD, "profiles": profiles}


def _profile(cluster: GeneratedCluster, scheduler: str, names: set[str]) -> Manifest:
    profile: Manifest = {"schedulerName": scheduler}
    for name in sorted(names):
        cluster.mark(f"profile:{name}")
        _merge(profile, PROFILES[name](cluster))
    return profile


def _merge(profile: Manifest, part: Manifest) -> None:
    """Merge a part into the profile; plugin args and extension points of earlier parts take precedence."""
    known = {entry["name"] for entry in profile.get("pluginConfig", ())}
    for entry in part.get("pluginConfig", ()):
        if entry["name"] not in known:
            profile.setdefault("pluginConfig", []).append(entry)
    for point, sets in part.get("plugins", {}).items():
        profile.setdefault("plugins", {}).setdefault(point, sets)
    plugins = profile.get("plugins", {})
    gone = {entry["name"] for entry in plugins.get("multiPoint", {}).get("disabled", ())} - _SCORE_ALONE
    for sets in plugins.values():
        if "enabled" in sets:
            sets["enabled"] = [entry for entry in sets["enabled"] if entry["name"] not in gone]
