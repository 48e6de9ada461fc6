"""Raw scores of soft constraints; lower is better.

Sums are float64 in kube-scheduler's order, so that the rounded scores are equal. Python's logarithm and Go's may
differ in the last bit; that changes no rounding for up to 15,000 domains of up to 200,000 pods.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pyscheduler import kernels
from pyscheduler.api import (
    MAX_NODE_SCORE,
    Domains,
    Ints,
    Mask,
    NodeEquivalence,
    NodeInfo,
    NodeTable,
    Normalizer,
    PodCount,
    PodSignature,
    Scores,
)
from pyscheduler.intree.spread.constraints import HOSTNAME, SpreadConstraint, SpreadConstraints
from pyscheduler.intree.spread.counts import DomainPodCounts, count_pods_by_domain
from pyscheduler.intree.spread.nodes import (
    EligibleDomains,
    EligibleDomainsCache,
    has_all_topologies,
    missing_as_empty,
)

IGNORED = -1
"""Raw score of a node that lacks a required topology key."""


class _Span(NamedTuple):
    """Extremes of the raw scores, IGNORED ones left out."""

    least: int
    most: int
    has_ignored: bool


@dataclass(frozen=True, slots=True)
class SpreadNormalizer(Normalizer):
    """Rescale the lowest raw score to 100 and the others in proportion; IGNORED nodes get 0."""

    def span(self, scores: Scores) -> _Span:
        counted = scores[scores != IGNORED]
        has_ignored = len(counted) < len(scores)
        return _Span(int(counted.min()), int(counted.max()), has_ignored) if len(counted) else _Span(0, 0, has_ignored)

    def span_between(self, least: int, most: int) -> _Span | None:
        return _Span(least, most, has_ignored=False) if least != IGNORED else None

    def rescale(self, scores: Scores, span: _Span) -> Scores:
        least, most, has_ignored = span
        if not most:
            final = np.full_like(scores, MAX_NODE_SCORE)
        else:
            final = most + least - scores
            final *= MAX_NODE_SCORE
            final //= most
        if has_ignored:
            final[scores == IGNORED] = 0
        return final


class ConstraintScore(NamedTuple):
    """Part of the score that one soft constraint contributes. `weight` grows with the number of domains.

    The constraint on host names has no counts by domain: it counts the pods of each node itself.
    """

    spread: SpreadConstraint
    weight: float
    all_labelled: bool
    """True if each node of the cluster has the label."""

    def on(self, node: NodeInfo, counts: DomainPodCounts | None) -> float:
        """Return the constraint's part of a node's score; 0 if the node lacks the label."""
        value = node.labels.get(self.spread.key)
        if value is None:
            return 0.0
        pods = self._pods_on(node) if counts is None else counts.at(value)
        return pods * self.weight + (self.spread.max_skew - 1)

    def term(
        self, nodes: NodeTable, counts: DomainPodCounts | None
    ) -> tuple[float, int, Ints, NDArray[np.intp] | None]:
        """Return the constraint's part of the scores of all nodes of a table, as a term of `kernels.rounded_sums`."""
        topology = None
        if counts is not None:
            topology = nodes.topology(self.spread.key)
            pods = counts.by_ids_of(topology).take(topology.ids)
        elif self.spread.count is not None:
            pods = nodes.count_pods(self.spread.count)
        else:
            pods = np.zeros(len(nodes), np.int64)
        if self.all_labelled:
            return self.weight, self.spread.max_skew - 1, pods, None
        # NO_DOMAIN is 0, so the term does not apply without the label.
        ids = (nodes.topology(self.spread.key) if topology is None else topology).ids
        return self.weight, self.spread.max_skew - 1, pods, ids

    def _pods_on(self, node: NodeInfo) -> int:
        count, pods = self.spread.count, 0
        if count is not None:
            for pod in node.pods.values():
                if not pod.deleting:
                    pods += count.of(pod.signature)
        return pods


class SpreadScore(NamedTuple):
    """State of all soft constraints in one attempt, at least one."""

    weighted: WeightedConstraints
    counts: Sequence[DomainPodCounts | None]
    """Counts of each constraint; None for the one on host names."""
    require_all: bool

    @property
    def cache_key(self) -> Hashable | None:
        """Weights and the number of pods of each domain; None if each placement of such a pod changes them."""
        if self.weighted.counts_itself:
            return None
        counted = [each.amounts.tobytes() for each in self.counts if each is not None]
        return (*[each.weight for each in self.weighted.scores], *counted)

    def on(self, node: NodeInfo) -> int:
        """Return the raw score of a node."""
        scores = self.weighted.scores
        if self.require_all and not all(each.spread.key in node.labels for each in scores):
            return IGNORED
        return _rounded(sum(map(ConstraintScore.on, scores, repeat(node), self.counts)))

    def on_all(self, nodes: NodeTable) -> Scores:
        """Return the raw scores of all nodes of a table."""
        constraint_scores, scores = self.weighted.scores, np.empty(len(nodes), np.int64)
        kernels.rounded_sums(scores, tuple(map(ConstraintScore.term, constraint_scores, repeat(nodes), self.counts)))
        if self.require_all:
            for each in constraint_scores:
                if not each.all_labelled:
                    scores[nodes.topology(each.spread.key).unlabelled] = IGNORED
        return scores


class WeightedConstraints(NamedTuple):
    """Weights of constraints for the nodes that were feasible."""

    rows: ref[NDArray[np.intp]] | None
    """The scored nodes; None for all."""
    scores: tuple[ConstraintScore, ...]
    equivalence: NodeEquivalence | None
    """One object as long as the weights hold, so that it is compared by identity."""
    counts_itself: bool
    """True if the pod matches one of the constraints by domain, as those of Deployments do."""

    @staticmethod
    def of(
        scores: tuple[ConstraintScore, ...], signature: PodSignature, rows: NDArray[np.intp] | slice
    ) -> WeightedConstraints:
        """Return the weights in `scores` for pods of the signature with these rows feasible."""
        by_domain = [each.spread.count for each in scores if each.spread.key != HOSTNAME]
        counts_itself = any(count is not None and count.of(signature) for count in by_domain)
        return WeightedConstraints(
            None if isinstance(rows, slice) else ref(rows), scores, _equivalence(scores), counts_itself
        )

    def holds(self, rows: NDArray[np.intp] | slice) -> bool:
        """Return True if the weights are still those with these rows feasible."""
        return self.rows is None if isinstance(rows, slice) else self.rows is not None and self.rows() is rows


class SpreadScores:
    """States of soft constraints; all but the counts is kept by signature until other nodes are feasible."""

    def __init__(self) -> None:
        self._domains = EligibleDomainsCache[WeightedConstraints]()

    def of(
        self, spreads: SpreadConstraints, signature: PodSignature, feasible: NodeTable, require_all: bool
    ) -> SpreadScore:
        """Return the state for a pod of the signature; `require_all` as in `EligibleDomainsCache.of`."""
        whole, rows = feasible.all_nodes, feasible.positions
        eligible, of_signature = self._domains.of(spreads, signature, whole, require_all)
        weighted = of_signature.derived
        if weighted is None or not weighted.holds(rows):
            scores = _weighted(spreads, eligible, feasible, require_all)
            weighted = of_signature.derived = WeightedConstraints.of(scores, signature, rows)
        counts = [
            None if spread.key == HOSTNAME else count_pods_by_domain(spread, domains, whole)
            for spread, domains in zip(spreads, eligible, strict=True)
        ]
        return SpreadScore(weighted, counts, require_all)


def _weighted(
    spreads: SpreadConstraints,
    eligible: tuple[EligibleDomains, ...],
    feasible: NodeTable,
    require_all: bool,
) -> tuple[ConstraintScore, ...]:
    """Return the constraints with their weights."""
    topologies = [each.topology for each in eligible]
    if len(feasible) < feasible.total:
        topologies = [feasible.topology(spread.key) for spread in spreads]
    is_scored = has_all_topologies(topologies) if require_all else None
    scored = len(feasible) if is_scored is None else int(np.count_nonzero(is_scored))
    constraint_scores = []
    for spread, topology, domains in zip(spreads, topologies, eligible, strict=True):
        all_labelled = not len(domains.topology.unlabelled)
        weight = _weight(scored if spread.key == HOSTNAME else _domains(topology, is_scored))
        constraint_scores.append(ConstraintScore(spread, weight, all_labelled))
    return tuple(constraint_scores)


def _equivalence(constraint_scores: tuple[ConstraintScore, ...]) -> NodeEquivalence | None:
    keys: tuple[str, ...] = ()
    of_hosts: tuple[PodCount, ...] = ()
    for each in constraint_scores:
        if each.spread.key != HOSTNAME:
            keys += (each.spread.key,)
        elif not each.all_labelled:
            return None
        elif each.spread.count is not None:
            of_hosts += (each.spread.count,)
    return NodeEquivalence(keys, of_hosts)


def _domains(topology: Domains, is_scored: Mask | None) -> int:
    """Return the number of domains of the scored nodes; nodes without the label are one more domain."""
    if is_scored is not None:
        return int(np.count_nonzero(np.bincount(topology.ids[is_scored])))
    if len(topology.unlabelled):
        return int(np.count_nonzero(np.bincount(missing_as_empty(topology))))
    return topology.non_empty_count


def _weight(domains: int) -> float:
    return math.log(domains + 2)


def _rounded(amount: float) -> int:
    """Round half away from zero, as Go's math.Round."""
    whole = math.trunc(amount)
    rest = amount - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)
