"""Placed pods by signature, and the counts per node or domain that plugins read.

Counters (`pod_counters`) are created at their first read and follow the pods from then on. The least recently used are
dropped, so that counts which no plugin reads any more do not slow down the placement of pods.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyscheduler.api.nodes import Ints
from pyscheduler.api.pod import Pod
from pyscheduler.api.topology import AttributeCounts, Domains, DomainSums, PodAttributes, PodCount, PodSelection
from pyscheduler.core.state.counter_index import CounterIndex
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.pod_counters import AttributeCounter, InRows, PlacedPodSet, PodCounter, RowCounter

KEEP_BYTES = 256 * 1024 * 1024
"""Memory limit of the cached counts, above which the least recently used are dropped."""
KEEP_COUNTS = 16
_UNORDERED = KEEP_COUNTS // 2
"""Number of cached counts up to which their order is not kept: none is dropped soon, and hashing a key takes long."""
MOST_COUNTS = 1 << 14
"""Maximum number of cached counts, however small they are."""
MOST_COUNTS_OF_SET = 1 << 10
"""Maximum number of cached counts that count one set: each of its pods that comes or goes updates all of them."""
MOST_COUNTED_SETS = 1 << 18
"""Maximum number of sets that the cached counts follow, all counts together, as long as there are KEEP_COUNTS."""
KEEP_FACETS = 64
_UNACCOUNTED = 64
"""Number of counts that are read until their memory is added up: reading all nodes of one makes it larger."""


class PlacedPods:
    """Pods on existing nodes: `changed` records additions and removals; the `count…` methods are for reading."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, bool], PlacedPodSet] = {}
        self._new_sets: dict[PlacedPodSet, None] = {}
        """Sets that are not in the index yet."""
        self._index = CounterIndex()
        self._sets_of: Counter[int] = Counter()
        """Number of sets by template id."""
        self.templates_version = 0
        """Version that changes with the set of templates that have placed pods."""
        self._counts: OrderedDict[PodCount, RowCounter] = OrderedDict()
        self._facets: OrderedDict[PodAttributes, AttributeCounter] = OrderedDict()
        self._bytes = 0
        """Sum of `accounted_bytes` of `_counts`."""
        self._read: dict[RowCounter, None] = {}
        """Counts that were read since their memory was added up."""
        self._counted_sets = 0
        """Number of sets that `_counts` follow, all counts together."""
        self.version = 0
        """Version that changes with every pod and every moved row."""
        self.views_version = 0
        """Version that changes with the views that `count_by_domain` returned: when one is dropped or out of date.

        Additions and removals of pods of known sets change what the views show, not the views.
        """

    # -- changes ---------------------------------------------------------------------------------------------------

    def changed(self, node: NodeRow, pod: Pod, sign: int) -> None:
        """Record a pod that was added to an existing node (1) or removed from it (-1)."""
        self.version += 1
        key = (pod.signature.id, pod.deleting)
        pods = self._sets.get(key)
        if pods is None:
            self.views_version += 1  # a counter may count the set, and it does so when it is read
            pods = self._sets[key] = PlacedPodSet(pod.signature, pod.deleting)
            self._new_sets[pods] = None
            self._count_sets(pod.signature.template.id, 1)
        number = pods.nodes.get(node, 0) + sign
        if number:
            pods.nodes[node] = number
        else:
            del pods.nodes[node]
        for counter, value in pods.counters.items():
            counter.add(node.row, sign, value)
        if not pods.nodes:
            del self._sets[key]
            if pods in self._new_sets:
                del self._new_sets[pods]
            else:
                self._index.remove_set(pods)
            for counter in pods.unevaluated_by:
                del counter.new_sets[pods]
            for counter in pods.counters:
                del counter.counted_sets[pods]
            self._counted_sets -= len(pods.counters)
            self._count_sets(pod.signature.template.id, -1)

    def _count_sets(self, template: int, more: int) -> None:
        sets = self._sets_of[template] + more
        if not sets:
            del self._sets_of[template]
            self.templates_version += 1
            return
        if sets == more:
            self.templates_version += 1
        self._sets_of[template] = sets

    def moved(self, node: NodeRow, target: int) -> None:
        """Prepare the move of the last node to row `target`, which has no pods any more."""
        sets = {(pod.signature.id, pod.deleting) for pod in node.pods.values()}
        for counter in {counter for key in sets for counter in self._sets[key].counters}:
            counter.move(node.row, target)
        self.version += 1
        self.views_version += 1

    def has_lower_priority(self, priority: int) -> bool:
        """Return True if a pod that is not terminating has a priority below this one."""
        return any(not pods.deleting and pods.signature.priority < priority for pods in self._sets.values())

    def nodes_with_terminating_pods(self) -> list[NodeRow]:
        """Return the nodes with terminating pods."""
        return list(dict.fromkeys(node for pods in self._sets.values() if pods.deleting for node in pods.nodes))

    # -- counts for plugins ------------------------------------------------------------------------------------------

    def count(self, count: PodCount, n: int) -> Ints:
        """Return the current count of each of all `n` nodes, as a live read-only view."""
        cells = self.counter(count, n).cells.array()[:n]
        cells.flags.writeable = False
        return cells

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        """Return the current count of each domain, as a live read-only view."""
        counter, source = self.counter(count, len(domains.ids)), domains.source
        sums = counter.kept_sums(source)
        if sums is None:
            self.views_version += 1  # new sums may displace others
            sums = counter.add_sums(source)
        return sums

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        """Return the number of placed pods by attribute value, as a live read-only view."""
        counter = self._facets.get(facet)
        if counter is None:
            counter = AttributeCounter(facet)
            self._add_counter(counter, None)
            self._facets[facet] = counter
            while len(self._facets) > KEEP_FACETS:
                self._drop(self._facets.popitem(last=False)[1])
        elif len(self._facets) > _UNORDERED:
            self._facets.move_to_end(facet)
        self.update(counter)
        return counter.counts

    def counter(self, count: PodCount, n: int) -> RowCounter:
        """Return the up-to-date counter of a count, with at least `n` rows; it may be dropped later (`is_kept`)."""
        counter = self._counts.get(count)
        if counter is None:
            counter = RowCounter(count, n)
            if count.is_large:
                counter.count_sets(self, self.sets, keep=False)
                self.views_version += 1
                return counter
            counted = self._add_counter(counter, count.selection)
            self._counts[count] = counter
            self._limit_counts_of(counted)
            self._limit_memory()
        elif len(self._counts) > _UNORDERED:
            self._counts.move_to_end(count)
        self._read[counter] = None
        if len(self._read) > _UNACCOUNTED:
            self._limit_memory()
        counter.cells.fit(n)
        self.update(counter)
        while self._counted_sets > MOST_COUNTED_SETS and len(self._counts) > KEEP_COUNTS:
            self._drop_oldest()
        return counter

    def _limit_memory(self) -> None:
        """Drop the least recently used counts if they take too much memory, as of the last use of each."""
        for counter in self._read:
            before, counter.accounted_bytes = counter.accounted_bytes, counter.bytes
            self._bytes += counter.accounted_bytes - before
        self._read = {}
        while len(self._counts) > KEEP_COUNTS and (len(self._counts) > MOST_COUNTS or self._bytes > KEEP_BYTES):
            self._drop_oldest()

    def _limit_counts_of(self, sets: Sequence[PlacedPodSet]) -> None:
        """Drop the first counts of those of these sets that too many counters count."""
        for pods in [each for each in sets if len(each.counters) > MOST_COUNTS_OF_SET]:
            first = next((each for each in pods.counters if isinstance(each, RowCounter)), None)
            if first is not None and len(pods.counters) > MOST_COUNTS_OF_SET:
                self._drop_count(first)

    def _drop_oldest(self) -> None:
        self._drop_count(next(iter(self._counts.values())))

    def _drop_count(self, counter: RowCounter) -> None:
        del self._counts[counter.count]
        self._bytes -= counter.accounted_bytes
        self._read.pop(counter, None)
        self._drop(counter)

    def _add_counter(self, counter: PodCounter[Any], selection: PodSelection | None) -> Sequence[PlacedPodSet]:
        """Count the pods that are placed; return the sets that count."""
        self._index_new_sets()
        try:
            counted = counter.count_sets(self, self._index.add(counter, selection, self._sets.values()))
            self._counted_sets += len(counted)
            return counted
        except BaseException:
            self._index.remove(counter)
            raise

    def is_current(self, counter: PodCounter[Any]) -> bool:
        """Return True if the counter has no new signatures to evaluate."""
        return not self._new_sets and not counter.new_sets

    def update(self, counter: PodCounter[Any]) -> None:
        """Count pods of new signatures in a counter that was returned before."""
        if self._new_sets:
            self._index_new_sets()
        if counter.new_sets:
            counted = counter.update(self)
            self._counted_sets += len(counted)
            self._limit_counts_of(counted)

    def _index_new_sets(self) -> None:
        """Add the new sets to the index, and to the counters that select them and evaluate them when they are read."""
        for pods in self._new_sets:
            for counter in self._index.add_set(pods):
                pods.unevaluated_by[counter] = counter.new_sets[pods] = None
        self._new_sets = {}

    def _drop(self, counter: PodCounter[Any]) -> None:
        counter.is_kept = False
        counter.clear_new_sets()
        self._index.remove(counter)
        self.views_version += 1
        for pods in counter.counted_sets:
            del pods.counters[counter]
        self._counted_sets -= len(counter.counted_sets)

    # -- sets for counters -------------------------------------------------------------------------------------------

    @property
    def sets(self) -> Sequence[PlacedPodSet]:
        """All sets, in the order of their appearance."""
        return [*self._sets.values()]

    def in_rows(self, pods: PlacedPodSet) -> InRows:
        """Return the nodes of a set as arrays, cached since several counts often begin in a row."""
        arrays, nodes = pods.in_rows, pods.nodes
        if arrays is None or arrays.version != self.version:
            rows = np.fromiter([node.row for node in nodes], np.intp, len(nodes))
            numbers = np.fromiter(nodes.values(), np.int64, len(nodes))
            arrays = pods.in_rows = InRows(self.version, rows, numbers)
        return arrays
