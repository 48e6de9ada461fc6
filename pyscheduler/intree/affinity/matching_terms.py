"""Cache of the existing pods' terms that match an incoming pod.

Each pod of a StatefulSet or indexed Job has a label of its own that hardly any term selects. Reduced to the terms that
match them, such pods are equal, and the counts of one serve the next.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from pyscheduler.api import AttributeCounts, NodeTable, PodAttributes, PodSignature
from pyscheduler.intree.affinity.counts import IncomingPod, MatchingTerms, scoring_terms
from pyscheduler.intree.affinity.terms import Term, affinity_terms

TOO_MANY_TERMS = "too much"
"""Marker for the terms of a pod that has too many to list."""
_MAX_BYTES = 16 * 1024
"""Size in bytes of a pod with too many terms: cached terms outlive the pod."""
_MAX_TERMS = 64
"""Number of terms, of one pod and of all, above which incoming pods are compared by all their labels."""
_MAX_SIGNATURES = 1024
"""Incoming signatures cached at most."""


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityTerms(PodAttributes):
    """Terms of the required anti-affinity of pods."""

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        return _terms_or_marker(signature, affinity_terms(signature).anti_affinity)


@dataclass(frozen=True, slots=True)
class ScoringTerms(PodAttributes):
    """Terms of pods that score nodes for incoming pods."""

    required_weight: int

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        by_key = scoring_terms(signature, self.required_weight).values()
        return _terms_or_marker(signature, [weighted.term for each in by_key for weighted in each])


def _terms_or_marker(signature: PodSignature, terms: Collection[Term]) -> Collection[Hashable]:
    if len(terms) > _MAX_TERMS or (terms and signature.size > _MAX_BYTES):
        return (TOO_MANY_TERMS,)
    return frozenset(terms)


class MatchingTermsCache:
    """Cached terms of existing pods that match each incoming signature, for one kind of terms."""

    def __init__(self, attributes: PodAttributes) -> None:
        self._attributes = attributes
        self._existing = AttributeCounts()
        self._versions = (-1, -1)
        self._cache: dict[PodSignature, MatchingTerms] = {}

    def of(self, incoming_pod: IncomingPod, nodes: NodeTable, namespaces: int) -> IncomingPod | MatchingTerms:
        """Return the matching terms, or the incoming pod if there are too many; `namespaces` is their version."""
        existing = nodes.attribute_counts(self._attributes)
        if incoming_pod.is_large or len(existing) > _MAX_TERMS or TOO_MANY_TERMS in existing:
            return incoming_pod
        versions = (existing.version, namespaces)
        if existing is not self._existing or versions != self._versions or len(self._cache) >= _MAX_SIGNATURES:
            self._existing, self._versions = existing, versions
            self._cache.clear()
        cached = self._cache.get(incoming_pod.signature)
        if cached is None:
            cached = self._cache[incoming_pod.signature] = MatchingTerms(frozenset(_matching(incoming_pod, existing)))
        return cached


def _matching(incoming_pod: IncomingPod, existing: Iterable[Term]) -> Iterable[Term]:
    return (term for term in existing if incoming_pod.is_matched_by(term))
