"""The args of kube-scheduler's plugins: defaults, ranges, names, and the texts of what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.config.files import profile
from tests.unit.config.row import DECODING, Row
from tests.unit.config.rows_fields import NAME_RULE

_ARGS = "profiles[0].pluginConfig[0].args"
_REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
_EXPRESSION = f"{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_TWO = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def accepted(id: str, plugin: str, args: str, gives: Mapping[str, Any]) -> Row:
    """A row of args that are good; `gives` is what the plugin's args are then."""
    return Row(
        f"{plugin} {id}",
        profile(f"pluginConfig:\n- {{name: {plugin}, args: {{{args}}}}}"),
        gives={f"profiles[0].args.{plugin}.{path}": value for path, value in gives.items()},
    )


def refused(id: str, plugin: str, args: str, *says: str, words: str = "", verdict: str = "") -> Row:
    """A row of args that are not; `says` is told at a place below them."""
    text = profile(f"pluginConfig:\n- {{name: {plugin}, args: {{{args}}}}}")
    return Row(f"{plugin} {id}", text, tuple(f"{_ARGS}.{line}" for line in says), words=words, verdict=verdict)


def added(id: str, requirement: str, *says: str) -> Row:
    """A required added affinity of one expression that is refused; `says` is told at a place below it."""
    affinity = (
        "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"{{nodeSelectorTerms: [{{matchExpressions: [{{{requirement}}}]}}]}}}}"
    )
    return refused(id, "NodeAffinity", affinity, *(f"{_EXPRESSION}.{line}" for line in says))


def strategy(id: str, said: str, *says: str) -> Row:
    """A scoring strategy that is refused."""
    return refused(id, "NodeResourcesFit", f"scoringStrategy: {{{said}}}", *(f"scoringStrategy.{s}" for s in says))


COMMON = (
    accepted("nothing said", "DefaultPreemption", "", {"minCandidateNodesPercentage": 10}),
    accepted("typed", "DefaultPreemption", "apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs", {}),
    accepted("kind alone", "DefaultPreemption", "kind: DefaultPreemptionArgs", {}),
    Row("args of null", profile("pluginConfig: [{name: NodeAffinity, args: null}, {name: InterPodAffinity}]")),
    refused(
        "of another kind",
        "NodeAffinity",
        "kind: InterPodAffinityArgs",
        "kind: args for plugin NodeAffinity were not of type NodeAffinityArgs, got InterPodAffinityArgs",
        words=DECODING,
    ),
    refused(
        "of an old version",
        "NodeAffinity",
        "apiVersion: kubescheduler.config.k8s.io/v1beta2, kind: NodeAffinityArgs",
        'apiVersion: "kubescheduler.config.k8s.io/v1beta2" is not served; write kubescheduler.config.k8s.io/v1',
        words=DECODING,
    ),
    refused("unknown field", "NodeAffinity", "addedAfinity: {}", 'addedAfinity: unknown field "addedAfinity"; did you mean "addedAffinity"?', words=DECODING),
    refused("field twice", "InterPodAffinity", "hardPodAffinityWeight: 1, hardPodAffinityWeight: 1", "hardPodAffinityWeight: is given twice (first on line 6)", words=DECODING),
    Row(
        "args twice",
        profile("pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]"),
        ('profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',),
    ),
    Row(
        "args of no plugin",
        profile("pluginConfig: [{name: Nowhere, args: {a: 1}}]"),
        ('profiles[0].pluginConfig[0].name: plugin "Nowhere" does not exist',),
        verdict="kube-scheduler takes args of plugins that it does not know; here it is a slip",
    ),
    Row(
        "args without a name",
        profile("pluginConfig: [{args: {}}]"),
        ("profiles[0].pluginConfig[0].name: Required value: name a plugin",),
        verdict="kube-scheduler takes args of plugins that it does not know; here it is a slip",
    ),
    refused(
        "no args to be had",
        "NodeName",
        "a: 1",
        'a: unknown field "a"',
        verdict="kube-scheduler takes args of plugins that have none; here it is a slip",
    ),
    Row(
        "args of a plugin that does not run",
        profile("""
            plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
            pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]
            """),
        (f"{_ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",),
    ),
)

PREEMPTION = (
    accepted(
        "given",
        "DefaultPreemption",
        "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 7},
    ),
    accepted("the default", "DefaultPreemption", "", {"minCandidateNodesAbsolute": 100}),
    *(
        refused(
            f"percentage {value}",
            "DefaultPreemption",
            f"minCandidateNodesPercentage: {value}",
            f"minCandidateNodesPercentage: Invalid value: {value}: not in valid range [0, 100]",
        )
        for value in (-1, 101)
    ),
    refused(
        "absolute -1",
        "DefaultPreemption",
        "minCandidateNodesAbsolute: -1",
        "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
    ),
    refused(
        "both 0",
        "DefaultPreemption",
        "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0",
        "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
        "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
    ),
    refused(
        "of more than 32 bits",
        "DefaultPreemption",
        "minCandidateNodesAbsolute: 2147483648",
        "minCandidateNodesAbsolute: must be a whole number from -2147483648 to 2147483647, not 2147483648",
        words=DECODING,
    ),
)

AFFINITY = (
    accepted("the default", "InterPodAffinity", "", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}),
    accepted(
        "given",
        "InterPodAffinity",
        "hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true",
        {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
    ),
    *(
        refused(
            f"weight {value}",
            "InterPodAffinity",
            f"hardPodAffinityWeight: {value}",
            f"hardPodAffinityWeight: Invalid value: {value}: not in valid range [0, 100]",
        )
        for value in (-1, 101)
    ),
    accepted("the default", "NodeAffinity", "", {"addedAffinity": None}),
    accepted(
        "given",
        "NodeAffinity",
        "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: "
        "[{key: metadata.name, operator: NotIn, values: [a]}]}, {}]}, preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 3, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}",
        {f"{_PREFERRED}[0].weight": 3, f"{_REQUIRED}.nodeSelectorTerms[0].matchFields[0].values[0]": "a"},
    ),
    accepted(
        "a preference without weight",
        "NodeAffinity",
        "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 0, preference: {matchExpressions: [{key: disk, operator: Near}]}}]}",
        {},
    ),
    added(
        "unknown operator",
        "key: a, operator: Near, values: [b]",
        'operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
    ),
    added(
        "In without values",
        "key: a, operator: In",
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    ),
    added(
        "NotIn of no values",
        "key: a, operator: NotIn, values: []",
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    ),
    added(
        "Exists with values",
        "key: a, operator: Exists, values: [b]",
        'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
    ),
    added(
        "Gt of two values",
        "key: a, operator: Gt, values: ['1', '2']",
        "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
    ),
    added(
        "Lt of no number",
        "key: a, operator: Lt, values: [b]",
        "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    added("a key that is none", "key: 'a b', operator: Exists", f'key: Invalid value: "a b": {NAME_RULE}'),
    added(
        "a value that is none",
        "key: a, operator: In, values: [b, 'c d']",
        f'values[1][a]: Invalid value: "c d": {_VALUE_RULE}',
    ),
    added(
        "several at once",
        "key: '-', operator: Exists, values: [b]",
        f'key: Invalid value: "-": {NAME_RULE}',
        'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
    ),
    *(
        refused(
            id,
            "NodeAffinity",
            "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            f"{{nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, {field}}}]}}]}}}}",
            f"{_REQUIRED}.nodeSelectorTerms[0].matchFields[0].{says}",
        )
        for id, field, says in (
            ("two names", "operator: In, values: [a, b]", 'values: Invalid value: ["a","b"]: must have one element'),
            ("no name", "operator: NotIn", "values: Invalid value: null: must have one element"),
            (
                "a name that exists",
                "operator: Exists",
                'operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            ),
        )
    ),
    refused(
        "a preference that is none",
        "NodeAffinity",
        "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}]}",
        f"{_PREFERRED}[0].preference.matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, "
        "values set can't be empty",
        words="there .preference is left out of the path",
    ),
)

_LINE = "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"
_SHAPE = "requestedToCapacityRatio.shape"


def shape(id: str, points: str, *says: str) -> Row:
    """A line of RequestedToCapacityRatio that is refused."""
    line = f"type: RequestedToCapacityRatio, requestedToCapacityRatio: {{shape: [{points}]}}"
    return strategy(id, line, *(f"{_SHAPE}{s}" for s in says))


FIT = (
    accepted(
        "the default",
        "NodeResourcesFit",
        "",
        {
            "ignoredResources": [],
            "ignoredResourceGroups": [],
            "scoringStrategy": {"type": "LeastAllocated", "resources": _TWO},
        },
    ),
    accepted(
        "ignored",
        "NodeResourcesFit",
        "ignoredResources: [example.com/a, cpu], ignoredResourceGroups: [example.com]",
        {"ignoredResources": ["example.com/a", "cpu"], "ignoredResourceGroups": ["example.com"]},
    ),
    accepted("type alone", "NodeResourcesFit", "scoringStrategy: {type: MostAllocated}", {"scoringStrategy.resources": _TWO}),
    accepted(
        "no resources, weights of 0",
        "NodeResourcesFit",
        "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 0}, {name: a.io/b}]}",
        {"scoringStrategy.resources": [{"name": "cpu", "weight": 1}, {"name": "a.io/b", "weight": 1}]},
    ),
    accepted(
        "a line",
        "NodeResourcesFit",
        f"scoringStrategy: {{type: RequestedToCapacityRatio, {_LINE}, resources: [{{name: cpu, weight: 100}}]}}",
        {"scoringStrategy.requestedToCapacityRatio.shape[1]": {"utilization": 100, "score": 10}},
    ),
    refused(
        "ignored names that are none",
        "NodeResourcesFit",
        "ignoredResources: ['a b'], ignoredResourceGroups: ['c d']",
        f'ignoredResourceGroups[0]: Invalid value: "c d": {NAME_RULE}',
        f'ignoredResources[0]: Invalid value: "a b": {NAME_RULE}',
    ),
    refused(
        "a group with a slash",
        "NodeResourcesFit",
        "ignoredResourceGroups: [a.io/b]",
        "ignoredResourceGroups[0]: Invalid value: \"a.io/b\": resource group name can't contain '/'",
    ),
    strategy(
        "no type",
        "resources: [{name: cpu}]",
        'type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
    ),
    strategy(
        "another type",
        "type: Foo",
        'type: Unsupported value: "Foo": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
    ),
    *(
        strategy(
            f"weight {weight}",
            f"type: LeastAllocated, resources: [{{name: cpu}}, {{name: memory, weight: {weight}}}]",
            f"resources[1].weight: Invalid value: {weight}: resource weight of memory not in valid range (0, 100]",
        )
        for weight in (-1, 101)
    ),
    strategy(
        "a line for another type",
        f"type: LeastAllocated, {_LINE}",
        "requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    strategy(
        "no line",
        "type: RequestedToCapacityRatio",
        "requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    shape("a line without points", "", ": Required value: at least one point must be specified"),
    shape(
        "points in disorder",
        "{utilization: 50, score: 1}, {utilization: 50, score: 2}, {utilization: 40, score: 3}",
        "[1].utilization: Invalid value: 50: values must be sorted in increasing order",
    ),
    shape(
        "points out of range",
        "{utilization: -1, score: -1}, {utilization: 101, score: 11}",
        "[0].score: Invalid value: -1: not in valid range [0, 10]",
        "[0].utilization: Invalid value: -1: not in valid range [0, 100]",
        "[1].score: Invalid value: 11: not in valid range [0, 10]",
        "[1].utilization: Invalid value: 101: not in valid range [0, 100]",
    ),
    refused(
        "a resource without a name",
        "NodeResourcesFit",
        "scoringStrategy: {type: LeastAllocated, resources: [{weight: 2}]}",
        "scoringStrategy.resources[0].name: is required",
        verdict="kube-scheduler scores by a resource that nothing has",
    ),
)

BALANCED = (
    accepted("the default", "NodeResourcesBalancedAllocation", "", {"resources": _TWO}),
    accepted("none", "NodeResourcesBalancedAllocation", "resources: []", {"resources": _TWO}),
    accepted(
        "given",
        "NodeResourcesBalancedAllocation",
        "resources: [{name: cpu, weight: 0}, {name: a.io/b, weight: 1}]",
        {"resources": [{"name": "cpu", "weight": 1}, {"name": "a.io/b", "weight": 1}]},
    ),
    refused(
        "a resource twice",
        "NodeResourcesBalancedAllocation",
        "resources: [{name: cpu}, {name: cpu}]",
        'resources[1].name: Duplicate value: "cpu"',
    ),
    *(
        refused(
            f"weight {weight}",
            "NodeResourcesBalancedAllocation",
            f"resources: [{{name: cpu, weight: {weight}}}]",
            f"resources[0].weight: Invalid value: {weight}: must be 1",
        )
        for weight in (-1, 2)
    ),
)


def spread(id: str, constraints: str, *says: str) -> Row:
    """Default constraints that are refused."""
    args = f"defaultingType: List, defaultConstraints: [{constraints}]"
    return refused(id, "PodTopologySpread", args, *(f"defaultConstraints{s}" for s in says))


_SPREAD = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway"

SPREADING = (
    accepted("the default", "PodTopologySpread", "", {"defaultConstraints": [], "defaultingType": "System"}),
    accepted("no type", "PodTopologySpread", "defaultingType: ''", {"defaultingType": "System"}),
    accepted("none", "PodTopologySpread", "defaultingType: List", {"defaultingType": "List"}),
    accepted(
        "given",
        "PodTopologySpread",
        f"defaultingType: List, defaultConstraints: [{{{_SPREAD}, minDomains: 2, nodeTaintsPolicy: Honor, "
        "nodeAffinityPolicy: Ignore, matchLabelKeys: [app]}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: "
        "DoNotSchedule}]",
        {"defaultConstraints[0].minDomains": 2, "defaultConstraints[1].whenUnsatisfiable": "DoNotSchedule"},
    ),
    refused(
        "constraints without List",
        "PodTopologySpread",
        f"defaultConstraints: [{{{_SPREAD}}}]",
        'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
    ),
    refused(
        "another type",
        "PodTopologySpread",
        "defaultingType: Some",
        'defaultingType: Unsupported value: "Some": supported values: "System", "List"',
    ),
    spread(
        "nothing of it",
        "{}",
        "[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        "[0].topologyKey: Required value: can not be empty",
        "[0].whenUnsatisfiable: Required value: can not be empty",
    ),
    spread(
        "wrong in all",
        "{maxSkew: -1, topologyKey: 'a b', whenUnsatisfiable: Maybe, labelSelector: {}}",
        "[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
        "[0].maxSkew: Invalid value: -1: not in valid range (0, inf)",
        f'[0].topologyKey: Invalid value: "a b": {NAME_RULE}',
        '[0].whenUnsatisfiable: Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway"',
    ),
    spread(
        "one twice",
        f"{{{_SPREAD}}}, {{{_SPREAD.replace('1', '2')}}}",
        '[1]: Duplicate value: "{zone, ScheduleAnyway}"',
    ),
)

_GATED = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"

OTHERS = (
    accepted("the default", "VolumeBinding", "", {"bindTimeoutSeconds": 600, "shape": None}),
    accepted("no waiting", "VolumeBinding", "bindTimeoutSeconds: 0", {"bindTimeoutSeconds": 0}),
    refused(
        "negative",
        "VolumeBinding",
        "bindTimeoutSeconds: -1",
        "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
    ),
    refused(
        "shape",
        "VolumeBinding",
        "shape: [{utilization: 0, score: 5}]",
        f'shape: Invalid value: [{{"Utilization":0,"Score":5}}]: {_GATED}',
    ),
    refused("shape of no points", "VolumeBinding", "shape: []", f"shape: Invalid value: []: {_GATED}"),
    accepted("the default", "DynamicResources", "", {"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
    accepted(
        "given",
        "DynamicResources",
        "filterTimeout: 0s, bindingTimeout: 1s",
        {"filterTimeout": "0s", "bindingTimeout": "1s"},
    ),
    refused(
        "negative",
        "DynamicResources",
        "filterTimeout: -1s",
        'filterTimeout: Invalid value: "-1s": must be zero or positive',
    ),
    refused(
        "too short",
        "DynamicResources",
        "bindingTimeout: 999ms",
        'bindingTimeout: Invalid value: "999ms": must be at least 1 second',
    ),
)

ARGS = (*COMMON, *PREEMPTION, *AFFINITY, *FIT, *BALANCED, *SPREADING, *OTHERS)
