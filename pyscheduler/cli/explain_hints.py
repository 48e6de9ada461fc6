"""What would let a pod fit nodes that a plugin rejects, in words; "" where the plugin's reasons say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE, tolerates
from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.objects import Taint
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.resources import quantity
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.room import lacking_on_best_node

_INSUFFICIENT: Final = "Insufficient "
_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
_CONDITION: Final = "node.kubernetes.io/"
"""Prefix of the taints that the node lifecycle controller adds and removes."""
_CORDONED: Final = f"{_CONDITION}unschedulable"


def hint(context: Context, pod: Pod, rows: Sequence[int], status: Status) -> str:
    """Return what would let the pod fit one of these rows as far as the plugin of the status is concerned."""
    nodes = [context.state.rows[row] for row in rows]
    if status.plugin == "NodeResourcesFit":
        return _resources(context, pod, rows, status)
    found = _HINTS.get(status.plugin)
    return found(pod, nodes) if found is not None else ""


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


def _taints(pod: Pod, nodes: Sequence[NodeInfo]) -> str:
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


def _cordoned(_: Pod, nodes: Sequence[NodeInfo]) -> str:
    return f"kubectl uncordon {nodes[0].name}"


def _labels(pod: Pod, nodes: Sequence[NodeInfo]) -> str:
    selector = pod.spec.node_selector or {}
    missing = [_missing_labels(selector, node) for node in nodes]
    fewest = min(missing, key=len, default=())
    if fewest:
        return f"label {', '.join(fewest)} on {nodes[missing.index(fewest)].name}, or another nodeSelector"
    return "labels that spec.affinity.nodeAffinity requires" if pod.spec.affinity is not None else ""


def _missing_labels(selector: Mapping[str, str], node: NodeInfo) -> Sequence[str]:
    return tuple(f"{key}={value}" for key, value in selector.items() if node.labels.get(key) != value)


def _ports(pod: Pod, _: Sequence[NodeInfo]) -> str:
    ports = sorted({f"{port.port}/{port.protocol}" for port in pod.signature.host_ports})
    return f"host ports {', '.join(ports)} free on the node" if ports else ""


def _spread(pod: Pod, _: Sequence[NodeInfo]) -> str:
    hard = [each for each in pod.spec.topology_spread_constraints or () if each.when_unsatisfiable == "DoNotSchedule"]
    keys = ", ".join(f"{each.topology_key} (maxSkew {each.max_skew})" for each in hard)
    return f"fewer matching pods in this domain than in others: {keys}" if keys else ""


_HINTS: Final[Mapping[str, Callable[[Pod, Sequence[NodeInfo]], str]]] = {
    "NodeAffinity": _labels,
    "NodePorts": _ports,
    "NodeUnschedulable": _cordoned,
    "PodTopologySpread": _spread,
    "TaintToleration": _taints,
}
