"""Potential victims of all nodes in columns, sorted by importance, for preemptors of one priority.

Between two preemptions few nodes change, so only their pods are sorted again. The columns are appended to, and start
over when most of their entries are out of date.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Mask, NodeInfo, NodeTable, Pod, PodCount, PodKinds, PodSignature, PotentialVictims
from pyscheduler.intree.preemption.budgets import Budgets
from pyscheduler.intree.preemption.victims import by_importance

_SPARE = 1 << 12
"""Number of out-of-date entries up to which columns do not start over."""
_MAX_PRIORITIES = 4
"""Number of priorities of preemptors with columns, by least recent use."""
T = TypeVar("T", bound=np.generic)


class VictimMatrix(NamedTuple):
    """Potential victims of some nodes in the order of the reprieve: `[i, j]` is pod `i` of node `j`."""

    potential: PotentialVictims
    violating: NDArray[np.bool_]
    """Mask of the pods with evictions that violate a PodDisruptionBudget."""
    priorities: NDArray[np.int64]
    """Priority of each kind of pods."""
    started: NDArray[np.float64]
    """Start time of each pod in seconds, infinity if it has not started."""


class PotentialVictimColumns:
    """Pods below `priority` on each node; `refresh` must have been called for outdated nodes before they are read."""

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self.kinds = PodKinds()
        self._generations = np.zeros(0, np.int64)
        """Generation of each node when its pods were sorted; 0 if they were not."""
        self._first = np.zeros(0, np.intp)
        """Index of each node's first pod in the columns of pods."""
        self._count = np.zeros(0, np.intp)
        self._kind = np.empty(_SPARE, np.int32)
        self._started = np.empty(_SPARE, np.float64)
        self._used = 0
        """Number of entries in the columns of pods."""
        self._valid = 0
        """Number of those entries that belong to a node."""

    @property
    def is_mostly_outdated(self) -> bool:
        """True if most entries are out of date."""
        return max(self._used, len(self.kinds.signatures)) > 2 * self._valid + _SPARE

    def fit(self, nodes: int) -> None:
        """Make room for a number of nodes."""
        if nodes > len(self._generations):
            self._generations, self._first, self._count = (
                _grown(column, nodes) for column in (self._generations, self._first, self._count)
            )

    def outdated(self, nodes: NodeTable, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of the rows with a node that has changed since its pods were sorted."""
        is_outdated: Mask = nodes.generations[rows] != self._generations[rows]
        return rows[is_outdated]

    def refresh(self, nodes: NodeTable, rows: Iterable[int]) -> None:
        """Sort the pods of some nodes again."""
        number, generations = self.kinds.number, nodes.generations
        for row in rows:
            node = nodes[row]
            pods = by_importance(self._lower(node))
            first, self._used = self._used, self._used + len(pods)
            if self._used > len(self._kind):
                self._kind = _grown(self._kind, 2 * self._used)
                self._started = _grown(self._started, 2 * self._used)
            self._kind[first : self._used] = [number(pod) for pod in pods]
            self._started[first : self._used] = [pod.started for pod in pods]
            self._valid += len(pods) - int(self._count[row])
            self._first[row], self._count[row], self._generations[row] = first, len(pods), generations[row]

    def counts(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the number of potential victims on each of the rows."""
        return self._count[rows]

    def victims(
        self, nodes: NodeTable, rows: NDArray[np.intp], counts: NDArray[np.intp], budgets: Budgets
    ) -> VictimMatrix:
        """Return the potential victims of the nodes on these rows: all `counts` of a node, or none of them."""
        pods, start = self._by_importance(rows, counts)
        violating = budgets.violations(pods, self.kinds, lambda j: by_importance(self._lower(nodes[rows[j]])))
        if violating is None:
            violating = np.zeros(pods.shape, np.bool_)
        else:  # violating pods are reprieved first
            order = np.where(pods < 0, 2, ~violating).argsort(axis=0, kind="stable")
            pods, start = np.take_along_axis(pods, order, axis=0), np.take_along_axis(start, order, axis=0)
            violating = np.take_along_axis(violating, order, axis=0)
        potential = PotentialVictims(rows, pods, self.kinds, lambda j: self._reprieve_order(nodes[rows[j]], budgets))
        return VictimMatrix(potential, violating, self.kinds.values(_Priority()), start)

    def _by_importance(
        self, rows: NDArray[np.intp], counts: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return kinds and start times of the rows' pods by descending importance; kind -1 where there is no pod."""
        place = np.arange(counts.max(initial=0))[:, None]
        index = self._first[rows] + place
        kinds = self._kind.take(index, mode="clip")
        exists = place < counts
        if not exists.all():
            kinds[~exists] = -1
        return kinds, self._started.take(index, mode="clip")

    def _lower(self, node: NodeInfo) -> Iterator[Pod]:
        return (pod for pod in node.pods.values() if pod.priority < self._priority)

    def _reprieve_order(self, node: NodeInfo, budgets: Budgets) -> list[Pod]:
        violating, others = budgets.split(by_importance(self._lower(node)))
        return violating + others


class PotentialVictimCache:
    """Columns by priority of the preemptor."""

    def __init__(self) -> None:
        self._columns: OrderedDict[int, PotentialVictimColumns] = OrderedDict()

    def of(self, priority: int, nodes: int) -> PotentialVictimColumns:
        """Return the columns for preemptors of a priority, with room for a number of nodes."""
        columns = self._columns.get(priority)
        if columns is None or columns.is_mostly_outdated:
            columns = self._columns[priority] = PotentialVictimColumns(priority)
        self._columns.move_to_end(priority)
        if len(self._columns) > _MAX_PRIORITIES:
            self._columns.popitem(last=False)
        columns.fit(nodes)
        return columns

    def drop_large(self) -> None:
        """Drop columns that refer to large pods, which must not be kept in memory."""
        for priority in [priority for priority, columns in self._columns.items() if columns.kinds.has_large]:
            del self._columns[priority]


@dataclass(frozen=True, slots=True)
class _Priority(PodCount):
    """Priority of a pod."""

    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return signature.priority


def _grown(column: NDArray[T], size: int) -> NDArray[T]:
    grown = np.zeros(size, column.dtype)
    grown[: len(column)] = column
    return grown
