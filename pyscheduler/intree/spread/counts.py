"""How many pods of a kind each domain of a topology holds, as one attempt sees it, and how skewed that is."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Ints, NodeTable, NodeToStatus, Rejection
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.intree.spread.constraints import SpreadConstraint
from pyscheduler.intree.spread.nodes import EligibleDomains

MISMATCH = Rejection("node(s) didn't match pod topology spread constraints")
MISSING_LABEL = Rejection(
    "node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False
)
_NO_DOMAIN = 2**31 - 1
"""The lowest count where there is no domain to be counted."""


@dataclass(frozen=True, slots=True)
class DomainPodCounts:
    """Pods per domain."""

    known: Mapping[str | None, int]
    amounts: Ints

    def at(self, value: str) -> int:
        """How many there are in the domain of a label value."""
        return int(self.amounts[self.known.get(value, NO_DOMAIN)])

    def by_ids_of(self, topology: Domains) -> Ints:
        """The same amounts, by the ids of a table."""
        if topology.known is self.known:
            return self.amounts
        # Ids were given out anew since they were counted.
        amounts = np.zeros(topology.size, np.int64)
        for value, domain in self.known.items():
            amounts[topology.id_of(value)] = self.amounts[domain]
        return amounts


def count_pods_by_domain(spread: SpreadConstraint, region: EligibleDomains, nodes: NodeTable) -> DomainPodCounts:
    """What the nodes of a region add up to; `nodes` are all nodes of the cluster."""
    domains = region.domains
    if spread.count is None:
        return DomainPodCounts(domains.known, np.zeros(domains.size, np.int64))
    return DomainPodCounts(domains.known, nodes.count_by_domain(spread.count, domains).numbers)


@dataclass(frozen=True, slots=True)
class Skew:
    """One hard constraint in one attempt: may the pod add to a domain, or would it get too far ahead of the least?

    A value: trials make new ones. All pods that come and go in a trial do so on one node, so the domains other than
    its own keep their counts, of which `least_of_others` is the lowest.
    """

    spread: SpreadConstraint
    pod_counts: DomainPodCounts
    inhabited: NDArray[np.intp]
    """The domains that take part in the comparison, also those without pods."""
    self_match_count: int
    """How many of the counted pods the pod itself would be: 0 or 1."""
    least_of_others: int
    changed_domain: int = NO_DOMAIN
    """The domain of the trial's node."""

    @staticmethod
    def of(spread: SpreadConstraint, region: EligibleDomains, nodes: NodeTable, labels: Mapping[str, str]) -> Skew:
        """The skew as it is, for a pod with these labels; `nodes` are all nodes of the cluster."""
        counted = count_pods_by_domain(spread, region, nodes)
        rest = _lowest(counted.amounts, region.inhabited)
        return Skew(spread, counted, region.inhabited, int(spread.selects(labels)), rest)

    @property
    def max_match_count(self) -> int:
        """The most pods that a domain may hold already for the pod to be let in."""
        least = self.least_of_others
        if self.changed_domain:
            least = min(least, int(self.pod_counts.amounts[self.changed_domain]))
        if len(self.inhabited) < self.spread.min_domains:
            least = 0
        return self.spread.max_skew + least - self.self_match_count

    def rejection(self, labels: Mapping[str, str]) -> Rejection | None:
        """Why a node with these labels will not do."""
        value = labels.get(self.spread.key)
        if value is None:
            return MISSING_LABEL
        return MISMATCH if self.pod_counts.at(value) > self.max_match_count else None

    @property
    def basis(self) -> Hashable:
        """Which domains are full: all that the answers for nodes rest on."""
        return (id(self.pod_counts.known), (self.pod_counts.amounts > self.max_match_count).tobytes())

    def reject(self, topology: Domains, verdicts: NodeToStatus) -> None:
        """The same of many nodes; `topology` says in which domains they are."""
        if len(topology.unlabelled):
            verdicts.reject(topology.ids == NO_DOMAIN, MISSING_LABEL)
        full = self.pod_counts.by_ids_of(topology) > self.max_match_count
        if np.count_nonzero(full):
            verdicts.reject(full.take(topology.ids), MISMATCH)

    def with_pods(self, value: str, pods: int) -> Skew:
        """The skew after so many pods have come to a domain (or left it, if negative)."""
        known = self.pod_counts.known
        domain = known.get(value, NO_DOMAIN)
        amounts = self.pod_counts.amounts.copy()
        amounts[domain] += pods
        changed = replace(self, pod_counts=DomainPodCounts(known, amounts))
        if domain == self.changed_domain:
            return changed
        others = self.inhabited[self.inhabited != domain]
        return replace(changed, changed_domain=domain, least_of_others=_lowest(amounts, others))


def _lowest(amounts: Ints, domains: NDArray[np.intp]) -> int:
    if not len(domains):
        return _NO_DOMAIN
    inside = amounts[domains]
    return int(inside[inside.argmin()])
