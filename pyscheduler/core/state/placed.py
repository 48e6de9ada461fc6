"""Who runs where, by signature, and the counts per node that plugins ask for.

Whatever comes or goes is written in a journal. A kept count reads on from its own mark when it is next asked for, so
counts that nobody needs any more cost nothing; one that has fallen too far behind is counted afresh.
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
"""Entries that the journal keeps at least; to read more of them would cost as much as counting afresh."""
KEEP_BYTES = 64 * 1024 * 1024
"""How much memory the kept counts may take before those that were not asked for the longest go."""
KEEP_COUNTS = 16
MOST_COUNTS = 1024
"""How many counts are kept however little each takes: what it remembers of shapes takes more than its cells, and each
has to be brought up to date when a row moves."""
KEEP_FACETS = 64
FEW = 8
"""Up to so many nodes are counted one by one."""
_REMEMBER = 1024
"""How many shapes a kept count remembers its answer for."""


@dataclass(slots=True, eq=False)
class PlacedPodSet:
    """The placed pods of one signature, those being deleted apart: how many are on each node."""

    signature: PodSignature
    deleting: bool
    nodes: dict[NodeRow, int] = field(default_factory=dict)
    in_rows: InRows | None = None
    """`nodes` as arrays, as of one version of `PlacedPods`."""


class InRows(NamedTuple):
    """The rows of a group's nodes, and how many of its pods each has; as of that version of `PlacedPods`."""

    version: tuple[int, int]
    rows: NDArray[np.intp]
    pods: NDArray[np.int64]


class PlacedPods:
    """The pods on known nodes. `changed` is told of each that comes or goes; reading is `count` and `carried`."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, bool], PlacedPodSet] = {}
        self._journal: list[tuple[int, PlacedPodSet, int]] = []
        self._base = 0
        self._groups_of: Counter[int] = Counter()
        """How many groups there are of each template, by its id; none that is 0."""
        self.templates_version = 0
        """Counts how often the pods of a template have come to be placed, or ceased to be."""
        self._counts: OrderedDict[PodCount, _RowCounter] = OrderedDict()
        self._sums: OrderedDict[tuple[PodCount, int], _DomainCounter] = OrderedDict()
        self._facets: OrderedDict[PodAttributes, _ValueCounter] = OrderedDict()
        self._moves = 0
        """Number of nodes that have changed their row."""

    # -- what happens ----------------------------------------------------------------------------------------------

    def changed(self, node: NodeRow, pod: Pod, sign: int) -> None:
        """A pod came to a known node (1) or left it (-1)."""
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
            self._base += 1  # nobody reads along
            return
        if pod.is_large:
            # An entry would hold on to megabytes long after the pod has gone: whoever reads along counts afresh.
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
        """The node of row `source`, the last one, is about to take the place of `target`, whose pods have left."""
        for count in self._counts.values():
            with suppress(Exception):  # a plugin's bug is told when the plugin next asks, and counts afresh
                count.catch_up(self)
            count.move(source, target)
        self._moves += 1

    # -- what plugins ask --------------------------------------------------------------------------------------------

    def count(self, count: PodCount, n: int) -> Ints:
        """What the pods of each of all `n` nodes count for now; live, to be read only."""
        kept = self._counts.get(count)
        if kept is None:
            kept = _RowCounter(count, n)
            if not count.is_large:
                self._counts[count] = kept
            while len(self._counts) > _most(8 * n):
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(count)
        kept.fit(n)
        kept.catch_up(self)
        cells = kept.cells[:n]
        cells.flags.writeable = False
        return cells

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        """What the pods on all nodes count for now, by domain; live, to be read only."""
        place = (count, id(domains))
        kept = self._sums.get(place)
        if kept is None:
            kept = _DomainCounter(count, domains)
            if not count.is_large:
                self._sums[place] = kept
            while len(self._sums) > _most(16 * len(domains.ids)):
                self._sums.popitem(last=False)
        else:
            self._sums.move_to_end(place)
        return kept.now(self)

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        """The distinct things that placed pods carry, each with how many of them do; live, to be read only."""
        kept = self._facets.get(facet)
        if kept is None:
            kept = self._facets[facet] = _ValueCounter(facet)
            while len(self._facets) > KEEP_FACETS:
                self._facets.popitem(last=False)
        else:
            self._facets.move_to_end(facet)
        kept.catch_up(self)
        return kept.carriers

    # -- for those who read along --------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The place after the newest entry of the journal."""
        return self._base + len(self._journal)

    def since(self, mark: int) -> list[tuple[int, PlacedPodSet, int]] | None:
        """The entries after `mark` as (row, group, sign); None if the journal does not reach back that far."""
        start = mark - self._base
        return None if start < 0 else self._journal[start:]

    def in_rows(self, group: PlacedPodSet) -> InRows:
        """The nodes of a group as arrays: many counts are made afresh one after the other."""
        version = self.mark, self._moves
        found, nodes = group.in_rows, group.nodes
        if found is None or found.version != version:
            rows = np.fromiter([node.row for node in nodes], np.intp, len(nodes))
            pods = np.fromiter(nodes.values(), np.int64, len(nodes))
            found = group.in_rows = InRows(version, rows, pods)
        return found

    def groups(self) -> Iterator[PlacedPodSet]:
        """All groups that have pods."""
        return iter(self._groups.values())


def _most(each: int) -> int:
    """How many counts of so many bytes may be kept."""
    return min(MOST_COUNTS, max(KEEP_COUNTS, KEEP_BYTES // max(1, each)))


class _CountPerPod:
    """What one pod of a group counts for, asked once for each signature."""

    __slots__ = ("_known", "_terminating", "count")

    def __init__(self, count: PodCount) -> None:
        self.count = count
        self._terminating = count.terminating
        self._known: dict[int, int] = {}

    def of(self, group: PlacedPodSet) -> int:
        if group.deleting and not self._terminating:
            return 0
        signature = group.signature
        each = self._known.get(signature.id)
        if each is None:
            if len(self._known) >= _REMEMBER:
                self._known.clear()
            each = self._known[signature.id] = self.count.of(signature)
        return each

    def of_all(self, groups: Iterable[PlacedPodSet]) -> Iterator[tuple[PlacedPodSet, int]]:
        """Groups of pods that count, each with the count of one of its pods."""
        counted = [group for group in groups if self._terminating or not group.deleting]
        unknown = {g.signature.id: g.signature for g in counted if g.signature.id not in self._known}
        found = dict(zip(unknown, self.count.of_all([*unknown.values()]), strict=True)) if unknown else {}
        for group in counted:
            each = found.get(group.signature.id) or self._known.get(group.signature.id)
            if each:
                yield group, each
        if len(self._known) + len(found) <= _REMEMBER:
            self._known |= found


class _RowCounter:
    """One PodCount, kept per row."""

    __slots__ = ("_each", "_mark", "cells")

    def __init__(self, count: PodCount, n: int) -> None:
        self.cells: NDArray[np.int64] = np.zeros(max(n, 1), np.int64)
        self._each = _CountPerPod(count)
        self._mark = -1

    def fit(self, n: int) -> None:
        if n > len(self.cells):
            self.cells = grown(self.cells, max(n, 2 * len(self.cells)))

    def move(self, source: int, target: int) -> None:
        self.fit(source + 1)
        self.cells[target] = self.cells[source]
        self.cells[source] = 0

    def catch_up(self, pods: PlacedPods) -> None:
        if self._mark == pods.mark:
            return
        entries = pods.since(self._mark) if self._mark >= 0 else None
        self._mark = -1  # what is counted in part only, as a plugin has raised, is counted afresh the next time
        if entries is None:
            self._count_afresh(pods)
        else:
            self._follow(entries)
        self._mark = pods.mark

    def _follow(self, entries: list[tuple[int, PlacedPodSet, int]]) -> None:
        for row, group, sign in entries:
            each = self._each.of(group)
            if each:
                self.fit(row + 1)
                self.cells[row] += sign * each

    def _count_afresh(self, pods: PlacedPods) -> None:
        self.cells = np.zeros(len(self.cells), np.int64)
        for group, each in self._each.of_all(pods.groups()):
            self._add(pods, group, each)

    def _add(self, pods: PlacedPods, group: PlacedPodSet, each: int) -> None:
        if len(group.nodes) <= FEW:
            for node, number in group.nodes.items():
                self.fit(node.row + 1)
                self.cells[node.row] += each * number
            return
        _, rows, numbers = pods.in_rows(group)
        self.fit(int(rows.max()) + 1)
        self.cells[rows] += each * numbers


class _DomainCounter:
    """One PodCount by domain. `domains` is held on to, so that nothing else can come to have its identity."""

    __slots__ = ("_each", "_mark", "_numbers", "_total", "domains")

    def __init__(self, count: PodCount, domains: Domains) -> None:
        self.domains = domains
        self._each = _CountPerPod(count)
        self._numbers: NDArray[np.int64] = np.zeros(1, np.int64)
        self._total = 0
        self._mark = -1

    def now(self, pods: PlacedPods) -> DomainSums:
        if self._mark != pods.mark:
            entries = pods.since(self._mark) if self._mark >= 0 else None
            self._mark = -1
            if entries is None:
                self._count_afresh(pods)
            else:
                self._follow(entries)
            self._mark = pods.mark
        return DomainSums(self._numbers, self._total)

    def _follow(self, entries: list[tuple[int, PlacedPodSet, int]]) -> None:
        ids = self.domains.ids
        for row, group, sign in entries:
            each = self._each.of(group)
            domain = int(ids[row]) if each else NO_DOMAIN
            if domain != NO_DOMAIN:
                self._numbers[domain] += sign * each
                self._total += sign * each

    def _count_afresh(self, pods: PlacedPods) -> None:
        by_node = _RowCounter(self._each.count, len(self.domains.ids))
        by_node.catch_up(pods)
        self._numbers = self.domains.sum(by_node.cells[: len(self.domains.ids)])
        self._total = int(self._numbers.sum())


class _ValueCounter:
    """One PodAttributes: how many placed pods carry each thing."""

    __slots__ = ("_known", "_mark", "carriers", "facet")

    def __init__(self, facet: PodAttributes) -> None:
        self.facet = facet
        self.carriers = AttributeCounts()
        self._known: dict[int, Collection[Hashable]] = {}
        self._mark = -1

    def catch_up(self, pods: PlacedPods) -> None:
        if self._mark == pods.mark:
            return
        entries = pods.since(self._mark) if self._mark >= 0 else None
        self._mark = -1
        if entries is None:
            self.carriers.clear()
            self.carriers.version += 1
            entries = [(0, group, sum(group.nodes.values())) for group in pods.groups()]
        for _, group, pods_of in entries:
            self._add(group, pods_of)
        self._mark = pods.mark

    def _add(self, group: PlacedPodSet, pods: int) -> None:
        for thing in self._of(group.signature):
            before = self.carriers[thing]
            if before + pods:
                self.carriers[thing] = before + pods
            else:
                del self.carriers[thing]
            self.carriers.version += not before or not before + pods

    def _of(self, signature: PodSignature) -> Collection[Hashable]:
        things = self._known.get(signature.id)
        if things is None:
            if len(self._known) >= _REMEMBER:
                self._known.clear()
            things = self._known[signature.id] = tuple(self.facet.of(signature))
        return things
