"""Args of kube-scheduler's plugins: defaults, ranges, names and error texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.config.files import profile
from tests.unit.config.row import DECODING, NAME_RULE, Row

_ARGS = "profiles[0].pluginConfig[0].args"
_REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
_EXPRESSION = f"{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def accepted(id: str, plugin: str, args: str, values: Mapping[str, Any]) -> Row:
    """Return a row of valid args; `values` are paths and values of the plugin's args."""
    return Row(
        f"{plugin} {id}",
        profile(f"pluginConfig:\n- {{name: {plugin}, args: {{{args}}}}}"),
        values={f"profiles[0].args.{plugin}.{path}": value for path, value in values.items()},
    )


def refused(id: str, plugin: str, args: str, *errors: str, wording: str = "", difference: str = "") -> Row:
    """Return a row of invalid args; `errors` are relative to the args."""
    text = profile(f"pluginConfig:\n- {{name: {plugin}, args: {{{args}}}}}")
    return Row(
        f"{plugin} {id}", text, tuple(f"{_ARGS}.{line}" for line in errors), wording=wording, difference=difference
    )


def added(id: str, requirement: str, *errors: str) -> Row:
    """Return a row of an invalid expression in a required added affinity; `errors` are relative to it."""
    affinity = (
        "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"{{nodeSelectorTerms: [{{matchExpressions: [{{{requirement}}}]}}]}}}}"
    )
    return refused(id, "NodeAffinity", affinity, *(f"{_EXPRESSION}.{line}" for line in errors))


COMMON = (
    accepted("no args", "DefaultPreemption", "", {"minCandidateNodesPercentage": 10}),
    accepted(
        "with kind and apiVersion",
        "DefaultPreemption",
        "apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs",
        {},
    ),
    accepted("kind only", "DefaultPreemption", "kind: DefaultPreemptionArgs", {}),
    Row("args null", profile("pluginConfig: [{name: NodeAffinity, args: null}, {name: InterPodAffinity}]")),
    refused(
        "wrong kind",
        "NodeAffinity",
        "kind: InterPodAffinityArgs",
        "kind: args for plugin NodeAffinity were not of type NodeAffinityArgs, got InterPodAffinityArgs",
        wording=DECODING,
    ),
    refused(
        "old apiVersion",
        "NodeAffinity",
        "apiVersion: kubescheduler.config.k8s.io/v1beta2, kind: NodeAffinityArgs",
        'apiVersion: "kubescheduler.config.k8s.io/v1beta2" is not served; write kubescheduler.config.k8s.io/v1',
        wording=DECODING,
    ),
    refused(
        "unknown field",
        "NodeAffinity",
        "addedAfinity: {}",
        'addedAfinity: unknown field "addedAfinity"; did you mean "addedAffinity"?',
        wording=DECODING,
    ),
    refused(
        "duplicate field",
        "InterPodAffinity",
        "hardPodAffinityWeight: 1, hardPodAffinityWeight: 1",
        "hardPodAffinityWeight: is given twice (first on line 6)",
        wording=DECODING,
    ),
    Row(
        "duplicate args",
        profile("pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]"),
        ('profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',),
    ),
    Row(
        "args of an unknown plugin",
        profile("pluginConfig: [{name: Nowhere, args: {a: 1}}]"),
        ('profiles[0].pluginConfig[0].name: plugin "Nowhere" does not exist',),
        difference="kube-scheduler accepts args of unknown plugins; an error here",
    ),
    Row(
        "args without a name",
        profile("pluginConfig: [{args: {}}]"),
        ("profiles[0].pluginConfig[0].name: Required value: name a plugin",),
        difference="kube-scheduler accepts args of unknown plugins; an error here",
    ),
    refused(
        "plugin without args",
        "NodeName",
        "a: 1",
        'a: unknown field "a"',
        difference="kube-scheduler accepts args of plugins without args; an error here",
    ),
    Row(
        "args of a disabled plugin",
        profile("""
            plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
            pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]
            """),
        (f"{_ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",),
    ),
)

PREEMPTION = (
    accepted(
        "all fields set",
        "DefaultPreemption",
        "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 7},
    ),
    accepted("defaults", "DefaultPreemption", "", {"minCandidateNodesAbsolute": 100}),
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
        "more than 32 bits",
        "DefaultPreemption",
        "minCandidateNodesAbsolute: 2147483648",
        "minCandidateNodesAbsolute: must be a whole number from -2147483648 to 2147483647, not 2147483648",
        wording=DECODING,
    ),
)

AFFINITY = (
    accepted(
        "defaults", "InterPodAffinity", "", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}
    ),
    accepted(
        "all fields set",
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
    accepted("defaults", "NodeAffinity", "", {"addedAffinity": None}),
    accepted(
        "all fields set",
        "NodeAffinity",
        "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: "
        "[{key: metadata.name, operator: NotIn, values: [a]}]}, {}]}, preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 3, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}",
        {f"{_PREFERRED}[0].weight": 3, f"{_REQUIRED}.nodeSelectorTerms[0].matchFields[0].values[0]": "a"},
    ),
    accepted(
        "preference without weight",
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
        "NotIn without values",
        "key: a, operator: NotIn, values: []",
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    ),
    added(
        "Exists with values",
        "key: a, operator: Exists, values: [b]",
        'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
    ),
    added(
        "Gt with two values",
        "key: a, operator: Gt, values: ['1', '2']",
        "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
    ),
    added(
        "Lt without a number",
        "key: a, operator: Lt, values: [b]",
        "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    added("invalid label key", "key: 'a b', operator: Exists", f'key: Invalid value: "a b": {NAME_RULE}'),
    added(
        "invalid label value",
        "key: a, operator: In, values: [b, 'c d']",
        f'values[1][a]: Invalid value: "c d": {_VALUE_RULE}',
    ),
    added(
        "several errors",
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
            f"{_REQUIRED}.nodeSelectorTerms[0].matchFields[0].{errors}",
        )
        for id, field, errors in (
            ("two names", "operator: In, values: [a, b]", 'values: Invalid value: ["a","b"]: must have one element'),
            ("name missing", "operator: NotIn", "values: Invalid value: null: must have one element"),
            (
                "matchFields with Exists",
                "operator: Exists",
                'operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            ),
        )
    ),
    refused(
        "empty preference",
        "NodeAffinity",
        "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}]}",
        f"{_PREFERRED}[0].preference.matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, "
        "values set can't be empty",
        wording="kube-scheduler omits .preference in the path",
    ),
)

_DEFAULT_SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]

OTHERS = (
    accepted("defaults", "VolumeBinding", "", {"bindTimeoutSeconds": 600, "shape": _DEFAULT_SHAPE}),
    accepted("timeout 0", "VolumeBinding", "bindTimeoutSeconds: 0", {"bindTimeoutSeconds": 0}),
    refused(
        "negative",
        "VolumeBinding",
        "bindTimeoutSeconds: -1",
        "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
    ),
    accepted(
        "shape",
        "VolumeBinding",
        "shape: [{utilization: 0, score: 5}]",
        {"shape": [{"utilization": 0, "score": 5}]},
    ),
    accepted("shape without points", "VolumeBinding", "shape: []", {"shape": _DEFAULT_SHAPE}),
    refused(
        "shape in the wrong order",
        "VolumeBinding",
        "shape: [{utilization: 5, score: 5}, {utilization: 5, score: 6}]",
        "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order",
    ),
    refused(
        "shape with a wrong score",
        "VolumeBinding",
        "shape: [{utilization: 0, score: 11}]",
        "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
    ),
    accepted("defaults", "DynamicResources", "", {"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
    accepted(
        "all fields set",
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
        "below the minimum",
        "DynamicResources",
        "bindingTimeout: 999ms",
        'bindingTimeout: Invalid value: "999ms": must be at least 1 second',
    ),
)

ARGS = (*COMMON, *PREEMPTION, *AFFINITY, *OTHERS)
