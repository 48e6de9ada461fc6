"""How many pods of a kind each domain of a topology holds, as one attempt sees it, and how skewed that is."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Ints, NodeTable, Rejection, Verdicts
from pyscheduler.api.topology import MISSING
from pyscheduler.intree.spread.constraints import Spread
from pyscheduler.intree.spread.nodes import Region

MISMATCH = Rejection("node(s) didn't match pod topology spread constraints")
MISSING_LABEL = Rejection(
    "node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False
)
_NO_DOMAIN = 2**31 - 1
"""The lowest count where there is no domain to be counted."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Pods per domain."""

    known: Mapping[str | None, int]
    amounts: Ints

    def at(self, value: str) -> int:
        """How many there are in the domain of a label value."""
        return int(self.amounts[self.known.get(value, MISSING)])

    def by_ids_of(self, topology: Domains) -> Ints:
        """The same amounts, by the ids of a table."""
        if topology.known is self.known:
            return self.amounts
        # Ids were given out anew since they were counted.
        amounts = np.zeros(topology.size, np.int64)
        for value, domain in self.known.items():
            amounts[topology.id_of(value)] = self.amounts[domain]
        return amounts


def tally(spread: Spread, region: Region, nodes: NodeTable) -> Tally:
    """What the nodes of a region add up to; `nodes` are all nodes of the cluster."""
    domains = region.domains
    if spread.count is None:
        return Tally(domains.known, np.zeros(domains.size, np.int64))
    return Tally(domains.known, nodes.count_by_domain(spread.count, domains).numbers)


@dataclass(frozen=True, slots=True)
class Skew:
    """One hard constraint in one attempt: may the pod add to a domain, or would it get too far ahead of the least?

    A value: trials make new ones. All pods that come and go in a trial do so on one node, so the domains other than
    its own keep their counts, of which `rest` is the lowest.
    """

    spread: Spread
    tally: Tally
    inhabited: NDArray[np.intp]
    """The domains that take part in the comparison, also those without pods."""
    adds: int
    """How many of the counted pods the pod itself would be: 0 or 1."""
    rest: int
    moved: int = MISSING
    """The domain of the trial's node."""

    @staticmethod
    def of(spread: Spread, region: Region, nodes: NodeTable, labels: Mapping[str, str]) -> Skew:
        """The skew as it is, for a pod with these labels; `nodes` are all nodes of the cluster."""
        counted = tally(spread, region, nodes)
        rest = _lowest(counted.amounts, region.inhabited)
        return Skew(spread, counted, region.inhabited, int(spread.selects(labels)), rest)

    @property
    def room(self) -> int:
        """The most pods that a domain may hold already for the pod to be let in."""
        least = self.rest
        if self.moved:
            least = min(least, int(self.tally.amounts[self.moved]))
        if len(self.inhabited) < self.spread.min_domains:
            least = 0
        return self.spread.max_skew + least - self.adds

    def refusal(self, labels: Mapping[str, str]) -> Rejection | None:
        """Why a node with these labels will not do."""
        value = labels.get(self.spread.key)
        if value is None:
            return MISSING_LABEL
        return MISMATCH if self.tally.at(value) > self.room else None

    @property
    def basis(self) -> Hashable:
        """Which domains are full: all that the answers for nodes rest on."""
        return (id(self.tally.known), (self.tally.amounts > self.room).tobytes())

    def refuse(self, topology: Domains, verdicts: Verdicts) -> None:
        """The same of many nodes; `topology` says in which domains they are."""
        if len(topology.homeless):
            verdicts.reject(topology.ids == MISSING, MISSING_LABEL)
        full = self.tally.by_ids_of(topology) > self.room
        if np.count_nonzero(full):
            verdicts.reject(full.take(topology.ids), MISMATCH)

    def with_pods(self, value: str, pods: int) -> Skew:
        """The skew after so many pods have come to a domain (or left it, if negative)."""
        known = self.tally.known
        domain = known.get(value, MISSING)
        amounts = self.tally.amounts.copy()
        amounts[domain] += pods
        changed = replace(self, tally=Tally(known, amounts))
        if domain == self.moved:
            return changed
        others = self.inhabited[self.inhabited != domain]
        return replace(changed, moved=domain, rest=_lowest(amounts, others))


def _lowest(amounts: Ints, domains: NDArray[np.intp]) -> int:
    if not len(domains):
        return _NO_DOMAIN
    inside = amounts[domains]
    return int(inside[inside.argmin()])
