"""Which rows score alike by what plugins say of it, and one of each kind that speaks for all.

Where pods are spread over zones and hosts, fifty thousand nodes come to a few dozen kinds: those of one zone with as
many pods of the set. What such plugins say is new after each pod, but it is asked of dozens. A kind's number is put
together from a place on each axis, so that a row whose pods have changed is numbered without a look at any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, NodeTable
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.topology import NodeEquivalence, PodCount
from pyscheduler.core.decide.invalidation import DirtyRows
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, extremes, first_of

MOST = 1 << 14
"""Numbers there may be. Where there are more kinds than that, one row hardly ever speaks for many."""
PluginLikenesses = Sequence[tuple[ScorePlugin, NodeEquivalence]]


@dataclass(slots=True)
class _Axis:
    """A topology or a count, and the range of numbers that have a place on it."""

    plugin: ScorePlugin
    """Who names it."""
    part: str | PodCount
    least: int = 0
    width: int = 0
    stride: int = 0
    """How much further one place is in the numbers of kinds."""
    ids: Ints | None = None
    """The numbers of a topology, which are the same while nodes are."""

    def column(self, nodes: NodeTable) -> Ints:
        return call_guarded(self.plugin.name, "Score", self._read, nodes) if self.ids is None else self.ids

    def _read(self, nodes: NodeTable) -> Ints:
        if not isinstance(self.part, str):
            return nodes.count_pods(self.part)
        self.ids = nodes.topology(self.part).ids
        return self.ids

    def reach(self, column: Ints, stride: int) -> int:
        """Give all numbers of a column a place, and of pods as many beyond, for more to come; the next axis' stride."""
        least, most = extremes(column, None)
        more = 0 if isinstance(self.part, str) else most - least + 1
        self.least = least - more if least < 0 else least
        self.width = (most + more if most > 0 else most) - self.least + 1
        self.stride = stride
        return stride * self.width


class NodeEquivalenceClasses:
    """The number of each row's kind, and the rows that speak for the kinds which have any that fits."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._told: PluginLikenesses = ()
        self._version = -1
        self._axes: list[_Axis] = []
        self._has_numbers = False
        """Whether the numbers are those of what was told; if not, there would be too many."""
        self.generation = 0
        """Counts how often rows were numbered anew, so that a number may mean another kind."""
        self.of: Ints = np.zeros(0, np.int64)
        """The number of each row, as long as other columns."""
        self.size = 0
        """All numbers are below this."""
        self.rows: Rows = np.zeros(0, np.intp)
        """A row that fits of each kind."""
        self.numbers: NDArray[np.int64] = self.of
        """The kinds of those rows."""
        self._first: Ints = self.of

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return self.of.nbytes + self._first.nbytes

    def refresh(
        self, told: PluginLikenesses, room: int, rows: DirtyRows | slice, fitting: Rows | slice, refit: bool
    ) -> bool:
        """Bring numbers up to date after pods have come to some rows or left them, or after anything (a slice).

        `room` is the length of other columns, `refit` whether others fit than last time. Whether so few rows speak
        for all that it is worth while.
        """
        if self._version != self._state.nodes_version or told != self._told:
            self._told, self._version = told, self._state.nodes_version
            self._axes = _axes(told)
            self._number_all(room)
            refit = True
        elif not self._has_numbers:
            return False
        elif isinstance(rows, slice) or not self._renumber(rows):
            self._number_all(room)
            refit = True
        if not self._has_numbers:
            return False
        if refit or not len(self.rows):
            self._choose_representatives(fitting)
        return 2 * len(self.rows) <= (fitting.stop if isinstance(fitting, slice) else len(fitting))

    def invalidate(self) -> None:
        """Rows may change unnoticed from now on."""
        self._version = -1

    def _columns(self) -> Sequence[Ints]:
        nodes = self._state.table()
        return [axis.column(nodes) for axis in self._axes]

    def _number_all(self, room: int) -> None:
        """Number all rows."""
        columns, self.size = self._columns(), 1
        for axis, column in zip(self._axes, columns, strict=True):
            self.size = axis.reach(column, self.size)
        self._has_numbers = self.size <= MOST
        self.generation += 1
        if self._has_numbers:
            self.of = np.zeros(room, np.int64)
            for axis, column in zip(self._axes, columns, strict=True):
                self.of[: len(column)] += (column - axis.least) * axis.stride
            self._first = np.empty(self.size, np.int64)

    def _renumber(self, rows: DirtyRows) -> bool:
        """Number some rows; False if a number has no place on its axis."""
        columns = self._columns()
        if not isinstance(rows, list):
            return self._renumber_many(rows, columns)
        for row in rows:
            number = 0
            for axis, column in zip(self._axes, columns, strict=True):
                place = column.item(row) - axis.least
                if not 0 <= place < axis.width:
                    return False
                number += place * axis.stride
            self._move(row, number)
        return True

    def _renumber_many(self, rows: Rows, columns: Sequence[Ints]) -> bool:
        numbers = np.zeros(len(rows), np.int64)
        for axis, column in zip(self._axes, columns, strict=True):
            places = column.take(rows) - axis.least
            if len(rows) and not (places[places.argmin()] >= 0 and places[places.argmax()] < axis.width):
                return False
            numbers += places * axis.stride
        self.of[rows] = numbers
        self.rows = self.rows[:0]
        return True

    def _move(self, row: int, number: int) -> None:
        """A row is of another kind now; who speaks for a kind is chosen anew where that changes it."""
        before = self.of.item(row)
        if number != before:
            self.of[row] = number
            if self._first.item(before) == row or self._first.item(number) < 0:
                self.rows = self.rows[:0]

    def _choose_representatives(self, fitting: Rows | slice) -> None:
        """Have the first row that fits speak for its kind."""
        if isinstance(fitting, slice):
            first_of(self._first, self.of[fitting], None)
        else:
            first_of(self._first, self.of, fitting)
        self.numbers = np.flatnonzero(self._first >= 0)
        self.rows = self._first.take(self.numbers)


def _axes(told: PluginLikenesses) -> list[_Axis]:
    """An axis for each topology and count, by whomever it is named first."""
    axes: dict[str | PodCount, _Axis] = {}
    for plugin, likeness in told:
        for part in call_guarded(plugin.name, "Score", _parts, likeness):
            axes.setdefault(part, _Axis(plugin, part))
    return list(axes.values())


def _parts(likeness: NodeEquivalence) -> Iterable[str | PodCount]:
    return dict.fromkeys([*likeness.topologies, *likeness.counts])  # raises here, by its name, what cannot be a key
