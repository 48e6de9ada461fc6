"""Results of Usage for all nodes in columns, evaluated again only for nodes that changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, NodeInfo, NodeLister, NodeTable
from pyscheduler_plugins.usage.samples import Sample, Samples


class Evaluation(NamedTuple):
    """Results for a node with a current sample: number of the busy resource, 0 for none, and score."""

    busy: int
    score: int


class Evaluations(NamedTuple):
    """Results per node; 0 without a sample."""

    busy: NDArray[np.int32]
    scores: Ints


class UsageColumns:
    """Results by row of the table of all nodes. A row is evaluated when its node, its pods or its sample change."""

    def __init__(self, samples: Samples, nodes: NodeLister, evaluate: Callable[[NodeInfo, Sample], Evaluation]) -> None:
        self._samples = samples
        self._nodes = nodes
        self._evaluate = evaluate
        self._resize(0)

    def of(self, nodes: NodeTable) -> Evaluations | None:
        """Return the results for the nodes of a table; None if it is a dry run, with other pods on its nodes."""
        self._refresh()
        rows = self._rows(nodes.generations)
        if rows is None:
            return None
        # A sample becomes stale while its row does not change, so this is not a part of the evaluation.
        fresh = self._samples.are_fresh(self._times[rows])
        return Evaluations(self._busy[rows] * fresh, self._scores[rows] * fresh)

    def _rows(self, generations: Ints) -> NDArray[np.intp] | slice | None:
        """Return the rows with these generations, which are all different; None if one of them is missing."""
        current = self._generations
        if np.array_equal(generations, current):
            return slice(None)
        order = np.argsort(current)
        places = np.searchsorted(current, generations, sorter=order)
        if len(places) and places.max() >= len(order):
            return None
        rows = order[places]
        return rows if np.array_equal(current[rows], generations) else None

    def _refresh(self) -> None:
        changed = self._samples.take_changed()
        nodes = self._nodes.table()
        generations = nodes.generations
        if len(generations) != len(self._generations):
            self._resize(len(generations))
        dirty = generations != self._generations
        if changed is None:
            dirty[:] = True
        elif changed:
            dirty |= nodes.named(frozenset(changed))
        for i in np.flatnonzero(dirty).tolist():
            self._read(i, nodes[i])
            self._generations[i] = generations[i]

    def _resize(self, n: int) -> None:
        self._generations: Ints = np.full(n, -1, np.int64)
        self._times: NDArray[np.float64] = np.full(n, -math.inf)
        self._busy: NDArray[np.int32] = np.zeros(n, np.int32)
        self._scores: Ints = np.zeros(n, np.int64)

    def _read(self, i: int, node: NodeInfo) -> None:
        sample = self._samples.get(node.name)
        self._times[i] = -math.inf if sample is None else sample.time
        if sample is not None:
            self._busy[i], self._scores[i] = self._evaluate(node, sample)
