"""The args of kube-scheduler's plugins: defaults, ranges, names, and the texts of what is wrong."""

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


COMMON = (
    accepted("nothing said", "DefaultPreemption", "", {"minCandidateNodesPercentage": 10}),
    accepted(
        "typed",
        "DefaultPreemption",
        "apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs",
        {},
    ),
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
    refused(
        "unknown field",
        "NodeAffinity",
        "addedAfinity: {}",
        'addedAfinity: unknown field "addedAfinity"; did you mean "addedAffinity"?',
        words=DECODING,
    ),
    refused(
        "field twice",
        "InterPodAffinity",
        "hardPodAffinityWeight: 1, hardPodAffinityWeight: 1",
        "hardPodAffinityWeight: is given twice (first on line 6)",
        words=DECODING,
    ),
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
    accepted(
        "the default", "InterPodAffinity", "", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}
    ),
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

ARGS = (*COMMON, *PREEMPTION, *AFFINITY, *OTHERS)
