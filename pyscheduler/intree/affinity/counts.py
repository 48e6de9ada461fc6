"""What InterPodAffinity counts of placed pods, as values: the scheduler keeps the numbers as pods come and go.

Pods that are being deleted count, as long as they are on their node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from weakref import WeakKeyDictionary

from pyscheduler.api import PodCount, PodFacet, PodShape
from pyscheduler.api.pod import LARGE
from pyscheduler.intree._term_matcher import SMALL, MappingRows
from pyscheduler.intree.affinity.matching import PeersMatcher, are_many, included_by_all, rows_of, times_included
from pyscheduler.intree.affinity.terms import NO_TERMS, Labels, Peers, Term, Weighted, affinity_terms

_MANY = 256
"""Terms of a pod from which on what they count is not kept."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The pod to be placed, as the terms of placed pods see it."""

    shape: PodShape
    namespace_labels: Labels = field(compare=False)
    _labels: frozenset[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_labels", frozenset(self.namespace_labels.items()))

    @property
    def is_large(self) -> bool:
        return self.shape.size > LARGE

    def is_meant_by(self, term: Term) -> bool:
        return term.peers.include(self.shape, self.namespace_labels)

    @property
    def rows(self) -> MappingRows:
        """The newcomer alone, to be matched against many terms."""
        return rows_of((self.shape,), self.namespace_labels)


@dataclass(frozen=True, slots=True)
class Meant:
    """The same by those terms of placed pods that speak of it: who differs in what none asks for is counted alike."""

    terms: frozenset[Term]

    @property
    def is_large(self) -> bool:
        return False

    def is_meant_by(self, term: Term) -> bool:
        return term in self.terms


class _Count(PodCount):
    __slots__ = ()

    @property
    def terminating(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class MeantByAll(_Count):
    """Pods that all of some terms of the newcomer speak of."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    def of(self, shape: PodShape) -> int:
        return int(all(peers.include(shape) for peers in self.peers))

    def of_all(self, shapes: Sequence[PodShape]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(shape) for shape in shapes]
        return included_by_all(self.peers, rows_of(shapes))


@dataclass(frozen=True, slots=True)
class TimesMeant(_Count):
    """How many of some terms of the newcomer speak of a pod."""

    peers: tuple[Peers, ...]

    @property
    def is_large(self) -> bool:
        return len(self.peers) > _MANY

    def of(self, shape: PodShape) -> int:
        return sum(peers.include(shape) for peers in self.peers)

    def of_all(self, shapes: Sequence[PodShape]) -> Sequence[int]:
        if not are_many(self.peers):
            return [self.of(shape) for shape in shapes]
        return times_included(self.peers, shapes)


@dataclass(frozen=True, slots=True)
class KeepingOff(_Count):
    """How many required anti-affinity terms with the topology key a pod has that speak of the newcomer."""

    newcomer: Newcomer | Meant
    key: str

    @property
    def is_large(self) -> bool:
        return self.newcomer.is_large

    def of(self, shape: PodShape) -> int:
        return _meant(shape, self.key, self._terms, self.newcomer)

    def _terms(self, shape: PodShape) -> Sequence[Weighted]:
        return [Weighted(term, 1) for term in affinity_terms(shape).anti_affinity if term.key == self.key]


@dataclass(frozen=True, slots=True)
class Drawing(_Count):
    """How much a pod draws the newcomer to its domain of the topology key, by the terms of both.

    `preferred` are those of the newcomer that have the key; `weighed=False` counts the terms instead.
    """

    newcomer: Newcomer | Meant
    key: str
    preferred: tuple[Weighted, ...]
    required_weight: int
    weighed: bool = True

    @property
    def is_large(self) -> bool:
        return self.newcomer.is_large

    def of(self, shape: PodShape) -> int:
        own = sum(self._worth(weight) for term, weight in self.preferred if term.peers.include(shape))
        return own + self._drawn_by(shape)

    def of_all(self, shapes: Sequence[PodShape]) -> Sequence[int]:
        if not are_many([term.peers for term, _ in self.preferred]):
            return [self.of(shape) for shape in shapes]
        matcher = PeersMatcher((term.peers, self._worth(weight)) for term, weight in self.preferred)
        own = matcher.totals(rows_of(shapes))
        return [amount + self._drawn_by(shape) for amount, shape in zip(own, shapes, strict=True)]

    def _drawn_by(self, shape: PodShape) -> int:
        """Sum of the weights of the placed pod's terms."""
        place = (self.key, self.required_weight, self.weighed)
        return _meant(shape, place, self._terms, self.newcomer)

    def _terms(self, shape: PodShape) -> Sequence[Weighted]:
        terms = drawing_terms(shape, self.required_weight).get(self.key, ())
        return terms if self.weighed else [Weighted(term, 1) for term, _ in terms]

    def _worth(self, weight: int) -> int:
        return weight if self.weighed else 1


def _meant(
    shape: PodShape, place: Hashable, terms: Callable[[PodShape], Sequence[Weighted]], newcomer: Newcomer | Meant
) -> int:
    """The sum of the weights of those terms of a placed pod that include the newcomer; `place` is that of the terms.

    A placed pod may have tens of thousands: those are compiled once, and matched against each newcomer together.
    """
    if shape.size > SMALL and isinstance(newcomer, Newcomer):
        known = _matchers.setdefault(shape, {})
        if place not in known:
            weighted = [(term.peers, weight) for term, weight in terms(shape)]
            many = are_many([peers for peers, _ in weighted])
            known[place] = PeersMatcher(weighted, by_labels=True) if many else None
        matcher = known[place]
        if matcher is not None:
            return matcher.totals(newcomer.rows)[0]
    return sum(weight for term, weight in terms(shape) if newcomer.is_meant_by(term))


_matchers: WeakKeyDictionary[PodShape, dict[Hashable, PeersMatcher | None]] = WeakKeyDictionary()
"""The terms of a placed shape by their place, None where they are few; it goes with the last pod of the shape."""


@dataclass(frozen=True, slots=True)
class KeepingOffKeys(PodFacet):
    """The topology keys of the required anti-affinity that pods have."""

    def of(self, shape: PodShape) -> Collection[str]:
        return {term.key for term in affinity_terms(shape).anti_affinity}


@dataclass(frozen=True, slots=True)
class DrawingKeys(PodFacet):
    """The topology keys of the terms by which pods draw others."""

    required_weight: int

    def of(self, shape: PodShape) -> Collection[str]:
        return drawing_terms(shape, self.required_weight).keys()


def drawing_terms(shape: PodShape, required_weight: int) -> Mapping[str, tuple[Weighted, ...]]:
    """The terms by which pods of the shape draw others to them or, with weights below 0, away; by topology key."""
    if affinity_terms(shape) is NO_TERMS:
        return _NOTHING
    known = _drawn.setdefault(shape, {})
    terms = known.get(required_weight)
    if terms is None:
        terms = known[required_weight] = _drawing_terms(shape, required_weight)
    return terms


def _drawing_terms(shape: PodShape, required_weight: int) -> Mapping[str, tuple[Weighted, ...]]:
    terms = affinity_terms(shape)
    required = terms.affinity if required_weight > 0 else ()
    by_key: dict[str, list[Weighted]] = {}
    for weighted in (*(Weighted(term, required_weight) for term in required), *terms.preferred):
        by_key.setdefault(weighted.term.key, []).append(weighted)
    return {key: tuple(weighted) for key, weighted in by_key.items()}


_NOTHING: Mapping[str, tuple[Weighted, ...]] = MappingProxyType({})
_drawn: WeakKeyDictionary[PodShape, dict[int, Mapping[str, tuple[Weighted, ...]]]] = WeakKeyDictionary()
"""By shape and weight of required terms; it goes with the last pod of the shape."""
