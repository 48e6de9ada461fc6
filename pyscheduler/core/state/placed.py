"""Placed pods by signature, and the counts per node or domain that plugins read.

Additions and removals of pods are written to a journal. A cached count is updated from the journal when it is next
read, so unused counts cost nothing; one that is too far behind is recomputed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.topology import NO_DOMAIN, AttributeCounts, Domains, DomainSums, PodAttributes, PodCount
from pyscheduler.core.state.columns import grown
from pyscheduler.core.state.node import NodeRow

JOURNAL = 1 << 13
"""Minimum number of journal entries kept; to apply more of them would cost as much as to recompute a count."""
KEEP_BYTES = 64 * 1024 * 1024
"""Memory limit of the cached counts, above which the least recently used are dropped."""
KEEP_COUNTS = 16
_UNORDERED = KEEP_COUNTS // 2
"""Number of cached counts up to which their order is not kept: none is dropped soon, and hashing a key takes long."""
MOST_COUNTS = 1024
"""Maximum number of cached counts, however small: each also caches values by signature, and must be updated when a row
moves."""
KEEP_FACETS = 64
FEW = 8
"""Number of nodes up to which a loop is faster than arrays."""
_MAX_SIGNATURES = 1024
"""Maximum number of signatures for which a count caches its value."""


@dataclass(slots=True, eq=False)
class PlacedPodSet:
    """Placed pods of one signature, either terminating or not: their number by node."""

    signature: PodSignature
    deleting: bool
    nodes: dict[NodeRow, int] = field(default_factory=dict)
    in_rows: InRows | None = None
    """Cached arrays of `nodes`."""


class InRows(NamedTuple):
    """Rows of a group's nodes and the number of its pods on each, at one version of `PlacedPods`."""

    version: tuple[int, int]
    rows: NDArray[np.intp]
    pods: NDArray[np.int64]


class PlacedPods:
    """Pods on existing nodes: `changed` records additions and removals; the `count…` methods are for reading."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, bool], PlacedPodSet] = {}
        self._journal: list[tuple[int, PlacedPodSet, int]] = []
        self._base = 0
        self._groups_of: Counter[int] = Counter()
        """Number of groups by template id."""
        self.templates_version = 0
        """Version that changes with the set of templates that have placed pods."""
        self._counts: OrderedDict[PodCount, _RowCounter] = OrderedDict()
        self._sums: OrderedDict[tuple[PodCount, int], _DomainCounter] = OrderedDict()
        self._facets: OrderedDict[PodAttributes, _ValueCounter] = OrderedDict()
        self._moves = 0
        """Number of rows moved so far."""

    # -- changes ---------------------------------------------------------------------------------------------------

    def changed(self, node: NodeRow, pod: Pod, sign: int) -> None:
        """Record a pod that was added to an existing node (1) or removed from it (-1)."""
        key = (pod.signature.id, pod.deleting)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PlacedPodSet(pod.signature, pod.deleting)
            self._count_groups(pod.signature.template.id, 1)
        pods = group.nodes.get(node, 0) + sign
        if pods:
            group.nodes[node] = pods
        else:
            del group.nodes[node]
            if not group.nodes:
                del self._groups[key]
                self._count_groups(pod.signature.template.id, -1)
        if not self._counts and not self._facets and not self._sums:
            self._base += 1  # there are no cached counts to update
            return
        if pod.is_large:
            # An entry would keep megabytes in memory after the pod is gone, so all counts are recomputed instead.
            self._base += len(self._journal) + 1
            self._journal.clear()
            return
        self._journal.append((node.row, group, sign))
        if len(self._journal) > 2 * JOURNAL:
            del self._journal[:JOURNAL]
            self._base += JOURNAL

    def _count_groups(self, template: int, more: int) -> None:
        groups = self._groups_of[template] + more
        if not groups:
            del self._groups_of[template]
            self.templates_version += 1
            return
        if groups == more:
            self.templates_version += 1
        self._groups_of[template] = groups

    def moved(self, source: int, target: int) -> None:
        """Prepare the move of the last row, `source`, to row `target`, which has no pods any more."""
        for count in self._counts.values():
            with suppress(Exception):  # a plugin's exception is raised at its next read, which recomputes the count
                count.catch_up(self)
            count.move(source, target)
        self._moves += 1

    # -- counts for plugins ------------------------------------------------------------------------------------------

    def count(self, count: PodCount, n: int) -> Ints:
        """Return the current count of each of all `n` nodes, as a live read-only view."""
        counter = self._counts.get(count)
        if counter is None:
            counter = _RowCounter(count, n)
            if not count.is_large:
                self._counts[count] = counter
            while len(self._counts) > _max_counts(8 * n):
                self._counts.popitem(last=False)
        elif len(self._counts) > _UNORDERED:
            self._counts.move_to_end(count)
        counter.fit(n)
        counter.catch_up(self)
        cells = counter.cells[:n]
        cells.flags.writeable = False
        return cells

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        """Return the current count of each domain, as a live read-only view."""
        key = (count, id(domains))
        counter = self._sums.get(key)
        if counter is None:
            counter = _DomainCounter(count, domains)
            if not count.is_large:
                self._sums[key] = counter
            while len(self._sums) > _max_counts(16 * len(domains.ids)):
                self._sums.popitem(last=False)
        elif len(self._sums) > _UNORDERED:
            self._sums.move_to_end(key)
        return counter.now(self)

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        """Return the number of placed pods by attribute value, as a live read-only view."""
        counter = self._facets.get(facet)
        if counter is None:
            counter = self._facets[facet] = _ValueCounter(facet)
            while len(self._facets) > KEEP_FACETS:
                self._facets.popitem(last=False)
        elif len(self._facets) > _UNORDERED:
            self._facets.move_to_end(facet)
        counter.catch_up(self)
        return counter.counts

    # -- journal for counters ------------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """Position after the newest entry of the journal."""
        return self._base + len(self._journal)

    def since(self, mark: int) -> list[tuple[int, PlacedPodSet, int]] | None:
        """Return the entries after `mark` as (row, group, sign); None if some of them were dropped."""
        start = mark - self._base
        return None if start < 0 else self._journal[start:]

    def in_rows(self, group: PlacedPodSet) -> InRows:
        """Return the nodes of a group as arrays, cached since several counts are often recomputed in a row."""
        version = self.mark, self._moves
        arrays, nodes = group.in_rows, group.nodes
        if arrays is None or arrays.version != version:
            rows = np.fromiter([node.row for node in nodes], np.intp, len(nodes))
            pods = np.fromiter(nodes.values(), np.int64, len(nodes))
            arrays = group.in_rows = InRows(version, rows, pods)
        return arrays

    def groups(self) -> Iterator[PlacedPodSet]:
        """Return all groups."""
        return iter(self._groups.values())


def _max_counts(size: int) -> int:
    """Return the maximum number of cached counts of `size` bytes each."""
    return min(MOST_COUNTS, max(KEEP_COUNTS, KEEP_BYTES // max(1, size)))


class _CountPerPod:
    """Value of a PodCount for one pod of a group, cached by signature."""

    __slots__ = ("_cache", "_terminating", "count")

    def __init__(self, count: PodCount) -> None:
        self.count = count
        self._terminating = count.terminating
        self._cache: dict[int, int] = {}

    def of(self, group: PlacedPodSet) -> int:
        if group.deleting and not self._terminating:
            return 0
        signature = group.signature
        value = self._cache.get(signature.id)
        if value is None:
            if len(self._cache) >= _MAX_SIGNATURES:
                self._cache.clear()
            value = self._cache[signature.id] = self.count.of(signature)
        return value

    def of_all(self, groups: Iterable[PlacedPodSet]) -> Iterator[tuple[PlacedPodSet, int]]:
        """Yield the groups with a value that is not 0, each with that value."""
        counted = [group for group in groups if self._terminating or not group.deleting]
        missing = {g.signature.id: g.signature for g in counted if g.signature.id not in self._cache}
        computed = dict(zip(missing, self.count.of_all([*missing.values()]), strict=True)) if missing else {}
        for group in counted:
            value = computed.get(group.signature.id) or self._cache.get(group.signature.id)
            if value:
                yield group, value
        if len(self._cache) + len(computed) <= _MAX_SIGNATURES:
            self._cache |= computed


class _RowCounter:
    """Cached values of one PodCount per row."""

    __slots__ = ("_mark", "_per_pod", "cells")

    def __init__(self, count: PodCount, n: int) -> None:
        self.cells: NDArray[np.int64] = np.zeros(max(n, 1), np.int64)
        self._per_pod = _CountPerPod(count)
        self._mark = -1

    def fit(self, n: int) -> None:
        if n > len(self.cells):
            self.cells = grown(self.cells, max(n, 2 * len(self.cells)))

    def move(self, source: int, target: int) -> None:
        self.fit(source + 1)
        self.cells[target] = self.cells[source]
        self.cells[source] = 0

    def catch_up(self, pods: PlacedPods) -> None:
        mark = pods.mark
        if self._mark == mark:
            return
        entries = pods.since(self._mark) if self._mark >= 0 else None
        self._mark = -1  # if a plugin raises meanwhile, the count is recomputed the next time
        if entries is None:
            self._recompute(pods)
        else:
            self._apply(entries)
        self._mark = mark

    def _apply(self, entries: list[tuple[int, PlacedPodSet, int]]) -> None:
        for row, group, sign in entries:
            value = self._per_pod.of(group)
            if value:
                if row >= len(self.cells):
                    self.fit(row + 1)
                self.cells[row] += sign * value

    def _recompute(self, pods: PlacedPods) -> None:
        self.cells = np.zeros(len(self.cells), np.int64)
        for group, value in self._per_pod.of_all(pods.groups()):
            self._add(pods, group, value)

    def _add(self, pods: PlacedPods, group: PlacedPodSet, value: int) -> None:
        if len(group.nodes) <= FEW:
            for node, number in group.nodes.items():
                self.fit(node.row + 1)
                self.cells[node.row] += value * number
            return
        _, rows, numbers = pods.in_rows(group)
        self.fit(int(rows.max()) + 1)
        self.cells[rows] += value * numbers


class _DomainCounter:
    """Cached values of one PodCount by domain. The reference to `domains` keeps its `id`, the cache key, unique."""

    __slots__ = ("_mark", "_numbers", "_per_pod", "_total", "domains")

    def __init__(self, count: PodCount, domains: Domains) -> None:
        self.domains = domains
        self._per_pod = _CountPerPod(count)
        self._numbers: NDArray[np.int64] = np.zeros(1, np.int64)
        self._total = 0
        self._mark = -1

    def now(self, pods: PlacedPods) -> DomainSums:
        mark = pods.mark
        if self._mark != mark:
            entries = pods.since(self._mark) if self._mark >= 0 else None
            self._mark = -1
            if entries is None:
                self._recompute(pods)
            else:
                self._apply(entries)
            self._mark = mark
        return DomainSums(self._numbers, self._total)

    def _apply(self, entries: list[tuple[int, PlacedPodSet, int]]) -> None:
        ids = self.domains.ids
        for row, group, sign in entries:
            value = self._per_pod.of(group)
            domain = int(ids[row]) if value else NO_DOMAIN
            if domain != NO_DOMAIN:
                self._numbers[domain] += sign * value
                self._total += sign * value

    def _recompute(self, pods: PlacedPods) -> None:
        by_node = _RowCounter(self._per_pod.count, len(self.domains.ids))
        by_node.catch_up(pods)
        self._numbers = self.domains.sum(by_node.cells[: len(self.domains.ids)])
        self._total = int(self._numbers.sum())


class _ValueCounter:
    """Cached number of placed pods by value of one PodAttributes."""

    __slots__ = ("_cache", "_mark", "counts", "facet")

    def __init__(self, facet: PodAttributes) -> None:
        self.facet = facet
        self.counts = AttributeCounts()
        self._cache: dict[int, Collection[Hashable]] = {}
        self._mark = -1

    def catch_up(self, pods: PlacedPods) -> None:
        mark = pods.mark
        if self._mark == mark:
            return
        entries = pods.since(self._mark) if self._mark >= 0 else None
        self._mark = -1
        if entries is None:
            self.counts.clear()
            self.counts.version += 1
            entries = [(0, group, sum(group.nodes.values())) for group in pods.groups()]
        for _, group, pods_of in entries:
            self._add(group, pods_of)
        self._mark = mark

    def _add(self, group: PlacedPodSet, pods: int) -> None:
        for value in self._values(group.signature):
            before = self.counts[value]
            if before + pods:
                self.counts[value] = before + pods
            else:
                del self.counts[value]
            self.counts.version += not before or not before + pods

    def _values(self, signature: PodSignature) -> Collection[Hashable]:
        values = self._cache.get(signature.id)
        if values is None:
            if len(self._cache) >= _MAX_SIGNATURES:
                self._cache.clear()
            values = self._cache[signature.id] = tuple(self.facet.of(signature))
        return values
