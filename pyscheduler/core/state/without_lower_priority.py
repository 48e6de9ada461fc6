"""Node tables without the pods below a priority, by which preemption excludes nodes before its dry runs.

Each node is taken by itself, with all others unchanged. So the tables have only the values of a node and its own pods:
counts by domain would have to be different for each node.
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
"""Amounts from here on are left to dry runs, so that sums over pods fit int64."""


class TableWithoutLowerPriority(ColumnTable):
    """Table of all nodes, or of some rows, without the pods below `priority`."""

    __slots__ = ("_priority", "overflowed")

    def __init__(self, state: ColumnSource, priority: int, rows: NDArray[np.intp] | None = None) -> None:
        super().__init__(state, rows)
        self._priority = priority
        self.overflowed: Mask = np.zeros(len(self), np.bool_)
        """Mask of the nodes with amounts too large for this table: values read for them are wrong."""

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self._without_lower_priority(index, node) for index, node in enumerate(self._nodes()))

    def _nodes(self) -> Sequence[NodeRow]:
        """Return the nodes with all their pods."""
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
        raise NotImplementedError("count_by_domain is not available without pods of lower priority")

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        raise NotImplementedError("attribute_counts is not available without pods of lower priority")

    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        amounts, nodes = super().by_ports(answer), self._nodes()
        for index in np.flatnonzero(super().count_pods(_LowerPriorityHostPorts(self._priority))).tolist():
            amounts[index] = answer(self._without_lower_priority(index, nodes[index]).used_ports)
        return amounts

    def _subtract_excluded(self, amounts: Ints, count: PodCount) -> Ints:
        self.overflowed |= amounts >= TOO_BIG
        return amounts - self._excluded(count)

    def _excluded(self, count: PodCount) -> Ints:
        """Return the counts of the excluded pods; `count` must count only such pods."""
        return super().count_pods(count)

    def _without_lower_priority(self, index: int, node: NodeRow) -> NodeRow:  # noqa: ARG002
        copy = node.copy()
        for pod in node.pods.values():
            if pod.priority < self._priority:
                copy.take(pod.uid)
        return copy


class ReprieveTable(TableWithoutLowerPriority):
    """Table without the pods below `priority` except reprieved ones; nodes are given by their index in the table."""

    __slots__ = ("_reprieved", "_sums")

    def __init__(self, state: ColumnSource, priority: int, rows: NDArray[np.intp]) -> None:
        super().__init__(state, priority, rows)
        self._reprieved: dict[int, dict[str, Pod]] = {}
        self._sums: dict[PodCount, Ints] = {}

    def put(self, pods: Mapping[int, Pod]) -> None:
        """Reprieve excluded pods, one on each of some nodes."""
        for index, pod in pods.items():
            self._reprieved.setdefault(index, {})[pod.uid] = pod
        self._add(pods, 1)

    def take(self, pods: Mapping[int, Pod]) -> None:
        """Exclude reprieved pods again."""
        for index, pod in pods.items():
            del self._reprieved[index][pod.uid]
        self._add(pods, -1)

    def _add(self, pods: Mapping[int, Pod], sign: int) -> None:
        indices, signatures = list(pods), [pod.signature for pod in pods.values()]
        distinct = set(signatures)
        for count, sums in self._sums.items():
            values = {signature: sign * count.of(signature) for signature in distinct}
            sums[indices] += np.fromiter((values[signature] for signature in signatures), np.int64, len(indices))

    def count_pods(self, count: PodCount) -> Ints:
        return super().count_pods(count) + self._count_reprieved(count)

    def _excluded(self, count: PodCount) -> Ints:
        return super()._excluded(count) - self._count_reprieved(count)

    def _count_reprieved(self, count: PodCount) -> Ints:
        sums = self._sums.get(count)
        if sums is None:
            sums = self._sums[count] = np.zeros(len(self), np.int64)
            for index, pods in self._reprieved.items():
                sums[index] = sum(count.of(pod.signature) for pod in pods.values())
        return sums

    def _without_lower_priority(self, index: int, node: NodeRow) -> NodeRow:
        copy = super()._without_lower_priority(index, node)
        for pod in self._reprieved.get(index, {}).values():
            copy.put(pod)
        return copy


@dataclass(frozen=True, slots=True)
class LowerPriorityPods(PodCount):
    """Count of the pods below a priority."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority)


@dataclass(frozen=True, slots=True)
class _LowerPriorityRequests(PodCount):
    """Requests of one resource by the pods below a priority."""

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
    """Requests of one resource by the pods below a priority, with scoring's defaults for missing requests."""

    priority: int
    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return min(signature.requests.non_zero[self.resource], TOO_BIG) if signature.priority < self.priority else 0


@dataclass(frozen=True, slots=True)
class _LowerPriorityHostPorts(PodCount):
    """Count of the pods below a priority that use host ports."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority and bool(signature.host_ports))


@dataclass(frozen=True, slots=True)
class _RemainingPods(PodCount):
    """Another count, of the pods that are not below a priority."""

    priority: int
    count: PodCount

    @property
    def terminating(self) -> bool:
        return self.count.terminating

    def of(self, signature: PodSignature) -> int:
        return 0 if signature.priority < self.priority else self.count.of(signature)
