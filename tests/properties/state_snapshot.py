"""Everything that plugins can read of a cluster state, as comparable plain values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyscheduler.api.match import Requirement
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.pod import PodSignature
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.topology import PodAttributes, PodCount
from pyscheduler.core.state import ClusterState
from tests.properties.sample_objects import RESOURCES

IMAGES = ("base:1", "app:1", "app:2", "none:1")
REQUIREMENTS = (
    Requirement("team", "In", ("red",)),
    Requirement("team", "In", ("red", "blue")),
    Requirement("team", "NotIn", ("blue",)),
    Requirement("team", "Exists", ()),
    Requirement("topology.kubernetes.io/zone", "DoesNotExist", ()),
    Requirement("kubernetes.io/hostname", "Gt", ("3",)),
)
IMAGES = ("base:1", "app:1", "app:2", "none:1")
TOPOLOGIES = ("team", "topology.kubernetes.io/zone")
StateSnapshot = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Milli(PodCount):
    """CPU requests of pods in millicores."""

    terminating: bool

    def of(self, signature: PodSignature) -> int:
        return signature.requests.real.get("cpu", 0)


@dataclass(frozen=True, slots=True)
class Resources(PodAttributes):
    """Names of the resources that pods request."""

    def of(self, signature: PodSignature) -> tuple[str, ...]:
        return tuple(signature.requests.real)


COUNTS = (Milli(True), Milli(False))


def by_columns(table: NodeTable) -> StateSnapshot:
    """Return the vectorised view of each node."""
    view: dict[str, list[Any]] = {
        "allowed pods": table.allowed_pods.tolist(),
        "pods": table.pod_counts.tolist(),
        "unschedulable": table.unschedulable.tolist(),
        "taints": _values(table.by_taints),
        "ports": _values(table.by_ports),
    }
    for resource in RESOURCES:
        view[f"allocatable {resource}"] = table.allocatable(resource).tolist()
        view[f"requested {resource}"] = table.requested(resource).tolist()
        view[f"non-zero {resource}"] = table.non_zero_requested(resource).tolist()
    for image in IMAGES:
        view[f"image {image}"] = table.has_image(image).tolist()
    for requirement in REQUIREMENTS:
        view[str(requirement)] = table.matches_requirement(requirement).tolist()
    for count in COUNTS:
        view[str(count)] = table.count_pods(count).tolist()
    for key in TOPOLOGIES:
        domains = table.topology(key)
        values = {known: value for value, known in domains.known.items()}
        view[f"domain {key}"] = [values[i] for i in domains.ids.tolist()]
    assert all(len(column) == len(table) for column in view.values())
    return {name: {what: column[i] for what, column in view.items()} for i, name in enumerate(table.names)}


def _values(gather: Callable[[Callable[[Any], int]], Any]) -> list[Any]:
    """Return the values behind a column that only returns numbers."""
    numbers_by_value: dict[Hashable, int] = {}
    numbers = gather(lambda value: numbers_by_value.setdefault(value, len(numbers_by_value))).tolist()
    values = list(numbers_by_value)
    return [values[n] for n in numbers]


def by_nodes(nodes: Iterable[NodeInfo]) -> StateSnapshot:
    """Return the per-node view, in the format of `by_columns`."""
    return {node.name: _of_node(node) for node in nodes}


def _of_node(node: NodeInfo) -> StateSnapshot:
    view: StateSnapshot = {
        "allowed pods": node.allowed_pods,
        "pods": len(node.pods),
        "unschedulable": node.unschedulable,
        "taints": node.taints,
        "ports": node.used_ports,
    }
    for resource in RESOURCES:
        requested = min(node.requested.get(resource, 0), MAX_INT64)
        view[f"allocatable {resource}"] = node.allocatable.get(resource, 0)
        view[f"requested {resource}"] = requested
        view[f"non-zero {resource}"] = node.non_zero_requested.get(resource, requested)
    for image in IMAGES:
        view[f"image {image}"] = image in node.images
    for requirement in REQUIREMENTS:
        view[str(requirement)] = requirement.matches(node.labels.get(requirement.key))
    for count in COUNTS:
        counted = (pod for pod in node.pods.values() if count.terminating or not pod.deleting)
        view[str(count)] = sum(count.of(pod.signature) for pod in counted)
    for key in TOPOLOGIES:
        view[f"domain {key}"] = node.labels.get(key)
    return view


def of_cluster(state: ClusterState) -> StateSnapshot:
    """Return the columns and everything that they do not contain."""
    return {
        "columns": by_columns(state.table()),
        "objects": {node.name: node.node for node in state.rows},
        "pods": {node.name: dict(node.pods) for node in state.rows},
        "requested": {node.name: dict(node.requested) for node in state.rows},
        "carried": dict(state.table().attribute_counts(Resources())),
        "image counts": {image: state.table().nodes_with_image(image) for image in IMAGES},
        "known": {node.name: state.info(node.name) is node for node in state.rows},
        "places": {uid: node.name for uid in UIDS if (node := state.node_of(uid)) is not None},
        "total": (len(state), state.table().total),
    }


UIDS = tuple(f"p{i}" for i in range(8))


def assert_consistent(state: ClusterState) -> None:
    """Check that the whole table, a part of it and single nodes agree."""
    columns = by_columns(state.table())
    assert columns == by_nodes(state.rows)
    assert [node.row for node in state.rows] == list(range(len(state)))
    every_other = state.table(np.arange(0, len(state), 2))
    assert by_columns(every_other) == {name: columns[name] for name in every_other.names}
    names = frozenset(list(columns)[::3]) | {"unknown"}
    assert state.table().named(names).tolist() == [name in names for name in columns]
