"""Many terms of pod affinity evaluated together, for many pods. `Peers.include` is the specification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pyscheduler.api import Ints, PodSignature, Requirement
from pyscheduler.intree._term_matcher import MappingRows, TermMatcher, are_many_requirements
from pyscheduler.intree.affinity.terms import NO_LABELS, Labels, Peers

_NAMESPACE = "\0namespace"
"""Stands for a pod's namespace among label keys; no label can have it."""
_OF_NAMESPACE = "\0namespace "
"""Before the keys of the labels of a pod's namespace."""
Conjunction = tuple[Requirement, ...]


def are_many(peers: Sequence[Peers]) -> bool:
    """Return True if evaluating some peers one after the other takes long."""
    return are_many_requirements(_requirements(peers))


def rows_of(shapes: Iterable[PodSignature], namespace_labels: Labels = NO_LABELS) -> MappingRows:
    """Pods to be matched, in namespaces with these labels."""
    more = {_OF_NAMESPACE + key: value for key, value in namespace_labels.items()}
    return MappingRows([{**signature.labels, **more, _NAMESPACE: signature.namespace} for signature in shapes])


class PeersMatcher:
    """Some peers, each with a weight."""

    def __init__(self, weighted: Iterable[tuple[Peers, int]], by_labels: bool = False) -> None:
        """`by_labels`: rows have the labels of their namespaces, which terms may select by."""
        conjunctions: list[Conjunction] = []
        weights: list[int] = []
        namespaces: dict[frozenset[str], Requirement] = {}
        for peers, weight in weighted:
            for conjunction in _alternatives(peers, namespaces, by_labels):
                conjunctions.append(conjunction)
                weights.append(weight)
        self._matcher = TermMatcher(conjunctions)
        self._weights: Ints = np.array(weights, np.int64)

    def totals(self, rows: MappingRows) -> list[int]:
        """The sum of the weights of the peers that include each pod."""
        totals: list[int] = self._matcher.total(rows, self._weights).tolist()
        return totals


def times_included(peers: Iterable[Peers], shapes: Sequence[PodSignature]) -> list[int]:
    """Number of some peers that include the pods of each signature."""
    return PeersMatcher((each, 1) for each in peers).totals(rows_of(shapes))


def included_by_all(peers: Iterable[Peers], rows: MappingRows) -> list[bool]:
    """True for each pod that all of some peers, at least one, include."""
    namespaces: dict[frozenset[str], Requirement] = {}
    together: dict[Requirement, None] = {}
    for each in peers:
        alternatives = [*_alternatives(each, namespaces, by_labels=False)]
        if not alternatives:
            return [False] * len(rows)
        together.update(dict.fromkeys(alternatives[0]))
    included: list[bool] = TermMatcher([(*together,)]).any(rows).tolist()
    return included


def _alternatives(
    peers: Peers, namespaces: dict[frozenset[str], Requirement], by_labels: bool
) -> Iterator[Conjunction]:
    """Peers as conjunctions of which at most one holds: of a pod in a named namespace, and of one in a chosen one.

    Without `by_labels` namespaces have no labels, and there is one at most.
    """
    if peers.selector is None:
        return
    requirements, chosen = peers.selector.requirements, peers.namespace_selector
    if chosen is not None and (not chosen.requirements or (not by_labels and chosen.matches(NO_LABELS))):
        yield requirements
        return
    if peers.namespaces:
        named = namespaces.get(peers.namespaces)
        if named is None:
            named = namespaces[peers.namespaces] = Requirement(_NAMESPACE, "In", tuple(peers.namespaces))
        yield (named, *requirements)
    if chosen is not None and by_labels:
        selected = [Requirement(_OF_NAMESPACE + r.key, r.operator, r.values) for r in chosen.requirements]
        elsewhere = [Requirement(_NAMESPACE, "NotIn", tuple(peers.namespaces))] if peers.namespaces else []
        yield (*selected, *elsewhere, *requirements)


def _requirements(peers: Iterable[Peers]) -> Iterator[Requirement]:
    for each in peers:
        yield Requirement(_NAMESPACE, "In", tuple(each.namespaces))
        for selector in (each.selector, each.namespace_selector):
            yield from selector.requirements if selector is not None else ()
