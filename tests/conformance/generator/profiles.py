"""Configurations: scoring strategies, plugins switched off or weighed otherwise, and the arguments of plugins."""

from __future__ import annotations

from collections.abc import Callable

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
"""Plugins that can be enabled at Score alone; the others miss there what their PreScore prepares."""


def args(plugin: str, **fields: object) -> Manifest:
    """The part of a profile that gives a plugin its arguments."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {"pluginConfig": [{"name": plugin, "args": {**head, **fields}}]}


def _resources(world: GeneratedCluster) -> list[Manifest]:
    named = world.some(("cpu", "memory", GPU, FPGA, "ephemeral-storage"), 1)
    return [{"name": name, "weight": world.one(1, 1, 2, 5, 100)} for name in named]


def _most_allocated(world: GeneratedCluster) -> Manifest:
    return args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": _resources(world)})


def _least_allocated(world: GeneratedCluster) -> Manifest:
    return args("NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", "resources": _resources(world)})


def _ratio(world: GeneratedCluster) -> Manifest:
    """Any shape: growing, falling, or both."""
    points = sorted(world.some(range(0, 101, 5), 2, 4))
    shape = [{"utilization": u, "score": world.number(0, 10)} for u in points]
    ratio = {
        "type": "RequestedToCapacityRatio",
        "resources": _resources(world),
        "requestedToCapacityRatio": {"shape": shape},
    }
    return args("NodeResourcesFit", scoringStrategy=ratio)


def _ignored(world: GeneratedCluster) -> Manifest:
    fields: Manifest = {}
    if world.chance(0.7):
        fields["ignoredResources"] = world.some((GPU, FPGA), 1)
    if world.chance(0.5):
        fields["ignoredResourceGroups"] = ["example.com"]
    return args("NodeResourcesFit", **fields)


def _balanced(world: GeneratedCluster) -> Manifest:
    resources = [{"name": r["name"], "weight": 1} for r in _resources(world)]
    return args("NodeResourcesBalancedAllocation", resources=resources)


def _spread_list(world: GeneratedCluster) -> Manifest:
    constraints = [
        {
            "maxSkew": world.one(1, 2, 3),
            "topologyKey": key,
            "whenUnsatisfiable": world.one("ScheduleAnyway", "DoNotSchedule"),
        }
        for key in world.some((ZONE, HOSTNAME, REGION))
    ]
    return args("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)


def _added_affinity(world: GeneratedCluster) -> Manifest:
    return args("NodeAffinity", addedAffinity=node_affinity(world))


def _pod_affinity(world: GeneratedCluster) -> Manifest:
    ignore = world.chance(0.5)
    weight = world.one(0, 1, 10, 100)
    return args("InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=ignore)


def _preemption(world: GeneratedCluster) -> Manifest:
    percentage, absolute = world.one((10, 1), (100, 100), (0, 5), (50, 0))
    return args("DefaultPreemption", minCandidateNodesPercentage=percentage, minCandidateNodesAbsolute=absolute)


def _weights(world: GeneratedCluster) -> Manifest:
    enabled = [{"name": name, "weight": world.number(1, 20)} for name in world.some(_SCORING, 1, 4)]
    return {"plugins": {world.one("multiPoint", "score"): {"enabled": enabled}}}


def _disabled(world: GeneratedCluster) -> Manifest:
    names = [{"name": name} for name in world.some(_SWITCHABLE, 1, 4)]
    return {"plugins": {"multiPoint": {"disabled": names}}}


def _score_disabled(world: GeneratedCluster) -> Manifest:
    names = [{"name": name} for name in world.some(_SCORING, 1, 4)]
    return {"plugins": {"score": {"disabled": world.one(names, names, names, [{"name": "*"}])}}}


def _without_post_filter(world: GeneratedCluster) -> Manifest:
    names = world.one(["*"], ["DefaultPreemption"], ["DynamicResources"])
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
"""Parts of a profile by name; a case's profile is put together from one or more of them."""

DEFAULT = "default"


def configuration(world: GeneratedCluster, wanted: str = "") -> Manifest | None:
    """A KubeSchedulerConfiguration, None for the default one. `wanted` names a part that must be in it."""
    if wanted == DEFAULT or (not wanted and world.chance(0.55)):
        world.mark("profile:default")
        return None
    names = {wanted} if wanted else set(world.some(tuple(PROFILES), 1, 3))
    if "extended:device" in world.used and world.chance(0.4):
        names.add("ignored-resources")
    profiles = [_profile(world, "default-scheduler", names)]
    if world.chance(0.12):
        profiles.append(_profile(world, "second", set(world.some(tuple(PROFILES), 0, 2))))
        for pod in world.pending:
            pod["spec"]["schedulerName"] = world.one("default-scheduler", "second")
        world.mark("profile:two")
    return {**HEAD, "profiles": profiles}


def _profile(world: GeneratedCluster, scheduler: str, names: set[str]) -> Manifest:
    profile: Manifest = {"schedulerName": scheduler}
    for name in sorted(names):
        world.mark(f"profile:{name}")
        _merge(profile, PROFILES[name](world))
    return profile


def _merge(profile: Manifest, part: Manifest) -> None:
    """Adds a part; what an earlier one says of a plugin's arguments or of an extension point stands."""
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
