"""Changes after which a plugin accepts nodes that it rejects, in words; "" if its reasons suffice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE, tolerates
from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.objects import LabelSelector, Taint
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.resources import quantity
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.room import lacking_on_best_node

_INSUFFICIENT: Final = "Insufficient "
_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
_ANTI: Final = "anti-affinity"
_EXISTING: Final = "existing pods anti-affinity"
"""Parts of the reasons of InterPodAffinity."""
_CONDITION: Final = "node.kubernetes.io/"
"""Prefix of the taints that the node lifecycle controller adds and removes."""
_CORDONED: Final = f"{_CONDITION}unschedulable"


def hint(context: Context, pod: Pod, rows: Sequence[int], status: Status) -> str:
    """Return a change after which the plugin of the status accepts one of these rows."""
    nodes = [context.state.rows[row] for row in rows]
    if status.plugin == "NodeResourcesFit":
        return _resources(context, pod, rows, status)
    found = _HINTS.get(status.plugin)
    return found(pod, nodes, status) if found is not None else ""


def _resources(context: Context, pod: Pod, rows: Sequence[int], status: Status) -> str:
    named = {reason.removeprefix(_INSUFFICIENT) for reason in status.reasons if reason.startswith(_INSUFFICIENT)}
    requests = {resource: n for resource, n in pod.requests.effective.items() if resource in named}
    table = context.state.table(np.array(rows, np.intp))
    largest = {resource: int(table.allocatable(resource).max()) for resource in requests}
    parts = [
        f"a node with {quantity(resource, n)} {resource}; the largest has {quantity(resource, largest[resource])}"
        for resource, n in requests.items()
        if n > largest[resource]
    ]
    fitting = {resource: n for resource, n in requests.items() if n <= largest[resource]}
    lacks, node = lacking_on_best_node(table, fitting) if fitting else ("", "")
    if lacks:
        parts.append(f"{lacks} less requested by it, or by the pods on {node}")
    if len(named) < len(status.reasons):
        parts.append("a pod less on the node, which allows no more")
    return "; ".join(parts)


def _taints(pod: Pod, nodes: Sequence[NodeInfo], _: Status) -> str:
    """Return what the node with the fewest taints needs: most taints of Kubernetes itself end with their cause."""
    tolerations = pod.spec.tolerations or ()
    untolerated = [
        [t for t in node.taints if t.effect in _EFFECTS and not any(tolerates(each, t) for each in tolerations)]
        for node in nodes
    ]
    fewest = min(untolerated, key=len)
    name = nodes[untolerated.index(fewest)].name
    return " and ".join(dict.fromkeys(_without_taint(taint, name) for taint in fewest))


def _without_taint(taint: Taint, node: str) -> str:
    if taint.key == _CORDONED:
        return f"kubectl uncordon {node}"
    if taint.key.startswith(_CONDITION):
        return f"the end of {taint.key.removeprefix(_CONDITION)}: kubectl describe node {node}"
    return f"a toleration of {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _cordoned(_: Pod, nodes: Sequence[NodeInfo], __: Status) -> str:
    return f"kubectl uncordon {nodes[0].name}"


def _labels(pod: Pod, nodes: Sequence[NodeInfo], _: Status) -> str:
    selector = pod.spec.node_selector or {}
    missing = [_missing_labels(selector, node) for node in nodes]
    fewest = min(missing, key=len, default=())
    if fewest:
        return f"label {', '.join(fewest)} on {nodes[missing.index(fewest)].name}, or another nodeSelector"
    return "labels that spec.affinity.nodeAffinity requires" if pod.spec.affinity is not None else ""


def _missing_labels(selector: Mapping[str, str], node: NodeInfo) -> Sequence[str]:
    return tuple(f"{key}={value}" for key, value in selector.items() if node.labels.get(key) != value)


def _ports(pod: Pod, _: Sequence[NodeInfo], __: Status) -> str:
    ports = sorted({f"{port.port}/{port.protocol}" for port in pod.signature.host_ports})
    return f"host ports {', '.join(ports)} free on the node" if ports else ""


def _spread(pod: Pod, nodes: Sequence[NodeInfo], status: Status) -> str:
    hard = [each for each in pod.spec.topology_spread_constraints or () if each.when_unsatisfiable == "DoNotSchedule"]
    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        missing = [each.topology_key for each in hard if each.topology_key not in nodes[0].labels]
        return f"label {', '.join(missing)} on {nodes[0].name}" if missing else ""
    keys = ", ".join(f"{each.topology_key} (maxSkew {each.max_skew})" for each in hard)
    return f"fewer matching pods in this domain than in others: {keys}" if keys else ""


def _affinity(pod: Pod, _: Sequence[NodeInfo], status: Status) -> str:
    affinity, reason = pod.signature.affinity, " ".join(status.reasons)
    if _EXISTING in reason:
        return f"no pod with anti-affinity to its labels: {_text(pod.labels)}"
    rules, wanted = (affinity.pod_anti_affinity, "no") if _ANTI in reason else (affinity.pod_affinity, "a")
    terms = (rules.required_during_scheduling_ignored_during_execution if rules is not None else None) or ()
    return " and ".join(f"{wanted} pod with {_selected(t.label_selector)} in its {t.topology_key}" for t in terms)


def _selected(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no labels that could match"
    expressions = (
        f"{each.key} {each.operator} {', '.join(each.values or ())}".rstrip()
        for each in selector.match_expressions or ()
    )
    return ", ".join(filter(None, (_text(selector.match_labels or {}), *expressions))) or "any labels"


def _text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


_HINTS: Final[Mapping[str, Callable[[Pod, Sequence[NodeInfo], Status], str]]] = {
    "InterPodAffinity": _affinity,
    "NodeAffinity": _labels,
    "NodePorts": _ports,
    "NodeUnschedulable": _cordoned,
    "PodTopologySpread": _spread,
    "TaintToleration": _taints,
}
