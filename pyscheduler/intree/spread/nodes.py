"""Which nodes a spread constraint looks at: those that have its topology and that its inclusion policies let in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Mask, NodeInfo, NodeTable, PodSignature, Taint
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.intree._required import allowed, allows
from pyscheduler.intree._term_matcher import SMALL
from pyscheduler.intree._tolerations import has_untolerated
from pyscheduler.intree.spread.constraints import SpreadConstraint, SpreadConstraints

_CACHE_SIZE = 64
_HARD_TAINTS = (NO_SCHEDULE, NO_EXECUTE)


class EligibleDomains(NamedTuple):
    """The nodes that one constraint looks at."""

    domains: Domains
    """The domain of each node of the cluster; NO_DOMAIN for those that are left out, as if they lacked the label."""
    inhabited: NDArray[np.intp]
    """The domains that have a node in the region, in ascending order."""


class EligibleDomainsCache:
    """The regions of constraints, found once for each kind of pod and set of constraints while no node changes."""

    def __init__(self) -> None:
        self._by_policies: dict[Hashable, tuple[EligibleDomains, ...]] = {}
        self._by_identity: dict[
            tuple[int, int, bool], tuple[SpreadConstraints, PodSignature, tuple[EligibleDomains, ...]]
        ] = {}
        """The same by identity, which is quicker to look up; it holds on to what it is identified by."""
        self._version = -1

    def of(
        self, spreads: SpreadConstraints, signature: PodSignature, nodes: NodeTable, require_all: bool
    ) -> tuple[EligibleDomains, ...]:
        """The region of each constraint; `nodes` are all nodes of the cluster.

        With `require_all` only nodes count that have the topologies of all constraints. Without it, nodes that lack a
        label are one more domain, the same as that of nodes where it is empty, if there are such.
        """
        if self._version != nodes.version or len(self._by_policies) >= _CACHE_SIZE:
            self._version = nodes.version
            self._by_policies.clear()
            self._by_identity.clear()
        topologies = [nodes.topology(spread.key) for spread in spreads]
        place = (id(spreads), id(signature), require_all)
        known = self._by_identity.get(place)
        if known is not None and _have_same_ids(known[2], topologies):
            return known[2]
        key = _key(spreads, signature, require_all)
        kept = self._by_policies.get(key)
        if kept is None or not _have_same_ids(kept, topologies):
            kept = self._by_policies[key] = _eligible_domains(spreads, topologies, signature, nodes, require_all)
        if len(self._by_identity) >= _CACHE_SIZE:
            self._by_identity.clear()
        self._by_identity[place] = (spreads, signature, kept)
        return kept


def has_all_topologies(topologies: list[Domains]) -> Mask:
    """Which nodes have all of some topologies."""
    mask: Mask = topologies[0].ids != NO_DOMAIN
    for topology in topologies[1:]:
        mask &= topology.ids != NO_DOMAIN
    return mask


def missing_as_empty(topology: Domains) -> NDArray[np.intp]:
    """The domain of each node, those that lack the label being in that of the empty value, if there is one."""
    blank = topology.id_of("")
    return np.where(topology.ids == NO_DOMAIN, blank, topology.ids) if blank else topology.ids


def node_matches_policies(spread: SpreadConstraint, signature: PodSignature, node: NodeInfo) -> bool:
    """Whether the constraint's policies let a node in (nodeAffinityPolicy, nodeTaintsPolicy)."""
    return matches_policies(spread, signature, node.name, node.labels, node.taints)


def matches_policies(
    spread: SpreadConstraint, signature: PodSignature, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]
) -> bool:
    """`node_matches_policies` of a node that is not in the cluster as it is now."""
    if spread.honors_affinity and not allows(signature, name, labels):
        return False
    return not spread.honors_taints or not has_untolerated(signature, taints, _HARD_TAINTS)


def _policy_mask(spread: SpreadConstraint, signature: PodSignature, nodes: NodeTable) -> Mask:
    mask = allowed(signature, nodes) if spread.honors_affinity else np.ones(len(nodes), np.bool_)
    if spread.honors_taints:
        mask &= nodes.by_taints(lambda taints: has_untolerated(signature, taints, _HARD_TAINTS)) == 0
    return mask


def _eligible_domains(
    spreads: SpreadConstraints, topologies: list[Domains], signature: PodSignature, nodes: NodeTable, require_all: bool
) -> tuple[EligibleDomains, ...]:
    everywhere = has_all_topologies(topologies) if require_all else np.ones(len(nodes), np.bool_)
    found: dict[Hashable, EligibleDomains] = {}
    regions = []
    for spread, topology in zip(spreads, topologies, strict=True):
        # A pod may state thousands of constraints, but nodes have few labels: all others are one topology.
        alike = (id(topology), spread.honors_affinity, spread.honors_taints)
        if alike not in found:
            found[alike] = _eligible_domains_of(
                topology, everywhere & _policy_mask(spread, signature, nodes), require_all
            )
        regions.append(found[alike])
    return tuple(regions)


def _eligible_domains_of(topology: Domains, mask: Mask, require_all: bool) -> EligibleDomains:
    ids = topology.ids if require_all else missing_as_empty(topology)
    inside = np.where(mask, ids, NO_DOMAIN)
    return EligibleDomains(Domains(inside, topology.known), np.flatnonzero(np.bincount(inside)[1:]) + 1)


def _key(spreads: SpreadConstraints, signature: PodSignature, require_all: bool) -> Hashable:
    """What regions depend on beside the nodes."""
    policies = tuple((s.key, s.honors_affinity, s.honors_taints) for s in spreads)
    chosen = any(s.honors_affinity for s in spreads)
    tolerated = any(s.honors_taints for s in spreads)
    return (
        require_all,
        policies,
        (signature.id if signature.size > SMALL else (signature.node_selector, signature.required_node_terms))
        if chosen
        else None,
        signature.tolerations if tolerated else None,
    )


def _have_same_ids(regions: tuple[EligibleDomains, ...], topologies: list[Domains]) -> bool:
    """Whether the regions' ids mean what the topologies' do now: ids are given out anew now and then."""
    return all(region.domains.known is topology.known for region, topology in zip(regions, topologies, strict=True))
