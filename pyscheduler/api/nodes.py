"""Nodes as plugins see them: one at a time (`NodeInfo`) or all at once in columns (`NodeTable`).

Both are read-only views of the same live state. The plain form of a plugin reads a NodeInfo; the NumPy form reads a
NodeTable, whose columns are arrays with one entry per node. Amounts are int64: milli-cores for cpu, units otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.match import NodeTerm, Requirement, Selector
from pyscheduler.api.objects import NodeObject, Taint
from pyscheduler.api.pod import HostPort, Pod
from pyscheduler.api.topology import AttributeCounts, Domains, DomainSums, PodAttributes, PodCount

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Images = Mapping[str, int]
"""Image name to its size in bytes, for the images that a node reports."""
T = TypeVar("T")


class NodeInfo(ABC):
    """One node and what runs on it (kube-scheduler's NodeInfo)."""

    name: str
    node: NodeObject
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]
    """status.allocatable, without `pods`."""
    allowed_pods: int
    """status.allocatable.pods."""
    requested: Mapping[str, int]
    """Sum of the pods' real requests."""
    non_zero_requested: Mapping[str, int]
    """Sum of the pods' cpu and memory requests, defaults counted for containers that state none."""
    images: Images
    pods: Mapping[str, Pod]
    """The pods on the node by UID, those being bound included."""

    @property
    @abstractmethod
    def used_ports(self) -> frozenset[HostPort]:
        """The host ports taken by the node's pods."""


class NodeTable(ABC):
    """Many nodes in columns; every array has one entry per node of the table, in the same order."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[NodeInfo]:
        """The nodes one by one, in column order."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]: ...

    @property
    @abstractmethod
    def total(self) -> int:
        """How many nodes the whole cluster has, whatever part of it this table shows."""

    @property
    @abstractmethod
    def all_nodes(self) -> NodeTable:
        """The table of all nodes of the cluster."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Another number whenever any node object of the cluster has changed, or a node came or went."""

    @property
    @abstractmethod
    def label_keys(self) -> Collection[str]:
        """The keys of all labels that nodes of the whole cluster have; live."""

    @abstractmethod
    def allocatable(self, resource: str) -> Ints:
        """status.allocatable of the resource; 0 where a node does not have it."""

    @abstractmethod
    def requested(self, resource: str) -> Ints:
        """Sum of the real requests of the pods on each node."""

    @abstractmethod
    def non_zero_requested(self, resource: str) -> Ints:
        """The same with defaults for cpu and memory; equal to `requested` for every other resource."""

    @property
    @abstractmethod
    def allowed_pods(self) -> Ints: ...

    @property
    @abstractmethod
    def pod_counts(self) -> Ints: ...

    @property
    @abstractmethod
    def unschedulable(self) -> Mask:
        """spec.unschedulable."""

    @abstractmethod
    def named(self, names: frozenset[str]) -> Mask:
        """Which nodes have one of these names."""

    @abstractmethod
    def matches_requirement(self, requirement: Requirement) -> Mask:
        """Which nodes' labels satisfy the requirement; evaluated once per distinct value."""

    @abstractmethod
    def by_taints(self, answer: Callable[[tuple[Taint, ...]], int]) -> Ints:
        """A number per node from its taints; `answer` is called once per distinct set of taints."""

    @abstractmethod
    def by_images(self, answer: Callable[[Images], int]) -> Ints:
        """A number per node from its images; `answer` is called once per distinct set of images."""

    @abstractmethod
    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        """A number per node from its used host ports; `answer` is called once per distinct set."""

    @abstractmethod
    def nodes_with_image(self, image: str) -> int:
        """How many nodes of the whole cluster report the image."""

    @abstractmethod
    def image_size(self, image: str) -> int:
        """Bytes of the image as the first node that has it told them; 0 if no node has it."""

    @abstractmethod
    def topology(self, key: str) -> Domains:
        """Which domain of a topology each node is in: the values of a label as small ints."""

    @abstractmethod
    def count_pods(self, count: PodCount) -> Ints:
        """Per node the sum of what `count` says of its pods, those being bound included; live."""

    @abstractmethod
    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        """The same for the pods of the whole cluster, added up by domain; live.

        `domains` are those of all nodes: from `all_nodes.topology`, or made from them and kept while no node changes.
        """

    @abstractmethod
    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        """The distinct things that pods on nodes of the whole cluster carry, each with the number of pods; live."""

    def matches(self, selector: Selector) -> Mask:
        """Which nodes' labels satisfy every requirement."""
        mask = np.ones(len(self), np.bool_)
        for requirement in selector.requirements:
            mask &= self.matches_requirement(requirement)
        return mask

    def matches_term(self, term: NodeTerm) -> Mask:
        """Which nodes satisfy a nodeSelectorTerm; an empty term matches none."""
        if not term.labels and not term.names:
            return np.zeros(len(self), np.bool_)
        mask = self.matches(Selector(term.labels))
        for requirement in term.names:
            mask &= self._matches_name(requirement)
        return mask

    def _matches_name(self, requirement: Requirement) -> Mask:
        match requirement.operator:
            case "In":
                return self.named(frozenset(requirement.values))
            case "NotIn":
                return ~self.named(frozenset(requirement.values))
        return np.fromiter(map(requirement.matches, self.names), np.bool_, len(self))
