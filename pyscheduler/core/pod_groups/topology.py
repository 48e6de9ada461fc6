"""Topology domains in which a pod group may be placed, those first that it leaves the least room in.

Small groups in large domains would strand the large groups that come later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from pyscheduler.api.nodes import Ints, Mask, NodeTable
from pyscheduler.api.pod_group import PodGroup, TopologyConstraint
from pyscheduler.api.topology import NO_DOMAIN

_MAX_DOMAINS = 32
"""Number of domains of a topology that are tried: each costs an attempt to place all members."""


def candidate_domains(
    nodes: NodeTable,
    group: PodGroup,
    requests: Iterable[Mapping[str, int]],
    started: Sequence[int],
    needed: int,
    within: Mask | None = None,
) -> Iterator[Mask | None]:
    """Yield masks of the nodes among which the group may be placed, in the order in which they are tried; None for all.

    First the domains of the preferred topologies in their order, the narrowest first, each within one domain of the
    required ones, then the domains of the required ones. `requests` are those of each pending member, of which at least
    `needed` have to be placed. `started` are the rows with members of the group; they must be in the domain. Of the
    nodes, only those `within` a mask count, that of the domain of the group around a subgroup.
    """
    free = _FreeResources(nodes, requests, needed, within)
    required = [constraint for constraint in group.topology if constraint.required]
    for constraint in group.topology:
        if not constraint.required:
            yield from free.tightest(_domain_of_all(nodes, [*required, constraint]), started)
    if required:
        yield from free.tightest(_domain_of_all(nodes, required), started)
    else:
        yield within


def _domains(nodes: NodeTable, constraint: TopologyConstraint) -> Ints:
    """Return the number of the domain of each row in a topology; nodes without a label are in none."""
    return nodes.topology(constraint.key).ids if constraint.domains is None else constraint.domains(nodes)


def _domain_of_all(nodes: NodeTable, required: Sequence[TopologyConstraint]) -> Ints:
    """Return the number of the domain that each row shares in all of these topologies."""
    domains = _domains(nodes, required[0])
    for constraint in required[1:]:
        ids = _domains(nodes, constraint)
        pairs = np.stack((domains, ids), axis=1)
        numbers = NO_DOMAIN + 1 + np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        domains = np.where((domains == NO_DOMAIN) | (ids == NO_DOMAIN), NO_DOMAIN, numbers)
    return domains


class _FreeResources:
    """Free resources of domains, compared with what a group requests."""

    def __init__(
        self, nodes: NodeTable, requests: Iterable[Mapping[str, int]], needed: int, within: Mask | None
    ) -> None:
        self._within = within
        smallest_first = sorted(requests, key=lambda each: sum(each.values()))
        self._all, self._least = _sum(smallest_first), _sum(smallest_first[:needed])
        self._free = {
            resource: np.maximum(nodes.allocatable(resource) - nodes.requested(resource), 0) for resource in self._all
        }

    def tightest(self, domains: Ints, started: Sequence[int]) -> Iterator[Mask]:
        """Yield masks of the domains with room for as many members as are needed, given the domain of each row.

        First those with room for all members, each part by ascending room. The domains may be as many as the nodes, so
        there is a mask for none but those.
        """
        if self._within is not None:
            domains = np.where(self._within, domains, NO_DOMAIN)
        rows = np.flatnonzero(domains != NO_DOMAIN)
        numbers = domains[rows]
        size = int(numbers.max(initial=-1)) + 1
        is_candidate = np.bincount(numbers, minlength=size) > 0
        if len(started):
            only = np.unique(domains[[*started]])
            is_candidate &= (np.arange(size) == only[0]) & (len(only) == 1)
        lacks_some, room = np.zeros(size, np.bool_), np.zeros(size)
        for resource, amount in self._all.items():
            free = np.zeros(size, np.int64)
            np.add.at(free, numbers, self._free[resource][rows])
            is_candidate &= free >= self._least[resource]
            lacks_some |= free < amount
            room += free / max(1, amount)
        candidates = np.flatnonzero(is_candidate)
        for i in np.lexsort((room[candidates], lacks_some[candidates]))[:_MAX_DOMAINS]:
            yield domains == candidates[i]


def _sum(requests: Sequence[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in requests:
        total.update(each)
    return total
