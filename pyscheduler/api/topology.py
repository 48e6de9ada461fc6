"""Pod counts by topology domain, for topology spread and inter-pod affinity.

A plugin defines as a value what it counts (`PodCount`) or which pod attributes it needs (`PodAttributes`). The
scheduler keeps the numbers per node, updates them as pods come and go, and returns them as arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.match import Selector
from pyscheduler.api.pod import Pod, PodSignature

NO_DOMAIN = 0
"""Domain id of nodes without the topology label."""
_MAX_COUNTS = 64
"""Number of counts for which `PodKinds` caches values."""
_MAX_LABELS = 64
"""Maximum number of (namespace, value) pairs of a requirement; above it, the values have no namespaces."""


class PodCount(ABC):
    """Number that an assigned pod counts for. Subclasses are frozen dataclasses; equal values share one cache."""

    __slots__ = ()

    @property
    @abstractmethod
    def terminating(self) -> bool:
        """True if pods with a deletionTimestamp are counted."""

    @property
    def is_large(self) -> bool:
        """True if the value is so large that recomputing the counts is cheaper than caching them."""
        return False

    @property
    def selection(self) -> PodSelection | None:
        """Pods that may count: `of` must return 0 for others. None if any pod may count.

        Only the counts that select a new pod evaluate it, and a new count evaluates only the pods that it selects.
        """
        return None

    @abstractmethod
    def of(self, signature: PodSignature) -> int:
        """Return the number that one pod of the signature counts for. Must depend on `signature` and `self` only."""

    def of_all(self, signatures: Sequence[PodSignature]) -> Sequence[int]:
        """Return `of` for many signatures. Override it if they can be counted faster together."""
        return [self.of(signature) for signature in signatures]


class PodKinds:
    """Numbers for kinds of pods: those of one signature, terminating or not, have the same value in any PodCount."""

    __slots__ = ("__weakref__", "_number_of", "_signatures", "_terminating", "_values", "has_large")

    def __init__(self) -> None:
        self.has_large = False
        """True if a pod was large (`Pod.is_large`), so that these kinds must not be kept after the attempt."""
        self._number_of: dict[tuple[int, bool], int] = {}
        self._signatures: list[PodSignature] = []
        self._terminating: list[bool] = []
        self._values: dict[PodCount, NDArray[np.int64]] = {}

    @property
    def signatures(self) -> Sequence[PodSignature]:
        """Signature of each kind, by number."""
        return self._signatures

    def number(self, pod: Pod) -> int:
        """Return the number of the pod's kind, which gets the next one if it is new."""
        key = (pod.signature.id, pod.deleting)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._signatures)
            self._signatures.append(pod.signature)
            self._terminating.append(pod.deleting)
            self.has_large |= pod.is_large
        return number

    def values(self, count: PodCount) -> NDArray[np.int64]:
        """Return the number that a pod of each kind counts for, and 0 at the end: the value of kind -1, no pod."""
        values, n = self._values.get(count), len(self._signatures)
        if values is None or len(values) <= n:
            known = 0 if values is None else len(values) - 1
            counted = [known + i for i, gone in enumerate(self._terminating[known:]) if count.terminating or not gone]
            grown = np.zeros(n + 1, np.int64)
            if values is not None:
                grown[:known] = values[:known]
            grown[counted] = count.of_all([self._signatures[i] for i in counted])
            if len(self._values) >= _MAX_COUNTS:
                self._values.clear()
            values = self._values[count] = grown
        return values


class PodAttributes(ABC):
    """Attributes of pods that are counted, such as anti-affinity terms. Hashable by value like a PodCount."""

    __slots__ = ()

    @abstractmethod
    def of(self, signature: PodSignature) -> Collection[Hashable]:
        """Return the attributes of a pod of the signature; most have none. Must depend on the signature only."""


@dataclass(frozen=True, slots=True)
class PodLabel(PodAttributes):
    """Value of one label of pods, as it is and with the namespace as (namespace, value)."""

    key: str

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        value = signature.labels.get(self.key)
        return () if value is None else (value, (signature.namespace, value))


class PodRequirement(NamedTuple):
    """Requirement of pods with at least one of some attributes."""

    attributes: PodAttributes
    values: Collection[Hashable]


PodSelection = Sequence[Sequence[PodRequirement]]
"""Alternatives; an alternative selects the pods that meet all of its requirements."""


def required_labels(selector: Selector, namespaces: Collection[str] | None) -> Sequence[PodRequirement]:
    """Return the labels that a selector requires (operator In), in these namespaces, None for any; () without any.

    Example: `selection` of a count of one namespace's pods is `[required_labels(self.selector, (self.namespace,))]`.
    """
    found = []
    for requirement in selector.requirements:
        if requirement.operator == "In":
            values: set[Hashable] = {*requirement.values}
            if namespaces is not None and len(namespaces) * len(values) <= _MAX_LABELS:
                values = {(namespace, value) for namespace in namespaces for value in values}
            found.append(PodRequirement(PodLabel(requirement.key), values))
    return found


class AttributeCounts(Counter[Any]):
    """Number of pods by attribute, as a read-only live view."""

    version = 0
    """Number that changes whenever an attribute appears or disappears, not with each count."""


class NodeEquivalence(NamedTuple):
    """Topologies and pod counts that a plugin's results depend on: nodes that agree in all of them are equivalent.

    The plugin's vectorised method then runs on a table with one entry for each class of equivalent nodes. The table has
    only these topologies (`topology`, `matches_requirement`) and counts (`count_pods`); the rest is a LookupError.
    """

    topologies: tuple[str, ...] = ()
    """Topology keys. Nodes of one domain agree, and so do nodes without the label."""
    counts: tuple[PodCount, ...] = ()
    """Pod counts. Nodes agree if the counts of their own pods are equal."""


class Domains:
    """Topology domain of each node of a table: values of a label as small integers.

    Valid until a node is added, removed or gets another domain: `ids` may be a view of a column that changes then.
    Compared by identity; sums by domain are cached per `source`.
    """

    __slots__ = ("_non_empty_count", "_sizes", "_unlabelled", "ids", "known")

    def __init__(self, ids: NDArray[np.intp], known: Mapping[str | None, int]) -> None:
        self.ids = ids
        """Domain id per node, NO_DOMAIN (0) without the label."""
        self.known = known
        """Id of each label value. May include values that no node has any more."""
        self._unlabelled: NDArray[np.intp] | None = None
        self._sizes: NDArray[np.int64] | None = None
        self._non_empty_count = -1

    @property
    def source(self) -> Domains:
        """The domains by which sums are cached: updated as nodes are added and removed, or these domains themselves."""
        return self

    @property
    def size(self) -> int:
        """Upper bound of the ids, exclusive."""
        return len(self.known)

    @property
    def unlabelled(self) -> NDArray[np.intp]:
        """Indices of the nodes without the label; usually empty."""
        if self._unlabelled is None:
            has_none = self._sizes is not None and not self._sizes[NO_DOMAIN]
            self._unlabelled = np.zeros(0, np.intp) if has_none else np.flatnonzero(self.ids == NO_DOMAIN)
        return self._unlabelled

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of nodes by domain id, at NO_DOMAIN of those without the label."""
        if self._sizes is None:
            self._sizes = np.bincount(self.ids, minlength=self.size)
        return self._sizes

    @property
    def non_empty_count(self) -> int:
        """Number of domains with at least one node of the table."""
        if self._non_empty_count < 0:
            self._non_empty_count = int(np.count_nonzero(self.sizes[NO_DOMAIN + 1 :]))
        return self._non_empty_count

    @property
    def is_one_per_node(self) -> bool:
        """True if each node of the table has a domain of its own."""
        return self.non_empty_count == len(self.ids)

    def id_of(self, value: str | None) -> int:
        """Return the id of a label value, or NO_DOMAIN if no node has it."""
        return self.known.get(value, NO_DOMAIN)

    def of_nodes(self, nodes: NDArray[np.intp]) -> Domains:
        """Return the domains of some of the nodes, with the same ids."""
        domains = Domains(self.ids.take(nodes), self.known)
        if not len(self.unlabelled):
            domains._unlabelled = self._unlabelled
        return domains

    def sum(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums of per-node amounts by domain id; 0 for NO_DOMAIN. Exact up to 2**53."""
        sums = np.bincount(self.ids, weights=amounts, minlength=self.size).astype(np.int64)
        sums[NO_DOMAIN] = 0
        return sums


class DomainSums(Protocol):
    """Sums of a PodCount by domain, as a live read-only view: both follow the pods that are placed later."""

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Sums by domain id, 0 at NO_DOMAIN. Those of many domains take long to compute."""
        ...

    @property
    def total(self) -> int:
        """Sum over all domains."""
        ...

    def at(self, domain: int) -> int:
        """Return the sum of one domain id."""
        ...

    @property
    def nonzero_count(self) -> int:
        """Number of domains with a sum that is not 0."""
        ...
