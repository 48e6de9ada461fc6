"""Matching pods per topology domain and the resulting skew, for one attempt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from pyscheduler.api import Domains, DomainSums, Ints, NodeEquivalence, NodeTable, NodeToStatus, PodCount, Rejection
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.intree._domain_sums import FixedSums
from pyscheduler.intree.spread.constraints import SpreadConstraint
from pyscheduler.intree.spread.nodes import EligibleDomains

MISMATCH = Rejection("node(s) didn't match pod topology spread constraints")
MISSING_LABEL = Rejection(
    "node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False
)
_NO_MINIMUM = 2**31 - 1
"""Minimum count if there is no domain."""


class DomainPodCounts(NamedTuple):
    """Number of matching pods per domain."""

    known: Mapping[str | None, int]
    sums: DomainSums

    def at(self, value: str) -> int:
        """Return the number of pods in the domain of a label value."""
        return self.sums.at(self.known.get(value, NO_DOMAIN))

    @property
    def amounts(self) -> Ints:
        """Number of pods by domain id."""
        return self.sums.numbers

    def by_ids_of(self, topology: Domains) -> Ints:
        """Return the numbers indexed by the domain ids of a table."""
        if topology.known is self.known:
            return self.amounts
        # The domains got new ids after the count.
        amounts, counted = np.zeros(topology.size, np.int64), self.amounts
        for value, domain in self.known.items():
            amounts[topology.id_of(value)] = counted[domain]
        return amounts

    def lowest(self, eligible: Domains, without: int = NO_DOMAIN) -> int:
        """Return the lowest number of the domains with an eligible node, one left out."""
        sums, others = self.sums, eligible.non_empty_count - bool(without)
        # Of many hosts, some have no pod. Only in dry runs a number may be below 0.
        if not isinstance(sums, FixedSums) and sums.nonzero_count < others:
            return 0
        amounts = sums.numbers
        inside = amounts[1:]  # usually every domain has a node
        if without or others < eligible.size - 1:
            is_counted = eligible.sizes[: len(amounts)] > 0
            is_counted[NO_DOMAIN] = is_counted[without : without + 1] = False
            inside = amounts[is_counted]
        return inside.item(inside.argmin()) if len(inside) else _NO_MINIMUM


def count_pods_by_domain(spread: SpreadConstraint, eligible: EligibleDomains, nodes: NodeTable) -> DomainPodCounts:
    """Count the matching pods on eligible nodes; `nodes` are all nodes of the cluster."""
    domains = eligible.domains
    if spread.count is None:
        return DomainPodCounts(domains.known, FixedSums(np.zeros(domains.size, np.int64), 0))
    return DomainPodCounts(domains.known, nodes.count_by_domain(spread.count, domains))


class Skew(NamedTuple):
    """State of one hard constraint in one attempt.

    Immutable: dry runs make changed copies. All pods that a dry run adds or removes are on one node, so the other
    domains keep their counts, of which `least_of_others` is the minimum.
    """

    spread: SpreadConstraint
    pod_counts: DomainPodCounts
    topology: Domains
    """Domain of each node of the cluster, eligible or not."""
    is_per_node: bool
    """True if every node of the cluster is eligible and a domain of its own; False in a dry run."""
    eligible: Domains
    """Domain of each eligible node of the cluster."""
    least_of_others: int
    max_match_count: int
    """Largest number of pods that a domain may have for the pod to be placed in it."""
    changed_domain: int = NO_DOMAIN
    """Domain of the dry run's node."""

    @staticmethod
    def of(spread: SpreadConstraint, eligible: EligibleDomains, nodes: NodeTable) -> Skew:
        """Return the current state; `nodes` are all nodes of the cluster."""
        counted = count_pods_by_domain(spread, eligible, nodes)
        domains, topology, is_per_node = eligible
        least = counted.lowest(domains)
        most = _max_match_count(spread, domains, least)
        return Skew(spread, counted, topology, is_per_node and not spread.counts_large, domains, least, most)

    def rejection(self, labels: Mapping[str, str]) -> Rejection | None:
        """Return the rejection by a node with these labels, None if it passes."""
        value = labels.get(self.spread.key)
        if value is None:
            return MISSING_LABEL
        return MISMATCH if self.pod_counts.at(value) > self.max_match_count else None

    @property
    def cache_key(self) -> Hashable:
        """Cache key of the results: the full domains, or the number of pods at which a node is full."""
        if self.is_per_node:
            return self.max_match_count
        return (self.pod_counts.by_ids_of(self.topology) > self.max_match_count).tobytes()

    def reject(self, nodes: NodeTable, statuses: NodeToStatus) -> None:
        """Reject nodes in full or missing domains."""
        if self.is_per_node:
            if self.spread.count is not None:
                full = nodes.count_pods(self.spread.count) > self.max_match_count
                if np.count_nonzero(full):
                    statuses.reject(full, MISMATCH)
            return
        topology = nodes.topology(self.spread.key)
        if len(topology.unlabelled):
            statuses.reject(topology.ids == NO_DOMAIN, MISSING_LABEL)
        full = self.pod_counts.by_ids_of(topology) > self.max_match_count
        if np.count_nonzero(full):
            statuses.reject(full.take(topology.ids), MISMATCH)

    def with_pods(self, value: str, pods: int) -> Skew:
        """Return the state after `pods` pods were added to a domain, or removed if negative."""
        known, sums = self.pod_counts.known, self.pod_counts.sums
        domain = known.get(value, NO_DOMAIN)
        amounts = sums.numbers.copy()
        amounts[domain] += pods
        least = self.least_of_others
        if domain != self.changed_domain:
            least = self.pod_counts.lowest(self.eligible, domain)
        lowest = min(least, amounts.item(domain)) if domain else least
        return self._replace(
            pod_counts=DomainPodCounts(known, FixedSums(amounts, sums.total + pods)),
            is_per_node=False,
            changed_domain=domain,
            least_of_others=least,
            max_match_count=_max_match_count(self.spread, self.eligible, lowest),
        )


def skew_equivalence(skews: tuple[Skew, ...]) -> NodeEquivalence:
    """Return the equivalence of nodes that all of the constraints reject or accept alike."""
    keys: tuple[str, ...] = ()
    counts: tuple[PodCount, ...] = ()
    for skew in skews:
        if not skew.is_per_node:
            keys += (skew.spread.key,)
        elif skew.spread.count is not None:
            counts += (skew.spread.count,)
    return NodeEquivalence(keys, counts)


def _max_match_count(spread: SpreadConstraint, eligible: Domains, least: int) -> int:
    """Return the largest number of pods of a domain to place the pod in, if the emptiest one has `least`."""
    if eligible.non_empty_count < spread.min_domains:
        least = 0
    return spread.max_skew + least - spread.self_match_count
