"""Cache of the existing pods' terms that match an incoming pod.

Each pod of a StatefulSet or indexed Job has a label of its own that hardly any term selects. Reduced to the terms that
match them, such pods are equal, and the counts of one serve the next. Where terms are too many, pods are reduced to the
labels that terms select by in their namespaces, so that pods of one tenant stay equal whatever labels other tenants'
terms select.
"""

from __future__ import annotations

from pyscheduler.api import AttributeCounts, NodeTable, PodSignature, SelectionIndex
from pyscheduler.intree.affinity.counts import (
    MAX_TERMS,
    TOO_MANY_TERMS,
    IncomingPod,
    MatchingTerms,
    SelectedLabels,
    TermAttributes,
    labels_of_each,
)
from pyscheduler.intree.affinity.terms import Term

_MAX_EXISTING_TERMS = 4096
"""Number of terms of all existing pods above which incoming pods are compared by their labels."""
_MAX_SIGNATURES = 1024
"""Incoming signatures cached at most."""


class MatchingTermsCache:
    """Cached terms of existing pods that match each incoming signature, for one kind of terms."""

    def __init__(self, terms: TermAttributes) -> None:
        self._terms = terms
        self._selected_labels = SelectedLabels(terms)
        self._existing = AttributeCounts()
        self._index: SelectionIndex[Term] = SelectionIndex()
        self._versions = (-1, -1)
        self._cache: dict[PodSignature, MatchingTerms | None] = {}
        """None if too many terms match."""

    def of(
        self, pod: PodSignature, incoming_pod: IncomingPod, nodes: NodeTable, namespaces: int
    ) -> IncomingPod | MatchingTerms:
        """Return the matching terms, or the pod's selected labels if there are too many.

        `incoming_pod` is `pod` with all of its labels, `namespaces` the version of the namespaces.
        """
        existing = nodes.attribute_counts(self._terms)
        if incoming_pod.is_large:
            return incoming_pod
        if len(existing) > _MAX_EXISTING_TERMS or TOO_MANY_TERMS in existing:
            return self._reduced(incoming_pod, nodes)
        versions = (existing.version, namespaces)
        if existing is not self._existing or versions != self._versions or len(self._cache) >= _MAX_SIGNATURES:
            self._existing, self._versions = existing, versions
            self._update_index()
            self._cache.clear()
        if pod not in self._cache:
            self._cache[pod] = self._matching(pod, incoming_pod)
        return self._cache[pod] or self._reduced(incoming_pod, nodes)

    def _reduced(self, incoming_pod: IncomingPod, nodes: NodeTable) -> IncomingPod:
        return incoming_pod.reduced(nodes.attribute_counts(self._selected_labels))

    def _update_index(self) -> None:
        for term in [term for term in self._index if term not in self._existing]:
            self._index.discard(term)
        for term in self._existing:
            if term not in self._index:
                self._index.add(term, labels_of_each([term.peers]))

    def _matching(self, pod: PodSignature, incoming_pod: IncomingPod) -> MatchingTerms | None:
        if len(self._index.unindexed) > MAX_TERMS:
            return None
        candidates = self._index.candidates(pod)
        matching = frozenset(term for term in candidates if incoming_pod.is_matched_by(term))
        return MatchingTerms(matching) if len(matching) <= MAX_TERMS else None
