"""Evaluation of many pod affinity terms at once, for many pods. `Peers.include` is the specification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pyscheduler.api import Ints, PodSignature, Requirement
from pyscheduler.intree._term_matcher import MappingRows, TermMatcher, are_many_requirements
from pyscheduler.intree.affinity.terms import NO_LABELS, LabelledPod, Labels, Peers

_NAMESPACE = "\0namespace"
"""Label key that stands for a pod's namespace; no real label can have it."""
_OF_NAMESPACE = "\0namespace "
"""Prefix of the label keys of a pod's namespace."""
Conjunction = tuple[Requirement, ...]


def are_many(peers: Sequence[Peers]) -> bool:
    """Return True if evaluating the peers one by one is slow."""
    return are_many_requirements(_requirements(peers))


def rows_of(pods: Iterable[LabelledPod], namespace_labels: Labels = NO_LABELS) -> MappingRows:
    """Return pods as rows for a matcher, in namespaces with these labels."""
    more = {_OF_NAMESPACE + key: value for key, value in namespace_labels.items()}
    return MappingRows([{**pod.labels, **more, _NAMESPACE: pod.namespace} for pod in pods])


class PeersMatcher:
    """Peers, each with a weight, evaluated together."""

    def __init__(self, weighted: Iterable[tuple[Peers, int]], by_labels: bool = False) -> None:
        """Compile the peers. `by_labels`: rows carry the labels of their namespaces, for namespaceSelectors."""
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
        """Return the sum of the weights of the peers that include each pod."""
        totals: list[int] = self._matcher.total(rows, self._weights).tolist()
        return totals


def times_included(peers: Iterable[Peers], signatures: Sequence[PodSignature]) -> list[int]:
    """Return the number of peers that include the pods of each signature."""
    return PeersMatcher((each, 1) for each in peers).totals(rows_of(signatures))


def included_by_all(peers: Iterable[Peers], rows: MappingRows) -> list[bool]:
    """Return for each pod True if all of the peers, at least one, include it."""
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
    """Yield peers as mutually exclusive conjunctions: a pod in a named namespace, and one in a selected namespace.

    Without `by_labels`, namespaces count as unlabelled, and there is at most one conjunction.
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
