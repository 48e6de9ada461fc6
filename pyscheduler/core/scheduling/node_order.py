"""The order in which nodes are searched, how many, and how ties are broken: two variants.

The default evaluates every node and breaks ties pseudo-randomly. The other one reproduces kube-scheduler exactly: it
visits the nodes zone by zone, starts where the last attempt stopped, stops once enough nodes fit, and breaks ties by
heap order. It follows `findNodesThatPassFilters`, `numFeasibleNodesToFind` and `newSortedNodeScores` of schedule_one.go
as they behave with one worker (`parallelism: 1`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Scores
from pyscheduler.core.scheduling.feasible_nodes import FeasibleNodes
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows

MIN_FEASIBLE_NODES = 100
"""Kube-scheduler's minFeasibleNodesToFind: the search does not stop below this number of feasible nodes."""
MIN_PERCENTAGE = 5
"""Kube-scheduler's minFeasibleNodesPercentageToFind: lower bound of the adaptive percentage in large clusters."""


class SearchOrder(ABC):
    """Select which feasible nodes are scored and which of the best is taken."""

    @abstractmethod
    def begin(self) -> None:
        """Start an attempt."""

    @abstractmethod
    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:
        """Return the feasible rows to be scored, in the order in which they are found.

        None stands for all rows that the equivalence cache holds as feasible, with ties broken pseudo-randomly.
        `nominated` is the row of the pod's nominated node if the pod does not fit there.
        """

    @abstractmethod
    def pick(self, totals: Scores, cycle: Cycle) -> int:
        """Return the index of the selected node in `totals`, which has at least one element."""


class EveryNode(SearchOrder):
    """All nodes; ties are broken pseudo-randomly, seeded from the attempt."""

    def begin(self) -> None:
        pass

    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:  # noqa: ARG002
        return None if found.result_cache is not None else np.flatnonzero(found.fits)

    def pick(self, totals: Scores, cycle: Cycle) -> int:
        best = np.flatnonzero(totals == totals.max())
        return int(best[cycle.random_bits() % len(best)]) if len(best) > 1 else int(best[0])


@dataclass(slots=True)
class NextStartNode:
    """Start index of the next search in the node order: kube-scheduler's nextStartNodeIndex, shared by all profiles."""

    index: int = 0


class KubeSchedulerOrder(SearchOrder):
    """Kube-scheduler's node order, sample and tie-break; `percentage` 0 adapts the sample to the size of the cluster.

    `scored` is False if neither plugins nor extenders rank nodes: the search then stops at the first feasible node.
    """

    def __init__(self, state: ClusterState, start: NextStartNode, percentage: int, scored: bool) -> None:
        self._state = state
        self._start = start
        self._percentage = percentage
        self._scored = scored

    def begin(self) -> None:
        self._state.order.names()

    def visit(self, found: FeasibleNodes, nominated: int | None = None) -> Rows | None:
        order = self._rows_to_visit(found.among)
        if not len(order):
            return order
        enough = nodes_to_find(len(order), self._percentage) if self._scored else 1
        start = self._start.index % len(order)
        round_trip = np.concatenate((order[start:], order[:start]))
        places = np.flatnonzero(found.fits[round_trip])
        # The worker stops at the first feasible node beyond the limit; infeasible ones before it count as visited.
        processed = int(places[enough]) if len(places) > enough else len(order)
        visited = round_trip[:processed]
        if nominated is not None and nominated not in visited:
            processed += 1
        self._start.index = (self._start.index + processed) % len(self._state)
        return visited[found.fits[visited]]

    def pick(self, totals: Scores, cycle: Cycle) -> int:  # noqa: ARG002
        return top_of_heap(totals)

    def _rows_to_visit(self, among: Rows | None) -> Rows:
        """Return the rows to visit, in the order of the node tree.

        Kube-scheduler visits nodes named by PreFilter in the random order of a Go map, so any order conforms.
        """
        order = self._state.node_order_rows()
        return order if among is None else order[np.isin(order, among)]


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes at which the search stops; `percentage` 0 is adaptive."""
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


def top_of_heap(totals: Scores) -> int:
    """Return the index of the element that Go's container/heap has at its top after Init, greatest first.

    Init sifts each parent down, from the last to the first, and a child rises only past a smaller parent; the left
    child unless the right one is greater. Among equal totals a parent stays above its children, and the left subtree
    wins over the right one. The top is therefore the first of the best totals in preorder: parent, left, right.
    """
    best = np.flatnonzero(totals == totals.max())
    if len(best) == 1:
        return int(best[0])
    # Node i's number i+1, written in binary after its leading 1, is its path from the root: 0 left, 1 right. Padded
    # with zeros to one length, paths sort in preorder, an ancestor equal to its leftmost descendants; of those argmin
    # takes the first, the one nearest to the root.
    number = best + 1
    depth = np.frexp(number)[1]
    return int(best[np.argmin(number << (depth.max() - depth))])
