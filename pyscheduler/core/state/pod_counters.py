"""Counts of placed pods per node, per domain and per attribute, kept current by the pods that they count.

Placed pods form sets of one signature (`PlacedPodSet`). A counter evaluates its plugin's definition once for each set
that it may count. From then on `PlacedPods.changed` adds every pod that comes or goes to the counters that count its
set: a pod that none counts costs nothing, and a read costs only the sets that are new since the last one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints
from pyscheduler.api.pod import PodSignature
from pyscheduler.api.topology import NO_DOMAIN, AttributeCounts, Domains, DomainSums, PodAttributes, PodCount
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.sparse_column import SparseColumn

FEW = 8
"""Number of nodes up to which a loop is faster than arrays."""
CHANGES = 1 << 8
"""Minimum number of changes that a counter keeps for its readers; to read all rows is as fast as more."""
_OBJECT_BYTES = 2048
_CHANGE_BYTES = 64
"""Memory of a counter with its entries in the index, and of a change."""
_MAX_SUMS = 8
"""Maximum number of Domains by which one count is summed at a time."""
V = TypeVar("V")


class InRows(NamedTuple):
    """Rows of a set's nodes and the number of its pods on each, at one version of the set."""

    version: int
    rows: NDArray[np.intp]
    pods: NDArray[np.int64]


@dataclass(slots=True, eq=False)
class PlacedPodSet:
    """Placed pods of one signature, either terminating or not: their number by node."""

    signature: PodSignature
    deleting: bool
    nodes: dict[NodeRow, int] = field(default_factory=dict)
    counters: dict[PodCounter[Any], Any] = field(default_factory=dict)
    """The counters that count these pods, each with the value of one pod."""
    unevaluated_by: dict[PodCounter[Any], None] = field(default_factory=dict)
    """The counters that may count these pods and have not evaluated them yet."""
    in_rows: InRows | None = None
    """Cached arrays of `nodes`."""


class PodSets(Protocol):
    """The sets of placed pods, as counters read them."""

    def in_rows(self, pods: PlacedPodSet) -> InRows:
        """Return the nodes of a set as arrays."""
        ...


class PodCounter(ABC, Generic[V]):
    """A count of placed pods; V is what one pod counts for."""

    __slots__ = ("counted_sets", "is_kept", "new_sets")

    def __init__(self) -> None:
        self.new_sets: dict[PlacedPodSet, None] = {}
        """Sets that may count and are not evaluated yet."""
        self.counted_sets: dict[PlacedPodSet, None] = {}
        """Sets that count."""
        self.is_kept = True
        """False if it does not follow the pods any more."""

    def count_sets(self, placed: PodSets, sets: Collection[PlacedPodSet], keep: bool = True) -> Sequence[PlacedPodSet]:
        """Count these sets; return those of them that count.

        Without `keep`, the counter is for one use and does not follow the pods.
        """
        counted = [*self._evaluate(sets)]
        for pods, value in counted:
            if keep:
                pods.counters[self], self.counted_sets[pods] = value, None
            self._add_set(placed, pods, value)
        return [pods for pods, _ in counted]

    def update(self, placed: PodSets) -> Sequence[PlacedPodSet]:
        """Count the new sets; return those of them that count.

        If the plugin raises, none is counted, and the next update evaluates them again.
        """
        counted = self.count_sets(placed, [*self.new_sets])
        self.clear_new_sets()
        return counted

    def clear_new_sets(self) -> None:
        """Remove all new sets."""
        for pods in self.new_sets:
            del pods.unevaluated_by[self]
        self.new_sets = {}

    @abstractmethod
    def add(self, row: int, pods: int, value: V) -> None:
        """Add pods in a row, or remove them if negative."""

    def move(self, source: int, target: int) -> None:
        """Follow the move of the last node to another row, which has no pods any more."""

    @abstractmethod
    def _evaluate(self, sets: Collection[PlacedPodSet]) -> Iterable[tuple[PlacedPodSet, V]]:
        """Yield the sets that count, each with the value of one pod."""

    @abstractmethod
    def _add_set(self, placed: PodSets, pods: PlacedPodSet, value: V) -> None:
        """Add all pods of a set."""


class RowCounter(PodCounter[int]):
    """Values of one PodCount per row, and their sums by domain."""

    __slots__ = ("_changes", "_sums", "accounted_bytes", "cells", "count", "mark")

    def __init__(self, count: PodCount, n: int) -> None:
        super().__init__()
        self.count = count
        self.cells = SparseColumn(n)
        """Number of each row: most counts are of the few pods of one workload."""
        self._changes: list[tuple[int, int]] = []
        """Last changes as (row, amount)."""
        self.mark = 0
        """Position after the newest change."""
        self._sums: dict[int, SumsByDomain] = {}
        self.accounted_bytes = 0
        """Memory that PlacedPods has added to that of all counters."""

    @property
    def bytes(self) -> int:
        """Memory of the numbers, their changes and sums."""
        own = _OBJECT_BYTES + _CHANGE_BYTES * len(self._changes) + self.cells.nbytes
        return own + sum(sums.bytes for sums in self._sums.values())

    def move(self, source: int, target: int) -> None:
        # A node keeps its domain, so the sums stay.
        amount = self.cells.item(source)
        self._add(source, -amount)
        self._add(target, amount)

    def add(self, row: int, pods: int, value: int) -> None:
        amount = pods * value
        self._add(row, amount)
        for sums in self._sums.values():
            sums.add(row, amount)

    def _add(self, row: int, amount: int) -> None:
        changes = self._changes
        self.cells.add(row, amount)
        changes.append((row, amount))
        self.mark += 1
        if len(changes) > 2 * CHANGES:
            del changes[:CHANGES]

    def since(self, mark: int) -> list[tuple[int, int]] | None:
        """Return the changes after `mark` as (row, amount); None if some of them were dropped."""
        start = len(self._changes) - (self.mark - mark)
        return None if start < 0 else self._changes[start:]

    def kept_sums(self, source: Domains) -> DomainSums | None:
        """Return the sums by these domains, the `source` of others; None if they are not kept yet."""
        return self._sums.get(id(source))

    def add_sums(self, source: Domains) -> DomainSums:
        """Return new sums by these domains, which may displace others."""
        # Domains of another number of nodes are not updated any more, and each holds a number per node.
        n = len(source.ids)
        self._sums = {key: each for key, each in self._sums.items() if len(each.domains.ids) == n}
        while len(self._sums) >= _MAX_SUMS:
            del self._sums[next(iter(self._sums))]
        sums = self._sums[id(source)] = SumsByDomain(self, source)
        return sums

    def _evaluate(self, sets: Collection[PlacedPodSet]) -> Iterator[tuple[PlacedPodSet, int]]:
        if not self.count.terminating:
            sets = [pods for pods in sets if not pods.deleting]
        if len(sets) == 1:  # a pod with labels of its own
            (only,) = sets
            (value,) = self.count.of_all([only.signature])
            if value:
                yield only, value
            return
        signatures = list({pods.signature.id: pods.signature for pods in sets}.values())
        values = dict(zip((each.id for each in signatures), self.count.of_all(signatures), strict=True))
        for pods in sets:
            value = values[pods.signature.id]
            if value:
                yield pods, value

    def _add_set(self, placed: PodSets, pods: PlacedPodSet, value: int) -> None:
        if len(pods.nodes) <= FEW:
            for node, number in pods.nodes.items():
                self.add(node.row, number, value)
            return
        _, rows, numbers = placed.in_rows(pods)
        self.cells.add_all(rows, value * numbers)
        self._drop_changes()

    def _drop_changes(self) -> None:
        self.mark += 1  # so that changes after an earlier mark are incomplete
        self._changes.clear()
        for sums in self._sums.values():
            sums.invalidate()


class SumsByDomain:
    """Sums of a row counter by domain. The reference to `domains` keeps its `id`, the cache key, unique."""

    __slots__ = ("_cells", "_counter", "_total", "domains")

    def __init__(self, counter: RowCounter, domains: Domains) -> None:
        self.domains = domains
        self._counter = counter
        self._cells: SparseColumn | None = None
        """Sums by domain id, 0 at NO_DOMAIN; None until they are read."""
        self._total: int | None = None
        """Sum over all domains; None until it is read."""

    @property
    def bytes(self) -> int:
        """Memory of the sums."""
        return 0 if self._cells is None else self._cells.nbytes

    @property
    def total(self) -> int:
        """Current sum over all domains."""
        if self._total is None:
            self._total = int(self._amounts()[1].sum())
        return self._total

    @property
    def numbers(self) -> Ints:
        """Current sum of each domain."""
        size, cells = self.domains.size, self._summed()
        cells.fit(size)
        numbers = cells.array()
        return numbers if len(numbers) == size else numbers[:size]

    def at(self, domain: int) -> int:
        """Return the current sum of one domain."""
        return self._summed().item(domain)

    @property
    def nonzero_count(self) -> int:
        """Current number of domains with a sum that is not 0."""
        return self._summed().nonzero_count

    def _summed(self) -> SparseColumn:
        if self._cells is None:
            self._cells = SparseColumn(self.domains.size)
            self._cells.add_all(*self._amounts())
        return self._cells

    def _amounts(self) -> tuple[NDArray[np.intp], Ints]:
        """Return the domain of each row that is not 0, and its number, except those without a domain."""
        ids = self.domains.ids
        rows, numbers = self._counter.cells.nonzero(len(ids))
        domains = ids.take(rows)
        return domains[domains != NO_DOMAIN], numbers[domains != NO_DOMAIN]

    def add(self, row: int, amount: int) -> None:
        """Add an amount in a row, which may be that of a node added since."""
        ids = self.domains.ids
        domain = ids.item(row) if row < ids.size else NO_DOMAIN
        if domain != NO_DOMAIN:
            if self._total is not None:
                self._total += amount
            if self._cells is not None:
                self._cells.add(domain, amount)

    def invalidate(self) -> None:
        """Drop the sums, because numbers of many rows have changed."""
        self._cells = self._total = None


class AttributeCounter(PodCounter[Collection[Hashable]]):
    """Number of placed pods by value of one PodAttributes."""

    __slots__ = ("_attributes", "counts")

    def __init__(self, attributes: PodAttributes) -> None:
        super().__init__()
        self._attributes = attributes
        self.counts = AttributeCounts()

    def add(self, row: int, pods: int, value: Collection[Hashable]) -> None:  # noqa: ARG002
        counts = self.counts
        for attribute in value:
            before = counts[attribute]
            if before + pods:
                counts[attribute] = before + pods
            else:
                del counts[attribute]
            counts.version += not before or not before + pods

    def _evaluate(self, sets: Collection[PlacedPodSet]) -> Iterator[tuple[PlacedPodSet, Collection[Hashable]]]:
        for pods in sets:
            values = tuple(self._attributes.of(pods.signature))
            if values:
                yield pods, values

    def _add_set(self, placed: PodSets, pods: PlacedPodSet, value: Collection[Hashable]) -> None:  # noqa: ARG002
        self.add(0, sum(pods.nodes.values()), value)
