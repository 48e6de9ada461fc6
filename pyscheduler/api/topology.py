"""Counting pods by topology: what spreading and pod affinity are computed from.

A plugin says as a value *what* it counts (`PodCount`) or which things that pods carry it wants listed (`PodAttributes`). The
scheduler keeps the numbers per node, brings them up to date as pods come and go, and gives them out as arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.pod import PodSignature

NO_DOMAIN = 0
"""The domain of a node that lacks the label."""


class PodCount(ABC):
    """How much a placed pod counts for. Equal values share one kept column, so subclasses are frozen dataclasses."""

    __slots__ = ()

    @property
    @abstractmethod
    def terminating(self) -> bool:
        """Whether pods that are being deleted count."""

    @property
    def is_large(self) -> bool:
        """Whether it holds so much that it is better counted anew each time than kept."""
        return False

    @abstractmethod
    def of(self, signature: PodSignature) -> int:
        """What one pod of the signature counts for. Must depend on the signature and on this value alone."""

    def of_all(self, shapes: Sequence[PodSignature]) -> Sequence[int]:
        """`of` for each of many shapes; overridden where counting them together takes less time."""
        return [self.of(signature) for signature in shapes]


class PodAttributes(ABC):
    """Things that pods carry, such as the terms of their anti-affinity; hashable by value like a PodCount."""

    __slots__ = ()

    @abstractmethod
    def of(self, signature: PodSignature) -> Collection[Hashable]:
        """The things that a pod of the signature carries; none for most. Must depend on the signature alone."""


class AttributeCounts(Counter[Any]):
    """The distinct things that pods carry, each with how many of them do; live, to be read only."""

    version = 0
    """Another number whenever a thing has come to be carried or none carries it any more."""


class NodeEquivalence(NamedTuple):
    """What tells nodes apart for a plugin: those are alike that are so by each of these."""

    topologies: tuple[str, ...] = ()
    """Topology keys: nodes in one domain are alike, and so are those that lack the label."""
    counts: tuple[PodCount, ...] = ()
    """Nodes are alike whose own pods count for the same."""


class Domains:
    """Which domain of a topology each node of a table is in: a label's values as small ints.

    Good until a node object changes. Two of them are never equal: what is counted by domain is kept for the object.
    """

    __slots__ = ("_non_empty_count", "_unlabelled", "ids", "known")

    def __init__(self, ids: NDArray[np.intp], known: Mapping[str | None, int]) -> None:
        self.ids = ids
        """Per node: the domain it is in, NO_DOMAIN (0) where it lacks the label."""
        self.known = known
        """The id of each value. Values that no node has any more may be among them."""
        self._unlabelled: NDArray[np.intp] | None = None
        self._non_empty_count = -1

    @property
    def size(self) -> int:
        """All ids are below this."""
        return len(self.known)

    @property
    def unlabelled(self) -> NDArray[np.intp]:
        """The places of the nodes that lack the label; mostly none."""
        if self._unlabelled is None:
            self._unlabelled = np.flatnonzero(self.ids == NO_DOMAIN)
        return self._unlabelled

    @property
    def non_empty_count(self) -> int:
        """How many domains have a node of the table."""
        if self._non_empty_count < 0:
            self._non_empty_count = int(np.count_nonzero(np.bincount(self.ids)[NO_DOMAIN + 1 :]))
        return self._non_empty_count

    @property
    def is_one_per_node(self) -> bool:
        """Whether each node of the table has a domain to itself."""
        return self.non_empty_count == len(self.ids)

    def id_of(self, value: str | None) -> int:
        """The id of a label value; NO_DOMAIN if no node has it."""
        return self.known.get(value, NO_DOMAIN)

    def sum(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Amounts per node added up by domain; the place of NO_DOMAIN holds 0. Exact up to 2**53."""
        sums = np.bincount(self.ids, weights=amounts, minlength=self.size).astype(np.int64)
        sums[NO_DOMAIN] = 0
        return sums


class DomainSums(NamedTuple):
    """What pods count for, added up by domain: `numbers` by id, 0 at NO_DOMAIN, to be read only; and all together."""

    numbers: NDArray[np.int64]
    total: int
