"""How much is where already: the raw score of soft constraints, the lower the better.

Numbers are float64 and put together in kube-scheduler's order, for its scores to come out. Its logarithm and ours may
differ in the last bit; that decides no rounding for up to 15,000 domains of up to 200,000 pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import (
    MAX_NODE_SCORE,
    Domains,
    Ints,
    Mask,
    NodeEquivalence,
    NodeInfo,
    NodeTable,
    Normalizer,
    PodSignature,
    Scores,
)
from pyscheduler.intree.spread.constraints import HOSTNAME, SpreadConstraint, SpreadConstraints
from pyscheduler.intree.spread.counts import DomainPodCounts, count_pods_by_domain
from pyscheduler.intree.spread.nodes import EligibleDomainsCache, has_all_topologies, missing_as_empty

IGNORED = -1
"""The raw score of a node that lacks a topology where it would need all of them."""
_MANY = 1 << 14
"""Up to so many combinations of domains are added up once each, and then looked up for every node."""


@dataclass(frozen=True, slots=True)
class SpreadNormalizer(Normalizer):
    """The least crowded node comes to 100, others in proportion; IGNORED ones to 0."""

    def span(self, scores: Scores) -> tuple[int, int]:
        counted = scores[scores != IGNORED]
        return (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)

    def span_between(self, least: int, most: int) -> tuple[int, int] | None:
        return (least, most) if least != IGNORED else None

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        final = MAX_NODE_SCORE * (most + least - scores) // most if most else np.full_like(scores, MAX_NODE_SCORE)
        final[scores == IGNORED] = 0
        return final


@dataclass(frozen=True, slots=True)
class ConstraintScore:
    """One soft constraint in one attempt. `weight` makes up for pods being thinner where domains are many."""

    spread: SpreadConstraint
    weight: float
    pod_counts: DomainPodCounts | None
    """None: the constraint is by host name, and each node's own pods count."""

    def on(self, node: NodeInfo) -> float:
        """What the constraint adds to a node's score; nothing where the node lacks the label."""
        value = node.labels.get(self.spread.key)
        if value is None:
            return 0.0
        amount: float = self._of(self._pods_on(node) if self.pod_counts is None else self.pod_counts.at(value))
        return amount

    def on_all(self, nodes: NodeTable) -> Amounts:
        """The same for many nodes."""
        topology = nodes.topology(self.spread.key)
        if self.pod_counts is None:
            count = self.spread.count
            pods = nodes.count_pods(count) if count is not None else np.zeros(len(nodes), np.int64)
            most = int(pods[pods.argmax()]) if len(pods) else 0
            amounts = Amounts(self._of(np.arange(most + 1)), pods)
        else:
            amounts = Amounts(self._of(self.pod_counts.by_ids_of(topology)), topology.ids)
        return amounts.without(topology.unlabelled)

    def _of(self, pods: Any) -> Any:
        return pods * self.weight + (self.spread.max_skew - 1)

    def _pods_on(self, node: NodeInfo) -> int:
        count = self.spread.count
        return sum(count.of(p.signature) for p in node.pods.values() if not p.deleting) if count is not None else 0


class Amounts(NamedTuple):
    """A number for each node: `values` by the small int that it has in `places`."""

    values: NDArray[np.float64]
    places: NDArray[np.int64]

    def without(self, nodes: NDArray[np.intp]) -> Amounts:
        """The same with 0 for some nodes."""
        if not len(nodes):
            return self
        places = self.places.copy()
        places[nodes] = len(self.values)
        return Amounts(np.append(self.values, 0.0), places)

    def plus(self, others: Amounts) -> Amounts:
        """Both added up, for each pair of values once if that is less work."""
        if len(self.values) * len(others.values) > _MANY:
            both = self.values.take(self.places) + others.values.take(others.places)
            return Amounts(both, np.arange(len(both)))
        places = self.places * len(others.values)
        places += others.places
        return Amounts(np.add.outer(self.values, others.values).ravel(), places)


@dataclass(frozen=True, slots=True)
class SpreadScore:
    """All soft constraints in one attempt, one at least."""

    constraint_scores: tuple[ConstraintScore, ...]
    require_all: bool
    all_have_hostname: bool
    """Whether each node of the cluster has a host name, if that matters."""

    @property
    def likeness(self) -> NodeEquivalence | None:
        """Which nodes have the same raw score; None where nodes lack the host name, and their own pods do not count."""
        if not self.all_have_hostname:
            return None
        keys = tuple([crowd.spread.key for crowd in self.constraint_scores if crowd.pod_counts is not None])
        of_hosts = [crowd.spread.count for crowd in self.constraint_scores if crowd.pod_counts is None]
        return NodeEquivalence(keys, tuple([count for count in of_hosts if count is not None]))

    def on(self, node: NodeInfo) -> int:
        """The raw score of a node."""
        if self.require_all and not _has_all(self.constraint_scores, node.labels):
            return IGNORED
        return _rounded(sum(crowd.on(node) for crowd in self.constraint_scores))

    def on_all(self, nodes: NodeTable) -> Scores:
        """The raw scores of many nodes."""
        total = self.constraint_scores[0].on_all(nodes)
        for crowd in self.constraint_scores[1:]:
            total = total.plus(crowd.on_all(nodes))
        scores: Scores = _all_rounded(total.values).take(total.places)
        if self.require_all:
            for crowd in self.constraint_scores:
                scores[nodes.topology(crowd.spread.key).unlabelled] = IGNORED
        return scores


def spread_score(
    spreads: SpreadConstraints,
    signature: PodSignature,
    feasible: NodeTable,
    regions: EligibleDomainsCache,
    require_all: bool,
) -> SpreadScore:
    """What a pod of the signature finds; `require_all` as in `EligibleDomainsCache.of`."""
    whole = feasible.all_nodes
    table = whole if len(feasible) == len(whole) else feasible
    topologies = [table.topology(spread.key) for spread in spreads]
    ignored = _lacking_any(topologies) if require_all else None
    scored = len(feasible) - (int(np.count_nonzero(ignored)) if ignored is not None else 0)
    constraint_scores, all_have_hostname = [], True
    for spread, topology, region in zip(
        spreads, topologies, regions.of(spreads, signature, whole, require_all), strict=True
    ):
        if spread.key == HOSTNAME:
            constraint_scores.append(ConstraintScore(spread, _weight(scored), None))
            all_have_hostname = not len(whole.topology(HOSTNAME).unlabelled)
        else:
            constraint_scores.append(
                ConstraintScore(
                    spread, _weight(_domains(topology, ignored)), count_pods_by_domain(spread, region, whole)
                )
            )
    return SpreadScore(tuple(constraint_scores), require_all, all_have_hostname)


def _lacking_any(topologies: list[Domains]) -> Mask | None:
    """Which nodes lack a topology; None if none does."""
    return ~has_all_topologies(topologies) if any(len(topology.unlabelled) for topology in topologies) else None


def _domains(topology: Domains, ignored: Mask | None) -> int:
    """How many domains the nodes are in that are not ignored, those that lack the label being one more."""
    if ignored is not None:
        return int(np.count_nonzero(np.bincount(topology.ids[~ignored])))
    if len(topology.unlabelled):
        return int(np.count_nonzero(np.bincount(missing_as_empty(topology))))
    return topology.non_empty_count


def _weight(domains: int) -> float:
    return math.log(domains + 2)


def _has_all(constraint_scores: tuple[ConstraintScore, ...], labels: Mapping[str, str]) -> bool:
    return all(crowd.spread.key in labels for crowd in constraint_scores)


def _rounded(amount: float) -> int:
    """Half away from zero, as Go's math.Round."""
    whole = math.trunc(amount)
    rest = amount - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def _all_rounded(amounts: NDArray[np.float64]) -> Ints:
    whole = np.trunc(amounts)
    rest = amounts - whole
    return (whole + (rest >= 0.5) - (rest <= -0.5)).astype(np.int64)
