"""How placed pods see an incoming pod: by which of the terms that they carry speak of it.

The pods of a StatefulSet or of an indexed Job each have a label of their own that hardly any term asks for. Seen like
this they are all the same, and what was counted for one is not counted again for the next.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from pyscheduler.api import AttributeCounts, NodeTable, PodAttributes, PodSignature
from pyscheduler.intree.affinity.counts import IncomingPod, MatchingTerms, scoring_terms
from pyscheduler.intree.affinity.terms import Term, affinity_terms

TOO_MANY_TERMS = "too much"
"""Stands for the terms of a pod that are not told one by one."""
_BIG = 16 * 1024
"""Bytes of such a pod; terms are held on to for longer than it is there."""
_MOST = 64
"""Terms of one pod, and of all, from which on incoming pods are told apart by all their labels, as they come."""
_SHAPES = 64
"""For how many incoming pods it is remembered how they are seen."""


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityTerms(PodAttributes):
    """The terms of the required anti-affinity that pods have."""

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        return _terms_or_marker(signature, affinity_terms(signature).anti_affinity)


@dataclass(frozen=True, slots=True)
class ScoringTerms(PodAttributes):
    """The terms by which pods draw others."""

    required_weight: int

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        by_key = scoring_terms(signature, self.required_weight).values()
        return _terms_or_marker(signature, [weighted.term for each in by_key for weighted in each])


def _terms_or_marker(signature: PodSignature, terms: Collection[Term]) -> Collection[Hashable]:
    if len(terms) > _MOST or (terms and signature.size > _BIG):
        return (TOO_MANY_TERMS,)
    return frozenset(terms)


class MatchingTermsCache:
    """How incoming pods are seen by terms of one facet."""

    def __init__(self, facet: PodAttributes) -> None:
        self._facet = facet
        self._carried = AttributeCounts()
        self._at = (-1, -1)
        self._known: dict[PodSignature, MatchingTerms] = {}

    def of(self, incoming_pod: IncomingPod, nodes: NodeTable, namespaces: int) -> IncomingPod | MatchingTerms:
        """The incoming pod as it is seen; itself where that would be too much. `namespaces` is the version of those."""
        carried = nodes.attribute_counts(self._facet)
        if incoming_pod.is_large or len(carried) > _MOST or TOO_MANY_TERMS in carried:
            return incoming_pod
        at = (carried.version, namespaces)
        if carried is not self._carried or at != self._at or len(self._known) >= _SHAPES:
            self._carried, self._at = carried, at
            self._known.clear()
        known = self._known.get(incoming_pod.signature)
        if known is None:
            known = self._known[incoming_pod.signature] = MatchingTerms(frozenset(_matching(incoming_pod, carried)))
        return known


def _matching(incoming_pod: IncomingPod, carried: Iterable[Term]) -> Iterable[Term]:
    return (term for term in carried if incoming_pod.is_matched_by(term))
