"""Args of NodeResourcesFit, NodeResourcesBalancedAllocation and PodTopologySpread."""

from __future__ import annotations

from tests.unit.config.row import NAME_RULE, Row
from tests.unit.config.rows_args import accepted, refused

_TYPES = 'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
_TWO = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def strategy(id: str, fields: str, *errors: str) -> Row:
    """Return a row of an invalid scoring strategy."""
    return refused(id, "NodeResourcesFit", f"scoringStrategy: {{{fields}}}", *(f"scoringStrategy.{s}" for s in errors))


_LINE = "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"
_SHAPE = "requestedToCapacityRatio.shape"


def shape(id: str, points: str, *errors: str) -> Row:
    """Return a row of an invalid shape of RequestedToCapacityRatio."""
    line = f"type: RequestedToCapacityRatio, requestedToCapacityRatio: {{shape: [{points}]}}"
    return strategy(id, line, *(f"{_SHAPE}{s}" for s in errors))


FIT = (
    accepted(
        "defaults",
        "NodeResourcesFit",
        "",
        {
            "ignoredResources": [],
            "ignoredResourceGroups": [],
            "scoringStrategy": {"type": "LeastAllocated", "resources": _TWO},
        },
    ),
    accepted(
        "ignored resources",
        "NodeResourcesFit",
        "ignoredResources: [example.com/a, cpu], ignoredResourceGroups: [example.com]",
        {"ignoredResources": ["example.com/a", "cpu"], "ignoredResourceGroups": ["example.com"]},
    ),
    accepted(
        "type only", "NodeResourcesFit", "scoringStrategy: {type: MostAllocated}", {"scoringStrategy.resources": _TWO}
    ),
    accepted(
        "no resources, weights of 0",
        "NodeResourcesFit",
        "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 0}, {name: a.io/b}]}",
        {"scoringStrategy.resources": [{"name": "cpu", "weight": 1}, {"name": "a.io/b", "weight": 1}]},
    ),
    accepted(
        "shape",
        "NodeResourcesFit",
        f"scoringStrategy: {{type: RequestedToCapacityRatio, {_LINE}, resources: [{{name: cpu, weight: 100}}]}}",
        {"scoringStrategy.requestedToCapacityRatio.shape[1]": {"utilization": 100, "score": 10}},
    ),
    refused(
        "invalid ignored resources",
        "NodeResourcesFit",
        "ignoredResources: ['a b'], ignoredResourceGroups: ['c d']",
        f'ignoredResourceGroups[0]: Invalid value: "c d": {NAME_RULE}',
        f'ignoredResources[0]: Invalid value: "a b": {NAME_RULE}',
    ),
    refused(
        "ignored group with a slash",
        "NodeResourcesFit",
        "ignoredResourceGroups: [a.io/b]",
        "ignoredResourceGroups[0]: Invalid value: \"a.io/b\": resource group name can't contain '/'",
    ),
    strategy(
        "type missing",
        "resources: [{name: cpu}]",
        f'type: Unsupported value: "": {_TYPES}',
    ),
    strategy(
        "unknown type",
        "type: Foo",
        f'type: Unsupported value: "Foo": {_TYPES}',
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
        "shape for another type",
        f"type: LeastAllocated, {_LINE}",
        "requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    strategy(
        "shape missing",
        "type: RequestedToCapacityRatio",
        "requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    shape("shape without points", "", ": Required value: at least one point must be specified"),
    shape(
        "points not in order",
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
        "resource without a name",
        "NodeResourcesFit",
        "scoringStrategy: {type: LeastAllocated, resources: [{weight: 2}]}",
        "scoringStrategy.resources[0].name: is required",
        difference="kube-scheduler scores by a resource that no node has",
    ),
)

BALANCED = (
    accepted("defaults", "NodeResourcesBalancedAllocation", "", {"resources": _TWO}),
    accepted("no resources", "NodeResourcesBalancedAllocation", "resources: []", {"resources": _TWO}),
    accepted(
        "all fields set",
        "NodeResourcesBalancedAllocation",
        "resources: [{name: cpu, weight: 0}, {name: a.io/b, weight: 1}]",
        {"resources": [{"name": "cpu", "weight": 1}, {"name": "a.io/b", "weight": 1}]},
    ),
    refused(
        "duplicate resource",
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


def spread(id: str, constraints: str, *errors: str) -> Row:
    """Return a row of invalid default constraints."""
    args = f"defaultingType: List, defaultConstraints: [{constraints}]"
    return refused(id, "PodTopologySpread", args, *(f"defaultConstraints{s}" for s in errors))


_SPREAD = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway"

SPREADING = (
    accepted("defaults", "PodTopologySpread", "", {"defaultConstraints": [], "defaultingType": "System"}),
    accepted("type missing", "PodTopologySpread", "defaultingType: ''", {"defaultingType": "System"}),
    accepted("no constraints", "PodTopologySpread", "defaultingType: List", {"defaultingType": "List"}),
    accepted(
        "all fields set",
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
        "unknown type",
        "PodTopologySpread",
        "defaultingType: Some",
        'defaultingType: Unsupported value: "Some": supported values: "System", "List"',
    ),
    spread(
        "empty constraint",
        "{}",
        "[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        "[0].topologyKey: Required value: can not be empty",
        "[0].whenUnsatisfiable: Required value: can not be empty",
    ),
    spread(
        "every field invalid",
        "{maxSkew: -1, topologyKey: 'a b', whenUnsatisfiable: Maybe, labelSelector: {}}",
        "[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
        "[0].maxSkew: Invalid value: -1: not in valid range (0, inf)",
        f'[0].topologyKey: Invalid value: "a b": {NAME_RULE}',
        '[0].whenUnsatisfiable: Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway"',
    ),
    spread(
        "duplicate constraint",
        f"{{{_SPREAD}}}, {{{_SPREAD.replace('1', '2')}}}",
        '[1]: Duplicate value: "{zone, ScheduleAnyway}"',
    ),
)

SCORING = (*FIT, *BALANCED, *SPREADING)
