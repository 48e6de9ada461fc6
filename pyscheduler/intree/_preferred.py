"""Preferred node affinity of a pod: the sum of the weights of the matching terms, for one node or all.

Up to `FEW` requirements are evaluated one by one, more of them together by a `TermMatcher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from pyscheduler.api import Ints, NodeInfo, NodeTable, NodeTerm, PodSignature, Scores
from pyscheduler.api.objects import PreferredSchedulingTerm
from pyscheduler.intree._required import are_many
from pyscheduler.intree._term_matcher import (
    NODE_NAME,
    SMALL,
    MappingRows,
    NodeRows,
    TermMatcher,
    node_requirements,
)


class Preferences(Protocol):
    """Weighted node selector terms."""

    def score(self, node: NodeInfo) -> int:
        """Return the sum of the weights of the terms that a node satisfies."""

    def scores(self, nodes: NodeTable) -> Scores:
        """Return `score` for every node of a table."""


class FewPreferences(NamedTuple):
    """Terms evaluated one by one."""

    terms: tuple[tuple[int, NodeTerm], ...]

    def score(self, node: NodeInfo) -> int:
        return sum(weight for weight, term in self.terms if term.matches(node.name, node.labels))

    def scores(self, nodes: NodeTable) -> Scores:
        scores = np.zeros(len(nodes), np.int64)
        for weight, term in self.terms:
            scores += nodes.matches_term(term) * weight
        return scores


class ManyPreferences(NamedTuple):
    """Terms evaluated together."""

    matcher: TermMatcher
    weights: Ints
    is_broken: bool
    """True if a term matches nothing because it is empty or kube-scheduler cannot parse it."""

    @staticmethod
    def of(stated: Sequence[PreferredSchedulingTerm]) -> ManyPreferences:
        terms = node_requirements([each.preference for each in stated])
        weights = np.array([each.weight for each, term in zip(stated, terms, strict=True) if term], np.int64)
        return ManyPreferences(TermMatcher(filter(None, terms)), weights, len(weights) < len(stated))

    def score(self, node: NodeInfo) -> int:
        return int(self.matcher.total(MappingRows([{**node.labels, NODE_NAME: node.name}]), self.weights)[0])

    def scores(self, nodes: NodeTable) -> Scores:
        return self.matcher.total(NodeRows(nodes), self.weights)


_many: WeakKeyDictionary[PodSignature, ManyPreferences | None] = WeakKeyDictionary()
"""By signature; None for signatures with few preferences. An entry is dropped with the last pod of its signature."""


def many_preferences(signature: PodSignature) -> ManyPreferences | None:
    """Return the preferences of a signature that has many; None for one that has few."""
    if signature.size <= SMALL:
        return None
    try:
        return _many[signature]
    except KeyError:
        stated = stated_preferences(signature)
        many = None
        if are_many([each.preference for each in stated]):
            many = ManyPreferences.of(stated)
        _many[signature] = many
        return many


def stated_preferences(signature: PodSignature) -> Sequence[PreferredSchedulingTerm]:
    """Return the preferred terms as the pod's spec states them."""
    affinity = signature.affinity.node_affinity
    return (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
