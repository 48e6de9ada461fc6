"""Nodes for plugins: single ones (`NodeInfo`) and all of them in columns (`NodeTable`).

Both are read-only views of one live state. The plain form of a plugin reads a NodeInfo; the NumPy form reads a
NodeTable of arrays with one entry per node. Amounts are int64: milli-cores for cpu, bytes or counts otherwise.
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
"""Array of int64 with one entry per node."""
Mask = NDArray[np.bool_]
"""Array of bool with one entry per node."""
Images = Mapping[str, int]
"""Sizes in bytes of the images that a node reports, by image name."""
T = TypeVar("T")


class NodeInfo(ABC):
    """One node with its pods (kube-scheduler's NodeInfo)."""

    name: str
    node: NodeObject
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    """spec.unschedulable."""
    allocatable: Mapping[str, int]
    """status.allocatable without `pods`, by resource name."""
    allowed_pods: int
    """status.allocatable.pods."""
    requested: Mapping[str, int]
    """Sum of the requests of the node's pods, by resource name (kube-scheduler's NodeInfo.Requested)."""
    non_zero_requested: Mapping[str, int]
    """Sum of the pods' cpu and memory requests, containers without one counting with a default (NonZeroRequested)."""
    images: Images
    pods: Mapping[str, Pod]
    """Pods on the node by UID, including assumed ones."""

    @property
    @abstractmethod
    def used_ports(self) -> frozenset[HostPort]:
        """Host ports that the node's pods use."""


class NodeTable(ABC):
    """Nodes in columns. Every array has one entry per node of the table, in one order."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of nodes in the table."""

    @abstractmethod
    def __iter__(self) -> Iterator[NodeInfo]:
        """Iterate over the nodes in column order."""

    @abstractmethod
    def __getitem__(self, i: int) -> NodeInfo:
        """Return node `i`. IndexError if there is none."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Names of the nodes."""

    @property
    @abstractmethod
    def positions(self) -> NDArray[np.intp] | slice:
        """Position of each node in `all_nodes`, as an index of an array with one entry for each node there."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of nodes in the cluster, also if this table holds a part of them."""

    @property
    @abstractmethod
    def all_nodes(self) -> NodeTable:
        """Table of all nodes of the cluster."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Number that changes whenever a node of the cluster is added, updated or deleted."""

    @property
    @abstractmethod
    def generations(self) -> Ints:
        """Number per node that changes with the node object and its pods (NodeInfo.Generation). All are different."""

    @property
    @abstractmethod
    def label_keys(self) -> Collection[str]:
        """Label keys of all nodes of the cluster, as a live view."""

    @abstractmethod
    def allocatable(self, resource: str) -> Ints:
        """Return status.allocatable of the resource per node; 0 where a node does not have it."""

    @abstractmethod
    def requested(self, resource: str) -> Ints:
        """Return the sum of the requests of the pods on each node."""

    @abstractmethod
    def non_zero_requested(self, resource: str) -> Ints:
        """Return `requested` plus the defaults of containers without a request for cpu or memory."""

    @property
    @abstractmethod
    def allowed_pods(self) -> Ints:
        """status.allocatable.pods per node."""

    @property
    @abstractmethod
    def pod_counts(self) -> Ints:
        """Number of pods per node, including assumed ones."""

    @property
    @abstractmethod
    def unschedulable(self) -> Mask:
        """spec.unschedulable per node."""

    @abstractmethod
    def named(self, names: frozenset[str]) -> Mask:
        """Return a mask of the nodes that have one of these names."""

    @abstractmethod
    def matches_requirement(self, requirement: Requirement) -> Mask:
        """Return a mask of the nodes that match the requirement, which is evaluated once per distinct label value."""

    @abstractmethod
    def by_taints(self, answer: Callable[[tuple[Taint, ...]], int]) -> Ints:
        """Return a number per node that depends on its taints. `answer` is called once per distinct set of taints."""

    @abstractmethod
    def has_image(self, image: str) -> Mask:
        """Return a mask of the nodes that report the image."""

    @abstractmethod
    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        """Return a number per node that depends on its used host ports. `answer` is called once per distinct set."""

    @abstractmethod
    def nodes_with_image(self, image: str) -> int:
        """Return the number of nodes of the cluster that report the image."""

    @property
    @abstractmethod
    def image_names_version(self) -> int:
        """Version of the set of images that nodes report: incremented when a name is added or removed."""

    @abstractmethod
    def image_size(self, image: str) -> int:
        """Return the size of the image in bytes, as the first node that has it reports it; 0 if no node has it."""

    @abstractmethod
    def topology(self, key: str) -> Domains:
        """Return the topology domain of each node: values of a label as small integers."""

    @abstractmethod
    def count_pods(self, count: PodCount) -> Ints:
        """Return the sum of `count` over the pods of each node, including assumed pods, as a live view."""

    @abstractmethod
    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        """Return the sum of `count` over all pods of the cluster by topology domain, as a live view.

        `domains` covers all nodes: it is `all_nodes.topology(...)`, or derived from it and reused until a node changes.
        """

    @abstractmethod
    def attribute_counts(self, attributes: PodAttributes) -> AttributeCounts:
        """Return the attributes of the cluster's assigned pods, each with its number of pods, as a live view."""

    def matches(self, selector: Selector) -> Mask:
        """Return a mask of the nodes with labels that satisfy every requirement."""
        mask = np.ones(len(self), np.bool_)
        for requirement in selector.requirements:
            mask &= self.matches_requirement(requirement)
        return mask

    def matches_term(self, term: NodeTerm) -> Mask:
        """Return a mask of the nodes that satisfy a nodeSelectorTerm. An empty term matches none."""
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
