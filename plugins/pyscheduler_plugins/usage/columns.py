"""Usage of all nodes in columns, updated for the nodes that changed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, Mask, NodeInfo, NodeLister, NodeTable
from pyscheduler_plugins.usage.samples import RESOURCES, Sample, Samples

Floats = NDArray[np.float64]


class NodeUsage(NamedTuple):
    """Usage of some nodes, with one row per node and a column for each resource."""

    measured: Floats
    recent: Floats
    """Requests of pods that started after the sample, or have not started yet: they are not measured."""
    fresh: Mask
    """True for nodes with a sample that is not stale."""


def recent_requests(node: NodeInfo, sample: Sample) -> list[int]:
    """Return the requests of the pods that the sample of a node does not include, by resource."""
    started_later = [pod.requests.non_zero for pod in node.pods.values() if pod.started > sample.time]
    return [sum(requests[resource] for requests in started_later) for resource in RESOURCES]


class UsageColumns:
    """Samples and requests of recent pods by row of the table of all nodes."""

    def __init__(self, samples: Samples, nodes: NodeLister) -> None:
        self._samples = samples
        self._nodes = nodes
        self._generations: Ints = np.empty(0, np.int64)
        self._times: Floats = np.empty(0)
        self._measured: Floats = np.empty((0, len(RESOURCES)))
        self._recent: Floats = np.empty((0, len(RESOURCES)))

    def of(self, nodes: NodeTable) -> NodeUsage | None:
        """Return the usage of the nodes of a table; None if it is a dry run, with other pods on its nodes."""
        self._refresh()
        rows = self._rows(nodes.generations)
        if rows is None:
            return None
        return NodeUsage(self._measured[rows], self._recent[rows], self._samples.are_fresh(self._times[rows]))

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
        self._generations = generations.copy()

    def _resize(self, n: int) -> None:
        self._generations = np.full(n, -1, np.int64)
        self._times = np.full(n, -math.inf)
        self._measured, self._recent = np.zeros((n, len(RESOURCES))), np.zeros((n, len(RESOURCES)))

    def _read(self, i: int, node: NodeInfo) -> None:
        sample = self._samples.get(node.name)
        self._times[i] = -math.inf if sample is None else sample.time
        if sample is not None:
            self._measured[i] = sample.usage
            self._recent[i] = recent_requests(node, sample)
