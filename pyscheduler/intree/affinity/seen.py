"""How placed pods see a newcomer: by which of the terms that they carry speak of it.

The pods of a StatefulSet or of an indexed Job each have a label of their own that hardly any term asks for. Seen like
this they are all the same, and what was counted for one is not counted again for the next.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from pyscheduler.api import Carried, NodeTable, PodFacet, PodShape
from pyscheduler.intree.affinity.counts import Meant, Newcomer, drawing_terms
from pyscheduler.intree.affinity.terms import Term, affinity_terms

TOO_MUCH = "too much"
"""Stands for the terms of a pod that are not told one by one."""
_BIG = 16 * 1024
"""Bytes of such a pod; terms are held on to for longer than it is there."""
_MOST = 64
"""Terms of one pod, and of all, from which on newcomers are told apart by all their labels, as they come."""
_SHAPES = 64
"""For how many newcomers it is remembered how they are seen."""


@dataclass(frozen=True, slots=True)
class KeepingOffTerms(PodFacet):
    """The terms of the required anti-affinity that pods have."""

    def of(self, shape: PodShape) -> Collection[Hashable]:
        return _told(shape, affinity_terms(shape).anti_affinity)


@dataclass(frozen=True, slots=True)
class DrawingTerms(PodFacet):
    """The terms by which pods draw others."""

    required_weight: int

    def of(self, shape: PodShape) -> Collection[Hashable]:
        by_key = drawing_terms(shape, self.required_weight).values()
        return _told(shape, [weighted.term for each in by_key for weighted in each])


def _told(shape: PodShape, terms: Collection[Term]) -> Collection[Hashable]:
    if len(terms) > _MOST or (terms and shape.size > _BIG):
        return (TOO_MUCH,)
    return frozenset(terms)


class Sight:
    """How newcomers are seen by terms of one facet."""

    def __init__(self, facet: PodFacet) -> None:
        self._facet = facet
        self._carried = Carried()
        self._at = (-1, -1)
        self._known: dict[PodShape, Meant] = {}

    def of(self, newcomer: Newcomer, nodes: NodeTable, namespaces: int) -> Newcomer | Meant:
        """The newcomer as it is seen; itself where that would be too much. `namespaces` is the version of those."""
        carried = nodes.carried(self._facet)
        if newcomer.is_large or len(carried) > _MOST or TOO_MUCH in carried:
            return newcomer
        at = (carried.version, namespaces)
        if carried is not self._carried or at != self._at or len(self._known) >= _SHAPES:
            self._carried, self._at = carried, at
            self._known.clear()
        known = self._known.get(newcomer.shape)
        if known is None:
            known = self._known[newcomer.shape] = Meant(frozenset(_speaking_of(newcomer, carried)))
        return known


def _speaking_of(newcomer: Newcomer, carried: Iterable[Term]) -> Iterable[Term]:
    return (term for term in carried if newcomer.is_meant_by(term))
