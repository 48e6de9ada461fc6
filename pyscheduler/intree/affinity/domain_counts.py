"""Counts of placed pods, added up by topology domain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pyscheduler.api import NO_DOMAIN, Domains, DomainSums, Ints, Mask, NodeEquivalence, NodeTable, PodCount
from pyscheduler.intree._domain_sums import FixedSums

Labels = Mapping[str, str]
Changes = Mapping[tuple[str, int], int]
_NO_COUNTS = NodeEquivalence()
_UNCHANGED: Changes = MappingProxyType({})


class TopologyCounts(NamedTuple):
    """Read-only number for each domain of one topology."""

    domains: Domains
    sums: DomainSums
    counted: PodCount | None = None
    """The count that was summed; None if the numbers include changes of a dry run."""
    per_node: PodCount | None = None
    """The count if each node is a domain of its own, so that a domain's number is the one of its node's pods."""

    @property
    def numbers(self) -> Ints:
        """Number by domain id."""
        return self.sums.numbers

    @property
    def total(self) -> int:
        """Sum of the numbers."""
        return self.sums.total

    def over(self, nodes: NodeTable, key: str) -> Ints:
        """Return the number of each node's domain, for the nodes of a table."""
        if self.per_node is not None:
            return nodes.count_pods(self.per_node).copy()
        here = nodes.topology(key)
        return self._renumbered(here).take(here.ids)

    def positive_mask(self, nodes: NodeTable, key: str) -> Mask:
        """Return the mask of nodes with a number above 0."""
        if self.per_node is not None:
            return np.greater(nodes.count_pods(self.per_node), 0)
        here = nodes.topology(key)
        mask: Mask = (self._renumbered(here) > 0).take(here.ids)
        return mask

    def _renumbered(self, here: Domains) -> Ints:
        if here.known is self.domains.known:
            return self.numbers
        # More labels are in use than the table caches, and the domains got new ids.
        numbers = np.zeros(here.size, np.int64)
        for value, domain in here.known.items():
            numbers[domain] = self.numbers[self.domains.id_of(value)]
        return numbers


class DomainCounts:
    """Number for each domain of several topology keys, 0 for any other domain. Immutable: `plus` returns a new value.

    Changes of a dry run are an overlay on the counts of the cluster, so that a change does not copy the counts.
    """

    __slots__ = ("_changes", "_sums", "total")

    def __init__(self, sums: Mapping[str, TopologyCounts], changes: Changes = _UNCHANGED) -> None:
        self._sums = sums
        self._changes = changes
        self.total = sum(s.total for s in sums.values()) + sum(changes.values())
        """Sum of all numbers. Where no number is negative, a total of 0 means that all are 0."""

    @property
    def equivalence(self) -> NodeEquivalence | None:
        """Equivalence of nodes with equal sums; None if the numbers include changes of a dry run."""
        if not self._sums:
            return _NO_COUNTS
        keys: tuple[str, ...] = ()
        counts: tuple[PodCount, ...] = ()
        for key, counted in self._sums.items():
            if self._changes or counted.counted is None:
                return None
            if counted.per_node is not None:
                counts += (counted.per_node,)
            else:
                keys += (key,)
        return NodeEquivalence(keys, counts)

    def cache_key(self, packed: Callable[[Ints], bytes]) -> Hashable:
        """Return the keys, and for each the packed numbers of its domains unless each node is a domain of its own."""
        return tuple(
            [(key, None if each.per_node is not None else packed(each.numbers)) for key, each in self._sums.items()]
        )

    @property
    def keys(self) -> Collection[str]:
        """Topology keys with counts."""
        return self._sums.keys()

    def plus(self, nodes: NodeTable, key: str, labels: Labels, amount: int) -> DomainCounts:
        """Return counts with `amount` added in the domain of a node with these labels, if it has the key."""
        if key not in labels:
            return self
        sums = self._sums
        if key not in sums:
            domains = nodes.all_nodes.topology(key)
            sums = {**sums, key: _counts(domains, np.zeros(domains.size, np.int64), 0)}
        place = (key, sums[key].domains.id_of(labels[key]))
        return DomainCounts(sums, {**self._changes, place: self._changes.get(place, 0) + amount})

    def at(self, key: str, labels: Labels) -> int:
        """Return the number of the domain of a node with these labels; 0 if it lacks the label."""
        counted = self._sums.get(key)
        if counted is None:
            return 0
        domain = counted.domains.id_of(labels.get(key))
        return counted.sums.at(domain) + self._changes.get((key, domain), 0)

    def has_positive(self, labels: Labels) -> bool:
        """Return True if a number is above 0 for a node with these labels."""
        return any(self.at(key, labels) > 0 for key in self._sums)

    def sum(self, labels: Labels) -> int:
        """Return the sum over all keys for a node with these labels."""
        return sum(self.at(key, labels) for key in self._sums)

    def all_positive(self, nodes: NodeTable) -> Mask:
        """Return the mask of nodes with a number above 0 for every key."""
        mask = np.ones(len(nodes), np.bool_)
        evaluated: set[tuple[int, int]] = set()
        for key, counted in self._with_changes().items():
            place = (id(counted.domains), id(counted.sums))  # keys that no node has share one topology
            if place not in evaluated:
                evaluated.add(place)
                mask &= counted.positive_mask(nodes, key)
        return mask

    def all_labelled(self, nodes: NodeTable) -> Mask:
        """Return the mask of nodes that have every key."""
        mask = np.ones(len(nodes), np.bool_)
        for key in {
            id(counted.domains): key for key, counted in self._sums.items() if len(counted.domains.unlabelled)
        }.values():
            mask &= nodes.topology(key).ids != NO_DOMAIN
        return mask

    def any_positive(self, nodes: NodeTable) -> Mask:
        """Return `has_positive` for every node of a table."""
        mask = np.zeros(len(nodes), np.bool_)
        for key, counted in self._with_changes().items():
            if counted.total:
                mask |= counted.positive_mask(nodes, key)
        return mask

    def sums(self, nodes: NodeTable) -> Ints:
        """Return `sum` for every node of a table."""
        columns = [counted.over(nodes, key) for key, counted in self._with_changes().items()]
        if not columns:
            return np.zeros(len(nodes), np.int64)
        for column in columns[1:]:
            columns[0] += column
        return columns[0]

    def _with_changes(self) -> Mapping[str, TopologyCounts]:
        sums = dict(self._sums) if self._changes else self._sums
        for (key, domain), amount in self._changes.items():
            sums = {**sums, key: _plus(sums[key], {domain: amount})}
        return sums


_NONE = DomainCounts({})


def _plus(counted: TopologyCounts, amounts: Mapping[int, int]) -> TopologyCounts:
    numbers = counted.numbers.copy()
    for domain, amount in amounts.items():
        numbers[domain] += amount
    return _counts(counted.domains, numbers, counted.total + sum(amounts.values()))


def _counts(domains: Domains, numbers: Ints, total: int) -> TopologyCounts:
    return TopologyCounts(domains, FixedSums(numbers, total))


def count_by_topology(nodes: NodeTable, counts: Mapping[str, PodCount]) -> DomainCounts:
    """Return current counts of the whole cluster, by topology key."""
    if not counts:
        return _NONE
    whole, sums = nodes.all_nodes, {}
    found: dict[tuple[int, int], TopologyCounts] = {}
    for key, count in counts.items():
        domains = whole.topology(key)
        identity = (id(count), id(domains))  # keys that no node has share one topology; a pod may name thousands
        if identity not in found:
            per_node = count if domains.is_one_per_node and not count.is_large else None
            found[identity] = TopologyCounts(domains, whole.count_by_domain(count, domains), count, per_node)
        sums[key] = found[identity]
    return DomainCounts(sums)
