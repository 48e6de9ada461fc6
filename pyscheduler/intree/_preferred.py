"""The preferred node affinity of a pod, added up for one node and for many.

Up to `FEW` requirements are evaluated one after the other, more of them together.
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
    """Some weighted terms."""

    def score(self, node: NodeInfo) -> int:
        """The sum of the weights of the terms that a node satisfies."""

    def scores(self, nodes: NodeTable) -> Scores:
        """That of every node of a table."""


class FewPreferences(NamedTuple):
    """Terms evaluated one after the other."""

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
    """True if any term matches nothing, as it is empty or kube-scheduler cannot parse it."""

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
"""By signature; None for one that has few. It goes with the last pod of the signature."""


def many_preferences(signature: PodSignature) -> ManyPreferences | None:
    """The preferences of a signature that has many; None for one that has few."""
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
    """The preferences as they are stated."""
    affinity = signature.affinity.node_affinity
    return (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
