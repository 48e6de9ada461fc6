"""All nodes as they would be without their pods below a priority: each by itself, the others as they are.

Preemption rules nodes out with it before it tries any. It answers only what concerns a node and its own pods; counts
by domain would have to be of a cluster that has lost pods on one node only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.pod import HostPort, Pod, PodSignature
from pyscheduler.api.resources import CPU, MEMORY
from pyscheduler.api.topology import AttributeCounts, Domains, DomainSums, PodAttributes, PodCount
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.table import ColumnSource, ColumnTable

TOO_BIG = 1 << 50
"""Amounts from here on are left to trials, so that sums of what pods hold never leave int64."""


class TableWithoutLowerPriority(ColumnTable):
    """`priority`: pods below it are left out. Of all nodes, or of some rows only."""

    __slots__ = ("_priority", "overflowed")

    def __init__(self, state: ColumnSource, priority: int, rows: NDArray[np.intp] | None = None) -> None:
        super().__init__(state, rows)
        self._priority = priority
        self.overflowed: Mask = np.zeros(len(self), np.bool_)
        """Nodes whose pods hold too much to be counted here: what has been read of them is wrong."""

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self._without_lower_priority(place, node) for place, node in enumerate(self._nodes()))

    def _nodes(self) -> Sequence[NodeRow]:
        """The nodes as they are."""
        rows = self._state.rows
        return rows if isinstance(self._rows, slice) else [rows[row] for row in self._rows]

    @property
    def all_nodes(self) -> NodeTable:
        return TableWithoutLowerPriority(self._state, self._priority)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self._nodes()]

    def requested(self, resource: str) -> Ints:
        return self._subtract_excluded(super().requested(resource), _LowerPriorityRequests(self._priority, resource))

    def non_zero_requested(self, resource: str) -> Ints:
        if resource not in (CPU, MEMORY):
            return self.requested(resource)
        return self._subtract_excluded(
            super().non_zero_requested(resource), _LowerPriorityNonZeroRequests(self._priority, resource)
        )

    @property
    def pod_counts(self) -> Ints:
        return super().pod_counts - self._excluded(LowerPriorityPods(self._priority))

    def count_pods(self, count: PodCount) -> Ints:
        return super().count_pods(_RemainingPods(self._priority, count))

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        raise NotImplementedError("what domains hold is nothing that one node's answer may rest on")

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        raise NotImplementedError("what pods all over the cluster carry is nothing that one node's answer may rest on")

    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        amounts, nodes = super().by_ports(answer), self._nodes()
        for place in np.flatnonzero(super().count_pods(_LowerPriorityHostPorts(self._priority))).tolist():
            amounts[place] = answer(self._without_lower_priority(place, nodes[place]).used_ports)
        return amounts

    def _subtract_excluded(self, amounts: Ints, count: PodCount) -> Ints:
        self.overflowed |= amounts >= TOO_BIG
        return amounts - self._excluded(count)

    def _excluded(self, count: PodCount) -> Ints:
        """What the pods that are left out count for; `count` is of such pods only."""
        return super().count_pods(count)

    def _without_lower_priority(self, place: int, node: NodeRow) -> NodeRow:  # noqa: ARG002
        lighter = node.copy()
        for pod in node.pods.values():
            if pod.priority < self._priority:
                lighter.take(pod.uid)
        return lighter


class ReprieveTable(TableWithoutLowerPriority):
    """The same with some of those pods back on their nodes, which are called by their places in the table."""

    __slots__ = ("_reprieved", "_sums")

    def __init__(self, state: ColumnSource, priority: int, rows: NDArray[np.intp]) -> None:
        super().__init__(state, priority, rows)
        self._reprieved: dict[int, dict[str, Pod]] = {}
        self._sums: dict[PodCount, Ints] = {}

    def put(self, pods: Mapping[int, Pod]) -> None:
        """Pods of those left out are back, one on each of some nodes."""
        for place, pod in pods.items():
            self._reprieved.setdefault(place, {})[pod.uid] = pod
        self._add(pods, 1)

    def take(self, pods: Mapping[int, Pod]) -> None:
        """They have gone again."""
        for place, pod in pods.items():
            del self._reprieved[place][pod.uid]
        self._add(pods, -1)

    def _add(self, pods: Mapping[int, Pod], sign: int) -> None:
        places, shapes = list(pods), [pod.signature for pod in pods.values()]
        distinct = set(shapes)
        for count, sums in self._sums.items():
            each = {signature: sign * count.of(signature) for signature in distinct}
            sums[places] += np.fromiter((each[signature] for signature in shapes), np.int64, len(places))

    def count_pods(self, count: PodCount) -> Ints:
        return super().count_pods(count) + self._count_reprieved(count)

    def _excluded(self, count: PodCount) -> Ints:
        return super()._excluded(count) - self._count_reprieved(count)

    def _count_reprieved(self, count: PodCount) -> Ints:
        sums = self._sums.get(count)
        if sums is None:
            sums = self._sums[count] = np.zeros(len(self), np.int64)
            for place, pods in self._reprieved.items():
                sums[place] = sum(count.of(pod.signature) for pod in pods.values())
        return sums

    def _without_lower_priority(self, place: int, node: NodeRow) -> NodeRow:
        lighter = super()._without_lower_priority(place, node)
        for pod in self._reprieved.get(place, {}).values():
            lighter.put(pod)
        return lighter


@dataclass(frozen=True, slots=True)
class LowerPriorityPods(PodCount):
    """The pods below a priority."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority)


@dataclass(frozen=True, slots=True)
class _LowerPriorityRequests(PodCount):
    """What they hold of a resource."""

    priority: int
    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return (
            min(signature.requests.effective.get(self.resource, 0), TOO_BIG)
            if signature.priority < self.priority
            else 0
        )


@dataclass(frozen=True, slots=True)
class _LowerPriorityNonZeroRequests(PodCount):
    """The same, with what scoring assumes where nothing is stated."""

    priority: int
    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return min(signature.requests.non_zero[self.resource], TOO_BIG) if signature.priority < self.priority else 0


@dataclass(frozen=True, slots=True)
class _LowerPriorityHostPorts(PodCount):
    """Those that take host ports."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority and bool(signature.host_ports))


@dataclass(frozen=True, slots=True)
class _RemainingPods(PodCount):
    """What the other pods count for."""

    priority: int
    count: PodCount

    @property
    def terminating(self) -> bool:
        return self.count.terminating

    def of(self, signature: PodSignature) -> int:
        return 0 if signature.priority < self.priority else self.count.of(signature)
