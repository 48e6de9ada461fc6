"""Which plugins run where: merging with the defaults, expansion over the points, what is refused on the way."""

from __future__ import annotations

from tests.unit.config.files import config, profile
from tests.unit.config.row import DECODING, Row

_NO_POINT = "kube-scheduler names the first point that it tries, here it is the list that has the name"
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
    "DynamicResources",
    "NodeDeclaredFeatures",
]
_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


def plugins(*sets: str) -> str:
    """A file with one profile that has these plugin sets."""
    return profile("plugins:\n" + "".join(f"  {one}\n" for one in sets))


def _without(names: list[str], *gone: str) -> list[str]:
    return [name for name in names if name not in gone]


MERGING = (
    Row(
        "the default plugins",
        config(),
        gives={
            "profiles[0].plugins.preEnqueue": ["SchedulingGates", "DynamicResources", "DefaultPreemption"],
            "profiles[0].plugins.queueSort": ["PrioritySort"],
            "profiles[0].plugins.filter": _FILTERS,
            "profiles[0].plugins.postFilter": ["DynamicResources", "DefaultPreemption"],
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
        "a default disabled everywhere",
        plugins("multiPoint: {disabled: [{name: NodeAffinity}]}"),
        gives={
            "profiles[0].plugins.filter": _without(_FILTERS, "NodeAffinity"),
            "profiles[0].plugins.score": _without(_SCORES, "NodeAffinity"),
        },
    ),
    Row(
        "a default disabled at a point",
        plugins("score: {disabled: [{name: NodeAffinity, weight: 4}]}"),
        gives={"profiles[0].plugins.filter": _FILTERS, "profiles[0].plugins.score": _without(_SCORES, "NodeAffinity")},
    ),
    Row(
        "all defaults disabled at points",
        plugins("preScore: {disabled: [{name: '*'}]}", "score: {disabled: [{name: '*'}]}"),
        gives={"profiles[0].plugins.preScore": [], "profiles[0].plugins.score": []},
    ),
    Row(
        "all defaults disabled but for some",
        plugins(
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: DefaultBinder}, {name: PrioritySort}, "
            "{name: TaintToleration}, {name: NodeName}]}"
        ),
        gives={
            "profiles[0].plugins.filter": ["TaintToleration", "NodeName"],
            "profiles[0].weights": {"TaintToleration": 1},
            "profiles[0].plugins.postFilter": [],
        },
    ),
    Row(
        "all disabled at a point but for some",
        plugins("score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 9}, {name: NodeAffinity}]}"),
        gives={
            "profiles[0].plugins.score": ["ImageLocality", "NodeAffinity"],
            "profiles[0].weights": {"ImageLocality": 9, "NodeAffinity": 1},
        },
    ),
    Row(
        "a default enabled again in its place",
        plugins("multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}"),
        gives={"profiles[0].plugins.score": _SCORES, "profiles[0].weights.NodeAffinity": 7},
    ),
    Row(
        "a default enabled again without weight",
        plugins("multiPoint: {enabled: [{name: NodeAffinity}]}"),
        gives={"profiles[0].plugins.score": _SCORES, "profiles[0].weights.NodeAffinity": 1},
    ),
    Row(
        "disabled and enabled goes to the end",
        plugins("multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 3}]}"),
        gives={
            "profiles[0].plugins.score": [*_without(_SCORES, "NodeAffinity"), "NodeAffinity"],
            "profiles[0].weights.NodeAffinity": 3,
        },
    ),
    Row(
        "disabled and enabled at a point goes to the end of it",
        plugins("score: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 3}]}"),
        gives={"profiles[0].plugins.score": [*_without(_SCORES, "NodeAffinity"), "NodeAffinity"]},
    ),
    Row(
        "named at a point comes first",
        plugins("filter: {enabled: [{name: NodePorts}, {name: NodeName}]}"),
        gives={"profiles[0].plugins.filter": ["NodePorts", "NodeName", *_without(_FILTERS, "NodePorts", "NodeName")]},
    ),
    Row(
        "named at a point, gone from multiPoint",
        plugins(
            "multiPoint: {disabled: [{name: NodePorts}]}", "filter: {enabled: [{name: NodePorts}, {name: NodeName}]}"
        ),
        gives={"profiles[0].plugins.filter": ["NodeName", *_without(_FILTERS, "NodePorts", "NodeName"), "NodePorts"]},
    ),
    Row(
        "the weight at Score goes before that of multiPoint",
        plugins(
            "multiPoint: {enabled: [{name: ImageLocality, weight: 5}]}",
            "score: {enabled: [{name: ImageLocality, weight: 6}]}",
        ),
        gives={"profiles[0].weights.ImageLocality": 6},
    ),
    Row(
        "no weight at Score is 1, whatever multiPoint says",
        plugins(
            "multiPoint: {enabled: [{name: ImageLocality, weight: 5}]}", "score: {enabled: [{name: ImageLocality}]}"
        ),
        gives={"profiles[0].weights.ImageLocality": 1},
    ),
    Row(
        "weight 0 is 1",
        plugins("score: {enabled: [{name: TaintToleration, weight: 0}]}"),
        gives={"profiles[0].weights.TaintToleration": 1},
    ),
    Row(
        "the greatest weight",
        plugins("score: {enabled: [{name: TaintToleration, weight: 2147483647}]}"),
        gives={"profiles[0].weights.TaintToleration": 2147483647},
    ),
    Row(
        "unheard of and disabled",
        plugins("filter: {disabled: [{name: Nowhere}]}"),
        gives={"profiles[0].plugins.filter": _FILTERS},
    ),
    Row("plugins of nothing", plugins("filter: null", "score: {}"), gives={"profiles[0].plugins.score": _SCORES}),
    Row(
        "placement at rest",
        plugins(
            "placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}",
            "placementScore: {enabled: [{name: PodGroupPodsCount, weight: 2}]}",
        ),
        gives={"profiles[0].plugins.score": _SCORES},
    ),
    Row(
        "a plugin at rest",
        plugins("multiPoint: {enabled: [{name: GangScheduling}]}"),
        gives={"profiles[0].plugins.permit": []},
    ),
)

REFUSED = (
    Row(
        "no such plugin at a point",
        plugins("score: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.score.enabled[0].name: ScorePlugin "Nowhere" does not exist',),
    ),
    Row(
        "no such plugin anywhere",
        plugins("multiPoint: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.multiPoint.enabled[0].name: plugin "Nowhere" does not exist',),
        words=_NO_POINT,
    ),
    Row(
        "a plugin that does not serve the point",
        plugins("score: {enabled: [{name: NodeName}]}"),
        (
            'profiles[0].plugins.score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin plugin;'
            " it implements filter",
        ),
    ),
    Row(
        "twice at a point",
        plugins("filter: {enabled: [{name: NodeName}, {name: NodeName}]}"),
        ('profiles[0].plugins.filter.enabled[1].name: plugin "NodeName" already registered as "FilterPlugin"',),
    ),
    Row(
        "twice in multiPoint",
        plugins("multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}"),
        ('profiles[0].plugins.multiPoint.enabled[0].name: plugin "NodeName" already registered as "FilterPlugin"',),
    ),
    Row(
        "all enabled",
        plugins("filter: {enabled: [{name: '*'}]}"),
        ('profiles[0].plugins.filter.enabled[0].name: "*" can be disabled, not enabled; name the plugins',),
        words='there, too, no plugin is named "*"',
    ),
    Row(
        "enabled without a name",
        plugins("filter: {enabled: [{weight: 1}]}"),
        ("profiles[0].plugins.filter.enabled[0].name: Required value: name a plugin",),
        words='there, too, no plugin is named ""',
    ),
    Row(
        "disabled without a name",
        plugins("filter: {disabled: [{}]}"),
        ("profiles[0].plugins.filter.disabled[0].name: Required value: name a plugin, or all of them by *",),
        verdict="disabling nothing is a slip",
    ),
    Row(
        "nothing sorts the queue",
        plugins("queueSort: {disabled: [{name: '*'}]}"),
        (
            "profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
            '"mine", but got 0',
        ),
    ),
    Row(
        "nothing binds",
        plugins("bind: {disabled: [{name: DefaultBinder}]}"),
        ('profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "mine"',),
    ),
    Row(
        "several sort the queue",
        plugins("queueSort: {enabled: [{name: PrioritySort}, {name: NodeName}]}"),
        ("profiles[0].plugins.queueSort.enabled: Invalid value: 2: only one queue sort plugin can be enabled",),
    ),
    Row(
        "profiles say different things of the queue",
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
        "profiles sort the queue with other args",
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
        words="none of its sorts has args, and here they are refused for that",
    ),
    Row(
        "a negative weight",
        plugins("score: {enabled: [{name: TaintToleration, weight: -3}]}"),
        ("profiles[0].plugins.score: total score of Score plugins could overflow",),
    ),
    Row(
        "a weight of more than 32 bits",
        plugins("score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}"),
        (
            "profiles[0].plugins.score.enabled[0].weight: must be a whole number from -2147483648 to 2147483647,"
            " not 2147483648",
        ),
        words=DECODING,
    ),
    Row(
        "no such placement plugin",
        plugins("placementScore: {enabled: [{name: Nowhere}]}"),
        ('profiles[0].plugins.placementScore.enabled[0].name: PlacementScorePlugin "Nowhere" does not exist',),
    ),
    Row(
        "a plugin that places nothing",
        plugins("placementGenerate: {enabled: [{name: NodeName}]}"),
        (
            'profiles[0].plugins.placementGenerate.enabled[0].name: plugin "NodeName" does not extend '
            "PlacementGeneratePlugin plugin",
        ),
    ),
    Row(
        "a placement plugin twice",
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
        "a removed plugin in multiPoint",
        plugins("multiPoint: {enabled: [{name: EBSLimits}]}"),
        (f'profiles[0].plugins.multiPoint.enabled[0]: Invalid value: "EBSLimits": {_VERSION}',),
        words="there multiPoint is not looked through for them, and the plugin does not exist",
    ),
)
