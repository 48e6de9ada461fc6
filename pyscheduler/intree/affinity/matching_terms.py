"""Cache of the existing pods' terms that match an incoming pod.

Each pod of a StatefulSet or indexed Job has a label of its own that hardly any term selects. Reduced to the terms that
match them, such pods are equal, and the counts of one serve the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from pyscheduler.api import AttributeCounts, NodeTable, PodAttributes, PodSignature, Requirement
from pyscheduler.intree.affinity.counts import MAX_TERMS, TOO_MANY_TERMS, IncomingPod, MatchingTerms
from pyscheduler.intree.affinity.terms import Labels, Term

_MAX_EXISTING_TERMS = 4096
"""Number of terms of all existing pods above which incoming pods are compared by all labels."""
_MAX_SIGNATURES = 1024
"""Incoming signatures cached at most."""
_Label = tuple[str, str]


class MatchingTermsCache:
    """Cached terms of existing pods that match each incoming signature, for one kind of terms."""

    def __init__(self, attributes: PodAttributes) -> None:
        self._attributes = attributes
        self._existing = AttributeCounts()
        self._index = TermIndex()
        self._versions = (-1, -1)
        self._cache: dict[PodSignature, MatchingTerms | None] = {}
        """None if too many terms match."""

    def of(self, incoming_pod: IncomingPod, nodes: NodeTable, namespaces: int) -> IncomingPod | MatchingTerms:
        """Return the matching terms, or the incoming pod if there are too many; `namespaces` is their version."""
        existing = nodes.attribute_counts(self._attributes)
        if incoming_pod.is_large or len(existing) > _MAX_EXISTING_TERMS or TOO_MANY_TERMS in existing:
            return incoming_pod
        versions = (existing.version, namespaces)
        if existing is not self._existing or versions != self._versions or len(self._cache) >= _MAX_SIGNATURES:
            self._existing, self._versions = existing, versions
            self._index.update(existing)
            self._cache.clear()
        signature = incoming_pod.signature
        if signature not in self._cache:
            self._cache[signature] = self._matching(incoming_pod)
        return self._cache[signature] or incoming_pod

    def _matching(self, incoming_pod: IncomingPod) -> MatchingTerms | None:
        if len(self._index.unindexed) > MAX_TERMS:
            return None
        candidates = self._index.candidates(incoming_pod.signature.labels)
        matching = frozenset(term for term in candidates if incoming_pod.is_matched_by(term))
        return MatchingTerms(matching) if len(matching) <= MAX_TERMS else None


class TermIndex:
    """Terms by one label that they require, so that only those of a pod's labels are compared with the pod."""

    def __init__(self) -> None:
        self._labels_of: dict[Term, Sequence[_Label]] = {}
        self._by_label: dict[_Label, dict[Term, None]] = {}
        self.unindexed: dict[Term, None] = {}
        """Terms without a requirement with the operator In."""

    def update(self, terms: Collection[Term]) -> None:
        """Make these the terms of the index."""
        now = dict.fromkeys(terms)
        for term in [term for term in self._labels_of if term not in now]:
            for label in self._labels_of.pop(term):
                del self._by_label[label][term]
                if not self._by_label[label]:
                    del self._by_label[label]
        self.unindexed = {term: None for term in self.unindexed if term in now}
        for term in now:
            if term not in self._labels_of and term not in self.unindexed:
                self._add(term)

    def _add(self, term: Term) -> None:
        selector = term.peers.selector
        requirements = selector.requirements if selector is not None else ()
        choices = [_labels(each) for each in requirements if each.operator == "In"]
        if not choices:
            self.unindexed[term] = None
            return
        # Helm charts set some labels equally on all apps, so take the label that the fewest terms require.
        labels = min(choices, key=lambda labels: sum(len(self._by_label.get(label, ())) for label in labels))
        self._labels_of[term] = labels
        for label in labels:
            self._by_label.setdefault(label, {})[term] = None

    def candidates(self, labels: Labels) -> Iterable[Term]:
        """Return all terms that may select a pod with these labels."""
        return chain(self.unindexed, *[self._by_label.get(label, ()) for label in labels.items()])


def _labels(requirement: Requirement) -> Sequence[_Label]:
    return [*dict.fromkeys((requirement.key, value) for value in requirement.values)]
