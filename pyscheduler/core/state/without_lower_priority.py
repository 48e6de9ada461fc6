"""Node tables without the pods below a priority, for preemption's dry runs on many nodes at once.

Each node is taken by itself, with all others unchanged. So the tables have only the values of a node and its own pods:
counts by domain would have to be different for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.pod import HostPort, Pod, PodSignature
from pyscheduler.api.resources import CPU, MEMORY
from pyscheduler.api.topology import AttributeCounts, Domains, DomainSums, PodAttributes, PodCount
from pyscheduler.api.victims import PotentialVictims
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.table import ColumnSource, ColumnTable

_NO_PODS: Mapping[int, Sequence[Pod]] = MappingProxyType({})
TOO_BIG = 1 << 50
"""Amounts from here on are left to dry runs, so that sums over pods fit int64."""


class TableWithoutLowerPriority(ColumnTable):
    """Table of all nodes, or of some rows, without the pods below `priority`."""

    __slots__ = ("_nominated", "_priority", "overflowed")

    def __init__(
        self,
        state: ColumnSource,
        priority: int,
        rows: NDArray[np.intp] | None = None,
        nominated: Mapping[int, Sequence[Pod]] = _NO_PODS,
    ) -> None:
        """`nominated` are pods to add to some nodes, by index: to requests and numbers of pods, not to other counts."""
        super().__init__(state, rows)
        self._priority = priority
        self._nominated = nominated
        self.overflowed: Mask = np.zeros(len(self), np.bool_)
        """Mask of the nodes with amounts too large for this table: values read for them are wrong."""

    def __iter__(self) -> Iterator[NodeInfo]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> NodeInfo:
        return self._copy_of(i, self._node(i))

    @property
    def all_nodes(self) -> NodeTable:
        return TableWithoutLowerPriority(self._state, self._priority)

    @property
    def names(self) -> list[str]:
        return [self._node(i).name for i in range(len(self))]

    def requested(self, resource: str) -> Ints:
        return self._without_lower(super().requested(resource), ResourceRequests(resource))

    def non_zero_requested(self, resource: str) -> Ints:
        if resource not in (CPU, MEMORY):
            return self.requested(resource)
        return self._without_lower(super().non_zero_requested(resource), _NonZeroRequests(resource))

    @property
    def pod_counts(self) -> Ints:
        return self._without_lower(super().pod_counts, NumberOfPods())

    def count_pods(self, count: PodCount) -> Ints:
        return super().count_pods(_Remaining(self._priority, count))

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        raise NotImplementedError("count_by_domain is not available without pods of lower priority")

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        raise NotImplementedError("attribute_counts is not available without pods of lower priority")

    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        amounts = super().by_ports(answer)
        for i in self._with_other_ports():
            amounts[i] = answer(self._used_ports(i, self._node(i)))
        return amounts

    def _without_lower(self, amounts: Ints, count: PodCount) -> Ints:
        """Return the nodes' amounts without those of lower-priority pods; `count` is the amount of a pod."""
        self.overflowed |= amounts >= TOO_BIG
        remaining: Ints = amounts - super().count_pods(_CountBelow(self._priority, count))
        for i, pods in self._nominated.items():
            amount = int(remaining[i]) + sum(count.of(pod.signature) for pod in pods)
            self.overflowed[i] |= amount >= TOO_BIG
            remaining[i] = min(amount, TOO_BIG)
        return remaining

    def _with_other_ports(self) -> list[int]:
        """Return the nodes on which this table may have other used ports than the cluster."""
        return np.flatnonzero(super().count_pods(_CountBelow(self._priority, HostPortCount()))).tolist()

    def _used_ports(self, index: int, node: NodeRow) -> frozenset[HostPort]:  # noqa: ARG002
        """Return the used ports of a node; as in kube-scheduler, a removed pod frees ports that others share."""
        lower = (pod.signature.host_ports for pod in node.pods.values() if pod.priority < self._priority)
        return node.used_ports.difference(*lower)

    def _copy_of(self, index: int, node: NodeRow) -> NodeRow:
        copy = node.copy()
        for pod in node.pods.values():
            if pod.priority < self._priority:
                copy.take(pod.uid)
        for pod in self._nominated.get(index, ()):
            copy.put(pod)
        return copy


class _Amounts(NamedTuple):
    """Amounts of nodes with their added pods, updated as pods are added and removed."""

    of_nodes: Ints
    of_pods: Ints
    view: Ints
    """Read-only view of `of_nodes`."""


class ReprieveTable(TableWithoutLowerPriority):
    """Table without the pods below `priority` to which pods are added: those that stay, and nominated ones.

    The pods from index `nominated_from` on are there from the beginning.
    """

    __slots__ = ("_added", "_amounts", "_on_node", "_pods")

    def __init__(self, state: ColumnSource, priority: int, pods: PotentialVictims, nominated_from: int) -> None:
        super().__init__(state, priority, pods.rows)
        self._pods = pods
        self._on_node = pods.pods >= 0
        self._on_node[:nominated_from] = False
        self._added = [*range(nominated_from, len(pods.pods))]
        """Indexes of the pods that are on some node, and of others that were."""
        self._amounts: dict[PodCount, _Amounts] = {}

    def put(self, i: int) -> None:
        """Add pod `i` of each node."""
        self._added.append(i)
        self._on_node[i] = self._pods.pods[i] >= 0
        for of_nodes, of_pods, _ in self._amounts.values():
            np.add(of_nodes, of_pods[i], out=of_nodes)

    def take(self, i: int, nodes: Mask) -> None:
        """Remove pod `i` of some nodes again."""
        self._on_node[i] &= ~nodes
        for of_nodes, of_pods, _ in self._amounts.values():
            np.subtract(of_nodes, of_pods[i] * nodes, out=of_nodes)  # several times faster than `where`

    def requested(self, resource: str) -> Ints:
        return self._with_added(ResourceRequests(resource), lambda: super(ReprieveTable, self).requested(resource))

    def non_zero_requested(self, resource: str) -> Ints:
        if resource not in (CPU, MEMORY):
            return self.requested(resource)
        return self._with_added(
            _NonZeroRequests(resource), lambda: super(ReprieveTable, self).non_zero_requested(resource)
        )

    @property
    def pod_counts(self) -> Ints:
        return self._with_added(NumberOfPods(), lambda: super(ReprieveTable, self).pod_counts)

    def count_pods(self, count: PodCount) -> Ints:
        return self._with_added(count, lambda: super(ReprieveTable, self).count_pods(count))

    def _with_added(self, count: PodCount, without: Callable[[], Ints]) -> Ints:
        """Return the amounts of `without` plus those of the added pods, as a read-only live view."""
        amounts = self._amounts.get(count)
        if amounts is None:
            of_pods = self._pods.kinds.values(count)[self._pods.pods]
            of_nodes = np.array(without())
            for i in self._added:
                of_nodes += of_pods[i] * self._on_node[i]
            self.overflowed |= of_nodes >= TOO_BIG
            view = of_nodes.view()
            view.flags.writeable = False
            amounts = self._amounts[count] = _Amounts(of_nodes, of_pods, view)
        return amounts.view

    def _with_other_ports(self) -> list[int]:
        added = self._with_added(HostPortCount(), lambda: np.zeros(len(self), np.int64))
        return sorted({*super()._with_other_ports(), *np.flatnonzero(added).tolist()})

    def _used_ports(self, index: int, node: NodeRow) -> frozenset[HostPort]:
        added = self._pods.pods[self._on_node[:, index], index].tolist()
        signatures = self._pods.kinds.signatures
        return super()._used_ports(index, node).union(*(signatures[kind].host_ports for kind in added))

    def _copy_of(self, index: int, node: NodeRow) -> NodeRow:
        copy = super()._copy_of(index, node)
        added = np.flatnonzero(self._on_node[:, index]).tolist()
        pods = self._pods.pods_of(index) if added else ()
        for i in added:
            copy.put(pods[i])
        return copy


@dataclass(frozen=True, slots=True)
class HostPortCount(PodCount):
    """Number of host ports."""

    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return len(signature.host_ports)


@dataclass(frozen=True, slots=True)
class NumberOfPods(PodCount):
    """Number of pods."""

    terminating: bool = True

    def of(self, signature: PodSignature) -> int:  # noqa: ARG002
        return 1


@dataclass(frozen=True, slots=True)
class ResourceRequests(PodCount):
    """Requests of one resource."""

    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return min(signature.requests.effective.get(self.resource, 0), TOO_BIG)


@dataclass(frozen=True, slots=True)
class _NonZeroRequests(PodCount):
    """Requests of cpu or memory, with scoring's defaults for missing requests."""

    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return min(signature.requests.non_zero[self.resource], TOO_BIG)


@dataclass(frozen=True, slots=True)
class _CountBelow(PodCount):
    """Another count, of the pods below a priority."""

    priority: int
    count: PodCount

    @property
    def terminating(self) -> bool:
        return self.count.terminating

    def of(self, signature: PodSignature) -> int:
        return self.count.of(signature) if signature.priority < self.priority else 0


@dataclass(frozen=True, slots=True)
class _Remaining(PodCount):
    """Another count, of the pods that are not below a priority."""

    priority: int
    count: PodCount

    @property
    def terminating(self) -> bool:
        return self.count.terminating

    def of(self, signature: PodSignature) -> int:
        return 0 if signature.priority < self.priority else self.count.of(signature)
