"""How much is where already: the raw score of soft constraints, the lower the better.

Numbers are float64 and put together in kube-scheduler's order, for its scores to come out. Its logarithm and ours may
differ in the last bit; that decides no rounding for up to 15,000 domains of up to 200,000 pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import MAX_NODE_SCORE, Ints, Mask, NodeInfo, NodeTable, PodShape, Scores
from pyscheduler.api.topology import MISSING
from pyscheduler.intree.spread.constraints import HOSTNAME, Spread, Spreads
from pyscheduler.intree.spread.counts import Tally, tally
from pyscheduler.intree.spread.nodes import Regions, blanks_filled, complete


@dataclass(frozen=True, slots=True)
class Crowd:
    """One soft constraint in one attempt. `weight` makes up for pods being thinner where domains are many."""

    spread: Spread
    weight: float
    tally: Tally | None
    """None: the constraint is by host name, and each node's own pods count."""

    def on(self, node: NodeInfo) -> float:
        """What the constraint adds to a node's score; nothing where the node lacks the label."""
        value = node.labels.get(self.spread.key)
        if value is None:
            return 0.0
        pods = self._pods_on(node) if self.tally is None else self.tally.at(value)
        return pods * self.weight + (self.spread.max_skew - 1)

    def on_all(self, nodes: NodeTable) -> NDArray[np.float64]:
        """The same for many nodes."""
        topology = nodes.topology(self.spread.key)
        if self.tally is None:
            count = self.spread.count
            pods = nodes.count_pods(count) if count is not None else np.zeros(len(nodes), np.int64)
        else:
            pods = self.tally.by_ids_of(topology)[topology.ids]
        return np.where(topology.ids == MISSING, 0.0, pods * self.weight + (self.spread.max_skew - 1))

    def _pods_on(self, node: NodeInfo) -> int:
        count = self.spread.count
        return sum(count.of(p.shape) for p in node.pods.values() if not p.deleting) if count is not None else 0


@dataclass(frozen=True, slots=True)
class Crowding:
    """All soft constraints in one attempt. Nodes that are `ignored` (one per feasible node) score 0, the worst."""

    crowds: tuple[Crowd, ...]
    require_all: bool
    ignored: Mask

    def on(self, node: NodeInfo) -> int:
        """The raw score of a node."""
        if self.require_all and not _has_all(self.crowds, node.labels):
            return 0
        return _rounded(sum(crowd.on(node) for crowd in self.crowds))

    def on_all(self, nodes: NodeTable) -> Scores:
        """The raw scores of many nodes."""
        total = np.zeros(len(nodes), np.float64)
        for crowd in self.crowds:
            total += crowd.on_all(nodes)
        scores = _all_rounded(total)
        if self.require_all:
            scores[~complete([nodes.topology(crowd.spread.key) for crowd in self.crowds])] = 0
        return scores

    def rescaled(self, scores: Scores) -> Scores:
        """The final scores of the feasible nodes: 100 for the least crowded."""
        counted = scores[~self.ignored]
        most = max(0, int(counted.max())) if len(counted) else 0
        if most == 0:
            final = np.full_like(scores, MAX_NODE_SCORE)
        else:
            final = MAX_NODE_SCORE * (most + int(counted.min()) - scores) // most
        final[self.ignored] = 0
        return final


def crowding(spreads: Spreads, shape: PodShape, feasible: NodeTable, regions: Regions, require_all: bool) -> Crowding:
    """What a pod of the shape finds; `require_all` as in `Regions.of`."""
    whole = feasible.whole
    topologies = [feasible.topology(spread.key) for spread in spreads]
    ignored = ~complete(topologies) if require_all else np.zeros(len(feasible), np.bool_)
    scored = len(feasible) - int(np.count_nonzero(ignored))
    crowds = []
    for spread, topology, region in zip(
        spreads, topologies, regions.of(spreads, shape, whole, require_all), strict=True
    ):
        if spread.key == HOSTNAME:
            crowds.append(Crowd(spread, _weight(scored), None))
            continue
        ids = topology.ids[~ignored] if require_all else blanks_filled(topology)
        counts = whole.count_pods(spread.count) if spread.count is not None else None
        crowds.append(Crowd(spread, _weight(int(np.count_nonzero(np.bincount(ids)))), tally(region, counts)))
    return Crowding(tuple(crowds), require_all, ignored)


def _weight(domains: int) -> float:
    return math.log(domains + 2)


def _has_all(crowds: tuple[Crowd, ...], labels: Mapping[str, str]) -> bool:
    return all(crowd.spread.key in labels for crowd in crowds)


def _rounded(amount: float) -> int:
    """Half away from zero, as Go's math.Round."""
    whole = math.trunc(amount)
    rest = amount - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def _all_rounded(amounts: NDArray[np.float64]) -> Ints:
    whole = np.trunc(amounts)
    rest = amounts - whole
    return (whole + (rest >= 0.5) - (rest <= -0.5)).astype(np.int64)
