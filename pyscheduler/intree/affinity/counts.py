"""What InterPodAffinity counts of placed pods, as values: the scheduler keeps the numbers as pods come and go.

Pods that are being deleted count, as long as they are on their node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from weakref import WeakKeyDictionary

from pyscheduler.api import PodAttributes, PodCount, PodSignature
from pyscheduler.api.pod import LARGE
from pyscheduler.intree._term_matcher import SMALL, MappingRows
from pyscheduler.intree.affinity.matching import PeersMatcher, are_many, included_by_all, rows_of, times_included
from pyscheduler.intree.affinity.terms import NO_TERMS, Labels, Peers, Term, WeightedTerm, affinity_terms

_MANY = 256
"""Terms of a pod from which on what they count is not kept."""


@dataclass(frozen=True, slots=True)
class IncomingPod:
    """The pod to be placed, as the terms of placed pods see it."""

    signature: PodSignature
    namespace_labels: Labels = field(compare=False)
    _labels: frozenset[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_labels", frozenset(self.namespace_labels.items()))

    @property
    def is_large(self) -> bool:
        return self.signature.size > LARGE

    def is_matched_by(self, term: Term) -> bool:
        return term.peers.include(self.signature, self.namespace_labels)

    @property
    def rows(self) -> MappingRows:
        """The incoming pod alone, to be matched against many terms."""
        return rows_of((self.signature,), self.namespace_labels)


@dataclass(frozen=True, slots=True)
class MatchingTerms:
    """The same by those terms of placed pods that speak of it: who differs in what none asks for is counted alike."""

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
    """Pods that all of some terms of the incoming pod speak of."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    def of(self, signature: PodSignature) -> int:
        return int(all(peers.include(signature) for peers in self.peers))

    def of_all(self, shapes: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(signature) for signature in shapes]
        return included_by_all(self.peers, rows_of(shapes))


@dataclass(frozen=True, slots=True)
class MatchingTermCount(_TermCount):
    """How many of some terms of the incoming pod speak of a pod."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    def of(self, signature: PodSignature) -> int:
        return sum(peers.include(signature) for peers in self.peers)

    def of_all(self, shapes: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(signature) for signature in shapes]
        return times_included(self.peers, shapes)


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityCount(_TermCount):
    """How many required anti-affinity terms with the topology key a pod has that speak of the incoming pod."""

    incoming_pod: IncomingPod | MatchingTerms
    key: str

    @property
    def is_large(self) -> bool:
        return self.incoming_pod.is_large

    def of(self, signature: PodSignature) -> int:
        return _matching_weight(signature, self.key, self._terms, self.incoming_pod)

    def _terms(self, signature: PodSignature) -> Sequence[WeightedTerm]:
        return [WeightedTerm(term, 1) for term in affinity_terms(signature).anti_affinity if term.key == self.key]


@dataclass(frozen=True, slots=True)
class AffinityWeight(_TermCount):
    """How much a pod draws the incoming pod to its domain of the topology key, by the terms of both.

    `preferred` are those of the incoming pod that have the key; `weighed=False` counts the terms instead.
    """

    incoming_pod: IncomingPod | MatchingTerms
    key: str
    preferred: tuple[WeightedTerm, ...]
    required_weight: int
    weighed: bool = True

    @property
    def is_large(self) -> bool:
        return self.incoming_pod.is_large

    def of(self, signature: PodSignature) -> int:
        own = sum(self._weigh(weight) for term, weight in self.preferred if term.peers.include(signature))
        return own + self._weight_of_existing(signature)

    def of_all(self, shapes: Sequence[PodSignature]) -> Sequence[int]:
        if not are_many([term.peers for term, _ in self.preferred]):
            return [self.of(signature) for signature in shapes]
        matcher = PeersMatcher((term.peers, self._weigh(weight)) for term, weight in self.preferred)
        own = matcher.totals(rows_of(shapes))
        return [amount + self._weight_of_existing(signature) for amount, signature in zip(own, shapes, strict=True)]

    def _weight_of_existing(self, signature: PodSignature) -> int:
        """Sum of the weights of the placed pod's terms."""
        place = (self.key, self.required_weight, self.weighed)
        return _matching_weight(signature, place, self._terms, self.incoming_pod)

    def _terms(self, signature: PodSignature) -> Sequence[WeightedTerm]:
        terms = scoring_terms(signature, self.required_weight).get(self.key, ())
        return terms if self.weighed else [WeightedTerm(term, 1) for term, _ in terms]

    def _weigh(self, weight: int) -> int:
        return weight if self.weighed else 1


def _matching_weight(
    signature: PodSignature,
    place: Hashable,
    terms: Callable[[PodSignature], Sequence[WeightedTerm]],
    incoming_pod: IncomingPod | MatchingTerms,
) -> int:
    """The sum of the weights of those terms of a placed pod that match the incoming pod; `place` is that of the terms.

    A placed pod may have tens of thousands: those are compiled once, and matched against each pod together.
    """
    if signature.size > SMALL and isinstance(incoming_pod, IncomingPod):
        known = _matchers.setdefault(signature, {})
        if place not in known:
            weighted = [(term.peers, weight) for term, weight in terms(signature)]
            many = are_many([peers for peers, _ in weighted])
            known[place] = PeersMatcher(weighted, by_labels=True) if many else None
        matcher = known[place]
        if matcher is not None:
            return matcher.totals(incoming_pod.rows)[0]
    return sum(weight for term, weight in terms(signature) if incoming_pod.is_matched_by(term))


_matchers: WeakKeyDictionary[PodSignature, dict[Hashable, PeersMatcher | None]] = WeakKeyDictionary()
"""The terms of a placed signature by their place, None where they are few; it goes with the last pod of the signature."""


@dataclass(frozen=True, slots=True)
class ExistingAntiAffinityKeys(PodAttributes):
    """The topology keys of the required anti-affinity that pods have."""

    def of(self, signature: PodSignature) -> Collection[str]:
        return {term.key for term in affinity_terms(signature).anti_affinity}


@dataclass(frozen=True, slots=True)
class ScoringTermKeys(PodAttributes):
    """The topology keys of the terms by which pods draw others."""

    required_weight: int

    def of(self, signature: PodSignature) -> Collection[str]:
        return scoring_terms(signature, self.required_weight).keys()


def scoring_terms(signature: PodSignature, required_weight: int) -> Mapping[str, tuple[WeightedTerm, ...]]:
    """The terms by which pods of the signature draw others to them or, with weights below 0, away; by topology key."""
    if affinity_terms(signature) is NO_TERMS:
        return _NOTHING
    known = _scoring_terms_by_shape.setdefault(signature, {})
    terms = known.get(required_weight)
    if terms is None:
        terms = known[required_weight] = _scoring_terms(signature, required_weight)
    return terms


def _scoring_terms(signature: PodSignature, required_weight: int) -> Mapping[str, tuple[WeightedTerm, ...]]:
    terms = affinity_terms(signature)
    required = terms.affinity if required_weight > 0 else ()
    by_key: dict[str, list[WeightedTerm]] = {}
    for weighted in (*(WeightedTerm(term, required_weight) for term in required), *terms.preferred):
        by_key.setdefault(weighted.term.key, []).append(weighted)
    return {key: tuple(weighted) for key, weighted in by_key.items()}


_NOTHING: Mapping[str, tuple[WeightedTerm, ...]] = MappingProxyType({})
_scoring_terms_by_shape: WeakKeyDictionary[PodSignature, dict[int, Mapping[str, tuple[WeightedTerm, ...]]]] = (
    WeakKeyDictionary()
)
"""By signature and weight of required terms; it goes with the last pod of the signature."""
