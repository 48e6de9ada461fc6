"""Kube-scheduler's node order: which feasible nodes are scored, and how ties between them are broken.

Without it every feasible node is scored, and ties are broken pseudo-randomly (`random_best`). With it the nodes are
searched zone by zone from where the last attempt stopped until enough of them fit, and ties are broken by heap order.
This follows `findNodesThatPassFilters`, `numFeasibleNodesToFind` and `newSortedNodeScores` of
schedule_one.go as they behave with one worker (`parallelism: 1`).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.normalize import Scores
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows

MIN_FEASIBLE_NODES = 100
"""Kube-scheduler's minFeasibleNodesToFind: the search does not stop below this number of feasible nodes."""
MIN_PERCENTAGE = 5
"""Kube-scheduler's minFeasibleNodesPercentageToFind: lower bound of the adaptive percentage in large clusters."""


class NextStartNode(Struct):
    """Start index of the next search in the node order: kube-scheduler's nextStartNodeIndex, shared by all profiles."""

    index: int = 0


class KubeSchedulerOrder:
    """Kube-scheduler's node order, sample and tie-break; `percentage` 0 adapts the sample to the size of the cluster.

    `scored` is False if neither plugins nor extenders rank nodes: the search then stops at the first feasible node.
    """

    def __init__(self, state: ClusterState, start: NextStartNode, percentage: int, scored: bool) -> None:
        self._state = state
        self._start = start
        self._percentage = percentage
        self._scored = scored

    def update_snapshot(self) -> None:
        """Update the list of nodes at the start of an attempt (kube-scheduler's UpdateSnapshot).

        It must be then: the order depends on which changes of zones one update sees together.
        """
        self._state.order.names()

    def find_feasible_rows(self, fits: Mask, evaluated: Rows | None, nominated: int | None = None) -> Rows:
        """Return the feasible rows to be scored, in the order in which they are found, and move the start index.

        `evaluated` are the rows that PreFilter named, None for all. `nominated` is the row of the pod's nominated node
        if the pod does not fit there.
        """
        order = self._state.node_order_rows()
        if evaluated is not None:
            # Kube-scheduler visits these in the random order of a Go map, so any order conforms.
            order = order[np.isin(order, evaluated)]
        if not len(order):
            return order
        enough = num_feasible_nodes_to_find(len(order), self._percentage) if self._scored else 1
        start = self._start.index % len(order)
        round_trip = np.concatenate((order[start:], order[:start]))
        places = np.flatnonzero(fits[round_trip])
        # The worker stops at the first feasible node beyond the limit; infeasible ones before it count as processed.
        processed = int(places[enough]) if len(places) > enough else len(order)
        searched = round_trip[:processed]
        if nominated is not None and nominated not in searched:
            processed += 1
        self._start.index = (self._start.index + processed) % len(self._state)
        return searched[fits[searched]]


def num_feasible_nodes_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes at which the search stops; `percentage` 0 is adaptive."""
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


def random_best(totals: Scores, cycle: Cycle) -> int:
    """Return the index of one of the best totals, chosen pseudo-randomly with the attempt's seed."""
    best = np.flatnonzero(totals == totals.max())
    return int(best[cycle.random_bits() % len(best)]) if len(best) > 1 else int(best[0])


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
