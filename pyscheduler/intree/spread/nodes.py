"""Nodes that are eligible for a spread constraint: they have its topology key and match its inclusion policies."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Domains, Mask, NodeInfo, NodeTable, PodSignature, Taint
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.intree._required import allowed, allows, has_no_required_terms
from pyscheduler.intree._term_matcher import SMALL
from pyscheduler.intree._tolerations import has_untolerated
from pyscheduler.intree.spread.constraints import SpreadConstraint, SpreadConstraints

T = TypeVar("T")
_CACHE_SIZE = 64
_HARD_TAINTS = (NO_SCHEDULE, NO_EXECUTE)


class EligibleDomains(NamedTuple):
    """Nodes that one constraint counts."""

    domains: Domains
    """Domain of each node of the cluster; NO_DOMAIN for nodes that are not eligible."""
    topology: Domains
    """Domain of each node of the cluster, eligible or not."""

    is_per_node: bool
    """True if every node of the cluster is eligible and a domain of its own."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _CachedDomains:
    """Eligible domains of constraints, with what they were computed from."""

    topologies: list[Domains]
    version: int | None
    """Version of the nodes; None if the nodes matter by their topologies only."""
    eligible: tuple[EligibleDomains, ...]

    def is_valid(self, topologies: list[Domains], nodes: NodeTable) -> bool:
        if self.version is not None and self.version != nodes.version:
            return False
        return all(map(operator.is_, self.topologies, topologies))


@dataclass(slots=True)
class SignatureDomains(Generic[T]):
    """Eligible domains of the constraints of one signature.

    It keeps none of them alive, so that the domains of former nodes are freed.
    """

    spreads: SpreadConstraints
    version: int
    """Version of the nodes for which they were valid last."""
    cached: ref[_CachedDomains]
    derived: T | None = None
    """Cached value that the reader derived from these domains."""


class EligibleDomainsCache(Generic[T]):
    """Eligible domains of constraints, cached by signature and policies until the nodes that they depend on change."""

    def __init__(self) -> None:
        self._by_policies: dict[Hashable, _CachedDomains] = {}
        self._by_signature: WeakKeyDictionary[PodSignature, SignatureDomains[T]] = WeakKeyDictionary()
        """Second index, which is faster."""

    def of(
        self, spreads: SpreadConstraints, signature: PodSignature, nodes: NodeTable, require_all: bool
    ) -> tuple[tuple[EligibleDomains, ...], SignatureDomains[T]]:
        """Return the eligible domains of each constraint, and the object that is cached with them.

        `nodes` are all nodes of the cluster. `require_all` must be the same each time for a signature. With it, only
        nodes with the topology keys of all constraints are eligible. Without it, nodes that lack a key are in the
        domain of nodes with the empty value, if there are any.
        """
        last, version = self._by_signature.get(signature), nodes.version
        if last is not None and last.spreads is spreads:
            cached = last.cached()
            if cached is not None:
                if last.version == version:
                    return cached.eligible, last
                if cached.is_valid([nodes.topology(spread.key) for spread in spreads], nodes):
                    last.version = version
                    return cached.eligible, last
        cached = self._by_policy(spreads, signature, nodes, require_all)
        last = self._by_signature[signature] = SignatureDomains(spreads, version, ref(cached))
        return cached.eligible, last

    def _by_policy(
        self, spreads: SpreadConstraints, signature: PodSignature, nodes: NodeTable, require_all: bool
    ) -> _CachedDomains:
        key, topologies = _key(spreads, signature, require_all), [nodes.topology(spread.key) for spread in spreads]
        cached = self._by_policies.get(key)
        if cached is None or not cached.is_valid(topologies, nodes):
            eligible = _eligible_domains(spreads, topologies, signature, nodes, require_all)
            if len(self._by_policies) >= _CACHE_SIZE:
                self._by_policies.clear()
            version = nodes.version if _policies_read_nodes(spreads, signature) else None
            cached = self._by_policies[key] = _CachedDomains(topologies, version, eligible)
        return cached


def has_all_topologies(topologies: Sequence[Domains]) -> Mask | None:
    """Return the mask of nodes that have all of the topologies; None if every node has them."""
    mask: Mask | None = None
    for topology in topologies:
        if len(topology.unlabelled):
            mask = _intersect(mask, topology.ids != NO_DOMAIN)
    return mask


def missing_as_empty(topology: Domains) -> NDArray[np.intp]:
    """Return the domain of each node, with nodes that lack the label in the domain of the empty value, if it exists."""
    empty_value = topology.id_of("")
    return np.where(topology.ids == NO_DOMAIN, empty_value, topology.ids) if empty_value else topology.ids


def node_matches_policies(spread: SpreadConstraint, signature: PodSignature, node: NodeInfo) -> bool:
    """Return True if the node matches the constraint's nodeAffinityPolicy and nodeTaintsPolicy."""
    return matches_policies(spread, signature, node.name, node.labels, node.taints)


def matches_policies(
    spread: SpreadConstraint, signature: PodSignature, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]
) -> bool:
    """Return `node_matches_policies` of a node that is not in the current snapshot, for queueing hints."""
    if spread.honors_affinity and not allows(signature, name, labels):
        return False
    return not spread.honors_taints or not has_untolerated(signature, taints, _HARD_TAINTS)


def _policy_mask(spread: SpreadConstraint, signature: PodSignature, nodes: NodeTable) -> Mask | None:
    """Return the mask of nodes that match the policies; None if every node does."""
    mask: Mask | None = None
    if spread.honors_affinity and not has_no_required_terms(signature):
        mask = allowed(signature, nodes)
    if spread.honors_taints:
        mask = _intersect(mask, nodes.by_taints(lambda taints: has_untolerated(signature, taints, _HARD_TAINTS)) == 0)
    return mask


def _intersect(mask: Mask | None, other: Mask | None) -> Mask | None:
    return other if mask is None else mask if other is None else mask & other


def _eligible_domains(
    spreads: SpreadConstraints, topologies: list[Domains], signature: PodSignature, nodes: NodeTable, require_all: bool
) -> tuple[EligibleDomains, ...]:
    everywhere = has_all_topologies(topologies) if require_all else None
    found: dict[Hashable, EligibleDomains] = {}
    eligible = []
    for spread, topology in zip(spreads, topologies, strict=True):
        # A pod may state thousands of constraints, but nodes have few labels: all other keys share one topology.
        identity = (id(topology), spread.honors_affinity, spread.honors_taints)
        if identity not in found:
            found[identity] = _eligible_domains_of(
                topology, _intersect(everywhere, _policy_mask(spread, signature, nodes)), require_all
            )
        eligible.append(found[identity])
    return tuple(eligible)


def _eligible_domains_of(topology: Domains, mask: Mask | None, require_all: bool) -> EligibleDomains:
    domains, is_all_labelled = topology, not len(topology.unlabelled)
    if mask is not None or not (require_all or is_all_labelled):
        ids = topology.ids if require_all else missing_as_empty(topology)
        domains = Domains(ids if mask is None else np.where(mask, ids, NO_DOMAIN), topology.known)
    return EligibleDomains(domains, topology, domains.is_one_per_node)


def _key(spreads: SpreadConstraints, signature: PodSignature, require_all: bool) -> Hashable:
    """Return the cache key of eligible domains, apart from the version of the nodes."""
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


def _policies_read_nodes(spreads: SpreadConstraints, signature: PodSignature) -> bool:
    """Return True if an inclusion policy may exclude a node."""
    has_terms = not has_no_required_terms(signature)
    return any(spread.honors_taints or (spread.honors_affinity and has_terms) for spread in spreads)
