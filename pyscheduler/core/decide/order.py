"""In which order nodes are looked at, how many, and who wins a tie: our own way, and kube-scheduler's to the letter.

Our own way looks at every node and lets chance decide between equals. Kube-scheduler goes round the nodes, zone by
zone, from where the last attempt stopped, stops once it has found enough that fit, and lets its heap decide between
equals: `findNodesThatPassFilters`, `numFeasibleNodesToFind` and `newSortedNodeScores` of its schedule_one.go, as they
behave with one worker (`parallelism: 1`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.core.decide.feasible_nodes import FeasibleNodes
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows

FEWEST_TO_FIND = 100
"""Kube-scheduler's minFeasibleNodesToFind: smaller clusters, and smaller shares of big ones, are not cut down."""
LOWEST_PERCENTAGE = 5
"""Kube-scheduler's minFeasibleNodesPercentageToFind: what the adaptive share sinks to in big clusters."""


class SearchOrder(ABC):
    """How a profile goes from the nodes that fit to one of them."""

    @abstractmethod
    def begin(self) -> None:
        """An attempt begins."""

    @abstractmethod
    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:
        """The rows that fit and count, in the order in which they are found; None: all that the evaluation holds
        feasible, and between equals chance decides.

        `nominated` is the row of the pod's nominated node where the pod did not fit there.
        """

    @abstractmethod
    def pick(self, totals: Scores, cycle: Cycle) -> int:
        """The place of the winner among the totals of the nodes that fit, at least one."""


class EveryNode(SearchOrder):
    """All nodes; between equals chance decides, seeded from the attempt."""

    def begin(self) -> None:
        pass

    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:  # noqa: ARG002
        return None if found.result_cache is not None else np.flatnonzero(found.fits)

    def pick(self, totals: Scores, cycle: Cycle) -> int:
        best = np.flatnonzero(totals == totals.max())
        return int(best[cycle.random_bits() % len(best)]) if len(best) > 1 else int(best[0])


@dataclass(slots=True)
class NextStartNode:
    """Where the next search starts, counted along the order of the nodes: nextStartNodeIndex, one for all profiles."""

    index: int = 0


class KubeSchedulerOrder(SearchOrder):
    """Kube-scheduler's order, sample and tie-break; `percentage` 0 adapts the sample to the size of the cluster.

    `scored` is whether anybody ranks nodes at all: if not, the first that fits is as good as any.
    """

    def __init__(self, state: ClusterState, start: NextStartNode, percentage: int, scored: bool) -> None:
        self._state = state
        self._start = start
        self._percentage = percentage
        self._scored = scored

    def begin(self) -> None:
        self._state.order.names()

    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:
        order = self._listed(found.among)
        if not len(order):
            return order
        enough = nodes_to_find(len(order), self._percentage) if self._scored else 1
        start = self._start.index % len(order)
        round_trip = np.concatenate((order[start:], order[:start]))
        places = np.flatnonzero(found.fits[round_trip])
        # The worker stops at the node that would be one too many; those before it that do not fit have been looked at.
        looked_at = int(places[enough]) if len(places) > enough else len(order)
        visited = round_trip[:looked_at]
        if nominated is not None and nominated not in visited:
            looked_at += 1
        self._start.index = (self._start.index + looked_at) % len(self._state)
        return visited[found.fits[visited]]

    def pick(self, totals: Scores, cycle: Cycle) -> int:  # noqa: ARG002
        return top_of_heap(totals)

    def _listed(self, among: Rows | None) -> Rows:
        """The rows to be looked at. Kube-scheduler takes named ones in the order of a Go map: any order will do."""
        order = self._state.node_order_rows()
        return order if among is None else order[np.isin(order, among)]


def nodes_to_find(nodes: int, percentage: int) -> int:
    """How many of so many nodes must fit before the search stops; `percentage` 0 is the adaptive one."""
    if nodes < FEWEST_TO_FIND:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, LOWEST_PERCENTAGE)
    return max(nodes * percentage // 100, FEWEST_TO_FIND)


def top_of_heap(totals: Scores) -> int:
    """Which of some totals Go's container/heap has at its top after Init, the greatest first.

    Init sifts each parent down from the last to the first, and a child rises only past a parent that is less, the left
    one unless the right one is greater. So of equals a parent stays above its children, and the left subtree beats the
    right: the top is the best total that comes first when the tree is walked parent, left, right.
    """
    best = np.flatnonzero(totals == totals.max())
    if len(best) == 1:
        return int(best[0])
    # Node i's number i+1, written in binary after its leading 1, is its path from the root: 0 left, 1 right. Padded
    # with zeros to one length, paths sort in the order of the walk, an ancestor level with its leftmost descendants;
    # of those argmin takes the first, which is the one nearest to the root.
    number = best + 1
    depth = np.frexp(number)[1]
    return int(best[np.argmin(number << (depth.max() - depth))])
