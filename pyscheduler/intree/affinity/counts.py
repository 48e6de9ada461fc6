"""Pod counts of InterPodAffinity. They are values, so the scheduler can keep them current as pods come and go.

Terminating pods count as long as they are on their node.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from weakref import WeakKeyDictionary

from pyscheduler.api import (
    PodAttributes,
    PodCount,
    PodRequirement,
    PodSelection,
    PodSignature,
    required_labels,
)
from pyscheduler.api.pod import LARGE
from pyscheduler.intree._term_matcher import SMALL, MappingRows
from pyscheduler.intree.affinity.matching import PeersMatcher, are_many, included_by_all, rows_of, times_included
from pyscheduler.intree.affinity.terms import NO_TERMS, Labels, Peers, Term, WeightedTerm, affinity_terms

_MANY = 256
"""Number of terms of a pod above which its counts are not cached."""
TOO_MANY_TERMS = "too many terms"
"""Marker for the terms of a pod that has too many to list."""
MAX_TERMS = 64
"""Number of terms of one pod, and of terms that match one, above which incoming pods are compared by their labels."""
_MAX_BYTES = 16 * 1024
"""Size in bytes of a pod with too many terms: cached terms outlive the pod."""


@dataclass(frozen=True, slots=True)
class IncomingPod:
    """The pod to be placed, with its namespace's labels, for matching by the terms of existing pods."""

    namespace: str
    labels: Labels = field(compare=False)
    namespace_labels: Labels = field(compare=False)
    is_large: bool = field(default=False, compare=False)
    _labels: tuple[frozenset[tuple[str, str]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        compared = (frozenset(self.labels.items()), frozenset(self.namespace_labels.items()))
        object.__setattr__(self, "_labels", compared)

    @staticmethod
    def of(signature: PodSignature, namespace_labels: Labels) -> IncomingPod:
        """Return an incoming pod with all of its labels."""
        return IncomingPod(signature.namespace, signature.labels, namespace_labels, signature.size > LARGE)

    def reduced(self, selected: Container[tuple[str | None, str]]) -> IncomingPod:
        """Return the pod with the labels that terms select by: pairs of namespace, None for any, and label key."""
        labels = {
            key: value
            for key, value in self.labels.items()
            if (self.namespace, key) in selected or (None, key) in selected
        }
        return IncomingPod(self.namespace, labels, self.namespace_labels)

    def is_matched_by(self, term: Term) -> bool:
        return term.peers.include(self, self.namespace_labels)

    @property
    def rows(self) -> MappingRows:
        """The incoming pod as the only row, for a `TermMatcher`."""
        return rows_of((self,), self.namespace_labels)


@dataclass(frozen=True, slots=True)
class MatchingTerms:
    """The existing pods' terms that match the incoming pod.

    Stands in for `IncomingPod` as a cache key: pods that differ only in labels that no term selects share their counts.
    """

    terms: frozenset[Term]

    @property
    def is_large(self) -> bool:
        return False

    def is_matched_by(self, term: Term) -> bool:
        return term in self.terms


class _TermCount(PodCount):
    __slots__ = ()

    @property
    def terminating(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class PodsMatchingAllTerms(_TermCount):
    """Count of pods that match all of the incoming pod's terms."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    @property
    def selection(self) -> PodSelection:
        if any(peers.selector is None for peers in self.peers):
            return []
        return [[label for labels in labels_of_each(self.peers) for label in labels]]

    def of(self, signature: PodSignature) -> int:
        return int(all(peers.include(signature) for peers in self.peers))

    def of_all(self, signatures: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(signature) for signature in signatures]
        return included_by_all(self.peers, rows_of(signatures))


@dataclass(frozen=True, slots=True)
class MatchingTermCount(_TermCount):
    """Number of the incoming pod's terms that match a pod."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    @property
    def selection(self) -> PodSelection:
        return labels_of_each(self.peers)

    def of(self, signature: PodSignature) -> int:
        return sum(peers.include(signature) for peers in self.peers)

    def of_all(self, signatures: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(signature) for signature in signatures]
        return times_included(self.peers, signatures)


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityCount(_TermCount):
    """Number of a pod's required anti-affinity terms with the topology key that match the incoming pod."""

    incoming_pod: IncomingPod | MatchingTerms
    key: str

    @property
    def is_large(self) -> bool:
        return self.incoming_pod.is_large

    @property
    def selection(self) -> PodSelection:
        if isinstance(self.incoming_pod, IncomingPod):
            return [[PodRequirement(ExistingAntiAffinityKeys(), {self.key})]]
        return [[PodRequirement(ExistingAntiAffinityTerms(), {*self.incoming_pod.terms, TOO_MANY_TERMS})]]

    def of(self, signature: PodSignature) -> int:
        return _matching_weight(signature, self.key, self._terms, self.incoming_pod)

    def _terms(self, signature: PodSignature) -> Sequence[WeightedTerm]:
        return [WeightedTerm(term, 1) for term in affinity_terms(signature).anti_affinity if term.key == self.key]


@dataclass(frozen=True, slots=True)
class AffinityWeight(_TermCount):
    """Sum of the weights of the matching terms with the topology key, those of the incoming and of the existing pod.

    `preferred` are the incoming pod's terms with the key. With `weighed=False`, count the terms instead.
    """

    incoming_pod: IncomingPod | MatchingTerms
    key: str
    preferred: tuple[WeightedTerm, ...]
    required_weight: int
    weighed: bool = True

    @property
    def is_large(self) -> bool:
        return self.incoming_pod.is_large

    @property
    def selection(self) -> PodSelection:
        if isinstance(self.incoming_pod, IncomingPod):
            of_existing = PodRequirement(ScoringTermKeys(self.required_weight), {self.key})
        else:
            terms = {*self.incoming_pod.terms, TOO_MANY_TERMS}
            of_existing = PodRequirement(ScoringTerms(self.required_weight), terms)
        return [[of_existing], *labels_of_each(term.peers for term, _ in self.preferred)]

    def of(self, signature: PodSignature) -> int:
        own = sum(self._weigh(weight) for term, weight in self.preferred if term.peers.include(signature))
        return own + self._weight_of_existing(signature)

    def of_all(self, signatures: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many([term.peers for term, _ in self.preferred]):
            return [self.of(signature) for signature in signatures]
        matcher = PeersMatcher((term.peers, self._weigh(weight)) for term, weight in self.preferred)
        own = matcher.totals(rows_of(signatures))
        return [amount + self._weight_of_existing(signature) for amount, signature in zip(own, signatures, strict=True)]

    def _weight_of_existing(self, signature: PodSignature) -> int:
        """Return the sum of the weights of the existing pod's terms that match the incoming pod."""
        cache_key = (self.key, self.required_weight, self.weighed)
        return _matching_weight(signature, cache_key, self._terms, self.incoming_pod)

    def _terms(self, signature: PodSignature) -> Sequence[WeightedTerm]:
        terms = scoring_terms(signature, self.required_weight).get(self.key, ())
        return terms if self.weighed else [WeightedTerm(term, 1) for term, _ in terms]

    def _weigh(self, weight: int) -> int:
        return weight if self.weighed else 1


def _matching_weight(
    signature: PodSignature,
    cache_key: Hashable,
    terms: Callable[[PodSignature], Sequence[WeightedTerm]],
    incoming_pod: IncomingPod | MatchingTerms,
) -> int:
    """Return the sum of the weights of an existing pod's terms that match the incoming pod, cached by `cache_key`.

    An existing pod may have tens of thousands of terms. Those are compiled once and evaluated together.
    """
    if signature.size > SMALL and isinstance(incoming_pod, IncomingPod):
        cached = _matchers.setdefault(signature, {})
        if cache_key not in cached:
            weighted = [(term.peers, weight) for term, weight in terms(signature)]
            many = are_many([peers for peers, _ in weighted])
            cached[cache_key] = PeersMatcher(weighted, by_labels=True) if many else None
        matcher = cached[cache_key]
        if matcher is not None:
            return matcher.totals(incoming_pod.rows)[0]
    return sum(weight for term, weight in terms(signature) if incoming_pod.is_matched_by(term))


_matchers: WeakKeyDictionary[PodSignature, dict[Hashable, PeersMatcher | None]] = WeakKeyDictionary()
"""By signature and `cache_key`; None for few terms. An entry is dropped with the last pod of its signature."""


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityKeys(PodAttributes):
    """Topology keys of the required anti-affinity of pods."""

    def of(self, signature: PodSignature) -> Collection[str]:
        return {term.key for term in affinity_terms(signature).anti_affinity}


@dataclass(frozen=True, slots=True)
class ScoringTermKeys(PodAttributes):
    """Topology keys of the terms of pods that count in scoring."""

    required_weight: int

    def of(self, signature: PodSignature) -> Collection[str]:
        return scoring_terms(signature, self.required_weight).keys()


class TermAttributes(PodAttributes):
    """Terms of existing pods that match incoming pods."""

    __slots__ = ()

    @abstractmethod
    def terms(self, signature: PodSignature) -> Collection[Term]:
        """Return the terms of a pod."""

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        """Return the terms of a pod, or a marker for too many."""
        terms = self.terms(signature)
        if len(terms) > MAX_TERMS or (terms and signature.size > _MAX_BYTES):
            return (TOO_MANY_TERMS,)
        return frozenset(terms)


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityTerms(TermAttributes):
    """Terms of the required anti-affinity of pods."""

    def terms(self, signature: PodSignature) -> Collection[Term]:
        return affinity_terms(signature).anti_affinity


@dataclass(frozen=True, slots=True)
class ScoringTerms(TermAttributes):
    """Terms of pods that score nodes for incoming pods."""

    required_weight: int

    def terms(self, signature: PodSignature) -> Collection[Term]:
        by_key = scoring_terms(signature, self.required_weight).values()
        return [weighted.term for each in by_key for weighted in each]


@dataclass(frozen=True, slots=True)
class SelectedLabels(PodAttributes):
    """Label keys that the terms of pods select by, each with the namespace of the selected pods, None for any."""

    terms: TermAttributes

    def of(self, signature: PodSignature) -> Collection[tuple[str | None, str]]:
        return {
            (namespace, requirement.key)
            for _, peers in self.terms.terms(signature)
            if peers.selector is not None
            for requirement in peers.selector.requirements
            for namespace in ((None,) if peers.namespace_selector is not None else peers.namespaces)
        }


def scoring_terms(signature: PodSignature, required_weight: int) -> Mapping[str, tuple[WeightedTerm, ...]]:
    """Return the terms that score nodes for incoming pods, by topology key; weights below 0 are anti-affinity."""
    if affinity_terms(signature) is NO_TERMS:
        return _NO_SCORING_TERMS
    cached = _scoring_terms_by_signature.setdefault(signature, {})
    terms = cached.get(required_weight)
    if terms is None:
        terms = cached[required_weight] = _scoring_terms(signature, required_weight)
    return terms


def _scoring_terms(signature: PodSignature, required_weight: int) -> Mapping[str, tuple[WeightedTerm, ...]]:
    terms = affinity_terms(signature)
    required = terms.affinity if required_weight > 0 else ()
    by_key: dict[str, list[WeightedTerm]] = {}
    for weighted in (*(WeightedTerm(term, required_weight) for term in required), *terms.preferred):
        by_key.setdefault(weighted.term.key, []).append(weighted)
    return {key: tuple(weighted) for key, weighted in by_key.items()}


_NO_SCORING_TERMS: Mapping[str, tuple[WeightedTerm, ...]] = MappingProxyType({})
_scoring_terms_by_signature: WeakKeyDictionary[PodSignature, dict[int, Mapping[str, tuple[WeightedTerm, ...]]]] = (
    WeakKeyDictionary()
)
"""By signature and weight of required terms. An entry is dropped with the last pod of its signature."""


def labels_of_each(several: Iterable[Peers]) -> PodSelection:
    """Return the labels that each of the selectors requires, without nil selectors, which match no pod."""
    return [
        required_labels(each.selector, each.namespaces if each.namespace_selector is None else None)
        for each in several
        if each.selector is not None
    ]
