"""Plugins per extension point: merging with defaults, expansion of multiPoint, errors."""

from __future__ import annotations

from tests.unit.config.files import config, profile
from tests.unit.config.row import DECODING, Row

_NO_POINT = "kube-scheduler reports the first point, pyscheduler the list that names the plugin"
_VERSION = 'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
_SCORES = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
]
_FILTERS = [
    "NodeName",
    "NodeUnschedulable",
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
    "DynamicResources",
    "NodeDeclaredFeatures",
]
_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


def plugins(*sets: str) -> str:
    """Return a file with one profile with these plugin sets."""
    return profile("plugins:\n" + "".join(f"  {one}\n" for one in sets))


def _without(names: list[str], *removed: str) -> list[str]:
    return [name for name in names if name not in removed]


MERGING = (
    Row(
        "default plugins",
        config(),
        values={
            "profiles[0].plugins.preEnqueue": ["SchedulingGates", "DynamicResources", "DefaultPreemption"],
            "profiles[0].plugins.queueSort": ["PrioritySort"],
            "profiles[0].plugins.podGroup": [],
            "profiles[0].plugins.filter": _FILTERS,
            "profiles[0].plugins.postFilter": ["DynamicResources", "DefaultPreemption"],
            "profiles[0].plugins.placementGenerate": [],
            "profiles[0].plugins.placementFeasible": [],
            "profiles[0].plugins.placementScore": ["NodeResourcesFit"],
            "profiles[0].plugins.podGroupPostFilter": ["DynamicResources"],
            "profiles[0].plugins.score": _SCORES,
            "profiles[0].plugins.permit": [],
            "profiles[0].plugins.bind": ["DefaultBinder"],
            "profiles[0].weights": {
                **dict.fromkeys(_SCORES, 1),
                "TaintToleration": 3,
                **dict.fromkeys(("NodeAffinity", "PodTopologySpread", "InterPodAffinity", "DynamicResources"), 2),
            },
        },
    ),
    Row(
        "default disabled in multiPoint",
        plugins("multiPoint: {disabled: [{name: NodeAffinity}]}"),
        values={
            "profiles[0].plugins.filter": _without(_FILTERS, "NodeAffinity"),
            "profiles[0].plugins.score": _without(_SCORES, "NodeAffinity"),
        },
    ),
    Row(
        "default disabled at a point",
        plugins("score: {disabled: [{name: NodeAffinity, weight: 4}]}"),
        values={"profiles[0].plugins.filter": _FILTERS, "profiles[0].plugins.score": _without(_SCORES, "NodeAffinity")},
    ),
    Row(
        "all defaults disabled at points",
        plugins("preScore: {disabled: [{name: '*'}]}", "score: {disabled: [{name: '*'}]}"),
        values={"profiles[0].plugins.preScore": [], "profiles[0].plugins.score": []},
    ),
    Row(
        "all defaults disabled except some",
        plugins(
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: DefaultBinder}, {name: PrioritySort}, "
            "{name: TaintToleration}, {name: NodeName}]}"
        ),
        values={
            "profiles[0].plugins.filter": ["TaintToleration", "NodeName"],
            "profiles[0].weights": {"TaintToleration": 1},
            "profiles[0].plugins.postFilter": [],
        },
    ),
    Row(
        "all disabled at a point except some",
        plugins("score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 9}, {name: NodeAffinity}]}"),
        values={
            "profiles[0].plugins.score": ["ImageLocality", "NodeAffinity"],
            "profiles[0].weights": {"ImageLocality": 9, "NodeAffinity": 1},
        },
    ),
    Row(
        "re-enabled default keeps its position",
        plugins("multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}"),
        values={"profiles[0].plugins.score": _SCORES, "profiles[0].weights.NodeAffinity": 7},
    ),
    Row(
        "re-enabled default without weight",
        plugins("multiPoint: {enabled: [{name: NodeAffinity}]}"),
        values={"profiles[0].plugins.score": _SCORES, "profiles[0].weights.NodeAffinity": 1},
    ),
    Row(
        "disabled and enabled plugin is last",
        plugins("multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 3}]}"),
        values={
            "profiles[0].plugins.score": [*_without(_SCORES, "NodeAffinity"), "NodeAffinity"],
            "profiles[0].weights.NodeAffinity": 3,
        },
    ),
    Row(
        "plugin disabled and enabled at a point is last",
        plugins("score: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 3}]}"),
        values={"profiles[0].plugins.score": [*_without(_SCORES, "NodeAffinity"), "NodeAffinity"]},
    ),
    Row(
        "plugin enabled at a point is first",
        plugins("filter: {enabled: [{name: NodePorts}, {name: NodeName}]}"),
        values={"profiles[0].plugins.filter": ["NodePorts", "NodeName", *_without(_FILTERS, "NodePorts", "NodeName")]},
    ),
    Row(
        "plugin enabled at a point, disabled in multiPoint",
        plugins(
            "multiPoint: {disabled: [{name: NodePorts}]}", "filter: {enabled: [{name: NodePorts}, {name: NodeName}]}"
        ),
        values={"profiles[0].plugins.filter": ["NodeName", *_without(_FILTERS, "NodePorts", "NodeName"), "NodePorts"]},
    ),
    Row(
        "weight at Score overrides multiPoint",
        plugins(
            "multiPoint: {enabled: [{name: ImageLocality, weight: 5}]}",
            "score: {enabled: [{name: ImageLocality, weight: 6}]}",
        ),
        values={"profiles[0].weights.ImageLocality": 6},
    ),
    Row(
        "missing weight at Score is 1 despite multiPoint",
        plugins(
            "multiPoint: {enabled: [{name: ImageLocality, weight: 5}]}", "score: {enabled: [{name: ImageLocality}]}"
        ),
        values={"profiles[0].weights.ImageLocality": 1},
    ),
    Row(
        "weight 0 is 1",
        plugins("score: {enabled: [{name: TaintToleration, weight: 0}]}"),
        values={"profiles[0].weights.TaintToleration": 1},
    ),
    Row(
        "maximum weight",
        plugins("score: {enabled: [{name: TaintToleration, weight: 2147483647}]}"),
        values={"profiles[0].weights.TaintToleration": 2147483647},
    ),
    Row(
        "unknown plugin disabled",
        plugins("filter: {disabled: [{name: Nowhere}]}"),
        values={"profiles[0].plugins.filter": _FILTERS},
    ),
    Row("empty plugin sets", plugins("filter: null", "score: {}"), values={"profiles[0].plugins.score": _SCORES}),
    Row(
        "placement plugin behind a disabled gate",
        plugins(
            "placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}",
            "placementScore: {enabled: [{name: PodGroupPodsCount, weight: 2}]}",
        ),
        values={"profiles[0].plugins.score": _SCORES},
    ),
    Row(
        "plugin behind a disabled gate",
        plugins("multiPoint: {enabled: [{name: GangScheduling}]}"),
        values={"profiles[0].plugins.permit": []},
    ),
)

REFUSED = (
    Row(
        "unknown plugin at a point",
        plugins("score: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.score.enabled[0].name: ScorePlugin "Nowhere" does not exist',),
    ),
    Row(
        "unknown plugin in multiPoint",
        plugins("multiPoint: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.multiPoint.enabled[0].name: plugin "Nowhere" does not exist',),
        wording=_NO_POINT,
    ),
    Row(
        "plugin does not implement the point",
        plugins("score: {enabled: [{name: NodeName}]}"),
        (
            'profiles[0].plugins.score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin plugin;'
            " it implements preFilter, filter",
        ),
    ),
    Row(
        "plugin twice at a point",
        plugins("filter: {enabled: [{name: NodeName}, {name: NodeName}]}"),
        ('profiles[0].plugins.filter.enabled[1].name: plugin "NodeName" already registered as "FilterPlugin"',),
    ),
    Row(
        "plugin twice in multiPoint",
        plugins("multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}"),
        ('profiles[0].plugins.multiPoint.enabled[0].name: plugin "NodeName" already registered as "PreFilterPlugin"',),
    ),
    Row(
        "* enabled",
        plugins("filter: {enabled: [{name: '*'}]}"),
        ('profiles[0].plugins.filter.enabled[0].name: "*" can be disabled, not enabled; name the plugins',),
        wording='kube-scheduler reports an unknown plugin "*"',
    ),
    Row(
        "enabled without a name",
        plugins("filter: {enabled: [{weight: 1}]}"),
        ("profiles[0].plugins.filter.enabled[0].name: Required value: name a plugin",),
        wording='kube-scheduler reports an unknown plugin ""',
    ),
    Row(
        "disabled without a name",
        plugins("filter: {disabled: [{}]}"),
        ("profiles[0].plugins.filter.disabled[0].name: Required value: name a plugin, or all of them by *",),
        difference="kube-scheduler accepts an empty name; an error here",
    ),
    Row(
        "no queueSort plugin",
        plugins("queueSort: {disabled: [{name: '*'}]}"),
        (
            "profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
            '"mine", but got 0',
        ),
    ),
    Row(
        "no bind plugin",
        plugins("bind: {disabled: [{name: DefaultBinder}]}"),
        ('profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "mine"',),
    ),
    Row(
        "several queueSort plugins",
        plugins("queueSort: {enabled: [{name: PrioritySort}, {name: NodeName}]}"),
        ("profiles[0].plugins.queueSort.enabled: Invalid value: 2: only one queue sort plugin can be enabled",),
    ),
    Row(
        "profiles with different queueSort sets",
        config("""
            profiles:
            - schedulerName: a
            - schedulerName: b
              plugins: {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: '*', weight: 2}]}}
            """),
        (
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"PrioritySort","Weight":0}],'
            '"Disabled":[{"Name":"*","Weight":0}]}: must be the same for all profiles',
        ),
    ),
    Row(
        "profiles with different queueSort args",
        config("""
            profiles:
            - schedulerName: a
              plugins: &sort {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: '*'}]}}
              pluginConfig: [{name: PrioritySort, args: {by: age}}]
            - schedulerName: b
              plugins: *sort
              pluginConfig: [{name: PrioritySort, args: {by: size}}]
            """),
        (
            'profiles[0].pluginConfig[0].args.by: unknown field "by"',
            'profiles[1].pluginConfig[0].args.by: unknown field "by"',
        ),
        wording="no queueSort plugin of kube-scheduler has args",
    ),
    Row(
        "negative weight",
        plugins("score: {enabled: [{name: TaintToleration, weight: -3}]}"),
        ("profiles[0].plugins.score: total score of Score plugins could overflow",),
    ),
    Row(
        "weight of more than 32 bits",
        plugins("score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}"),
        (
            "profiles[0].plugins.score.enabled[0].weight: must be a whole number from -2147483648 to 2147483647,"
            " not 2147483648",
        ),
        wording=DECODING,
    ),
    Row(
        "unknown placement plugin",
        plugins("placementScore: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.placementScore.enabled[0].name: PlacementScorePlugin "Nowhere" does not exist',),
    ),
    Row(
        "plugin does not implement the placement point",
        plugins("placementGenerate: {enabled: [{name: NodeName}]}"),
        (
            'profiles[0].plugins.placementGenerate.enabled[0].name: plugin "NodeName" does not extend '
            "PlacementGeneratePlugin plugin; it implements preFilter, filter",
        ),
    ),
    Row(
        "duplicate placement plugin",
        plugins("placementScore: {enabled: [{name: NodeResourcesFit}, {name: NodeResourcesFit}]}"),
        (
            'profiles[0].plugins.placementScore.enabled[1].name: plugin "NodeResourcesFit" already registered as '
            '"PlacementScorePlugin"',
        ),
    ),
    *(
        Row(
            f"{name}, removed",
            plugins(f"filter: {{enabled: [{{name: {name}}}]}}"),
            (f'profiles[0].plugins.filter.enabled[0]: Invalid value: "{name}": {_VERSION}',),
        )
        for name in _REMOVED
    ),
    *(
        Row(
            f"args of {name}, removed",
            profile(f"pluginConfig: [{{name: {name}}}]"),
            (f'profiles[0].pluginConfig[0]: Invalid value: "{name}": {_VERSION}',),
        )
        for name in _REMOVED
    ),
    Row(
        "removed plugin in multiPoint",
        plugins("multiPoint: {enabled: [{name: EBSLimits}]}"),
        (f'profiles[0].plugins.multiPoint.enabled[0]: Invalid value: "EBSLimits": {_VERSION}',),
        wording="kube-scheduler does not validate multiPoint and reports an unknown plugin",
    ),
)
