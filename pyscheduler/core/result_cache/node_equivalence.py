"""Node equivalence classes: rows to which the pod-dependent Score plugins give the same score.

With pods spread over zones and hosts, fifty thousand nodes form a few dozen classes: nodes of one zone with the same
number of matching pods. Such scores change after every pod, but only one representative per class has to be scored. A
class number is composed of one coordinate per axis, so a changed row is renumbered without looking at other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, NodeTable
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.topology import NodeEquivalence, PodCount
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.result_cache.invalidation import DirtyRows
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, extremes, first_of

MAX_CLASSES = 1 << 14
"""Maximum number of classes. With more, a representative hardly ever stands for many rows."""
PluginEquivalences = Sequence[tuple[ScorePlugin, NodeEquivalence]]


@dataclass(slots=True)
class _Axis:
    """A topology or a pod count, and the range of its values that have a coordinate."""

    plugin: ScorePlugin
    """The plugin that returned it first."""
    part: str | PodCount
    low: int = 0
    width: int = 0
    stride: int = 0
    """Distance of two adjacent coordinates in class numbers."""
    ids: Ints | None = None
    """Domain ids of a topology, cached because they change only with the nodes."""

    def column(self, nodes: NodeTable) -> Ints:
        if self.ids is not None:
            return self.ids
        try:
            if not isinstance(self.part, str):
                return nodes.count_pods(self.part)
            self.ids = nodes.topology(self.part).ids
            return self.ids
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "Score", error)

    def has_same_ids(self, nodes: NodeTable) -> bool:
        """Return True unless this is a topology with changed domain ids."""
        before, self.ids = self.ids, None
        return not isinstance(self.part, str) or self.column(nodes) is before

    def set_range(self, column: Ints, stride: int) -> int:
        """Set the range to the values of the column and return the next axis' stride.

        The range of pod counts is extended by its own length in each direction, so that counts can change.
        """
        low, highest = extremes(column, None)
        margin = 0 if isinstance(self.part, str) else highest - low + 1
        self.low = low - margin if low < 0 else low
        self.width = (highest + margin if highest > 0 else highest) - self.low + 1
        self.stride = stride
        return stride * self.width


class NodeEquivalenceClasses:
    """The class of each row, and a feasible representative of each class that has one."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._equivalences: PluginEquivalences = ()
        self._version = -1
        self._nodes = 0
        self._axes: list[_Axis] = []
        self._has_numbers = False
        """True if the numbers are valid for the current criteria; False if there are too many classes."""
        self.generation = 0
        """Incremented whenever all rows are renumbered, so that a number may stand for another class."""
        self.of: Ints = np.zeros(0, np.int64)
        """Class number of each row; as long as other columns."""
        self.size = 0
        """Exclusive upper bound of the class numbers."""
        self.rows: Rows = np.zeros(0, np.intp)
        """One feasible row of each class."""
        self.numbers: NDArray[np.int64] = self.of
        """Class numbers of `rows`."""
        self._first: Ints = self.of

    @property
    def bytes(self) -> int:
        """Memory of the columns in bytes."""
        return self.of.nbytes + self._first.nbytes

    def refresh(
        self,
        equivalences: PluginEquivalences,
        room: int,
        rows: DirtyRows | slice,
        feasible: Rows | slice,
        feasible_changed: bool,
    ) -> bool:
        """Update the class numbers after changes of some rows, or of any rows (a slice).

        `room` is the length of other columns, `feasible_changed` is True if other rows are feasible than before. Return
        True if there are so few classes that scoring representatives pays off.
        """
        if equivalences != self._equivalences or (
            self._version != self._state.nodes_version and not self._has_same_nodes()
        ):
            self._equivalences, self._version = equivalences, self._state.nodes_version
            self._nodes = len(self._state)
            self._axes = _axes(equivalences)
            self._number_all(room)
            feasible_changed = True
        elif not self._has_numbers:
            return False
        elif isinstance(rows, slice) or not self._renumber(rows):
            self._number_all(room)
            feasible_changed = True
        if not self._has_numbers:
            return False
        if feasible_changed or not len(self.rows):
            self._choose_representatives(feasible)
        return 2 * len(self.rows) <= (feasible.stop if isinstance(feasible, slice) else len(feasible))

    def _has_same_nodes(self) -> bool:
        """Return True if no row has another class although node objects have changed."""
        version, self._version = self._version, self._state.nodes_version
        if version < 0 or self._nodes != len(self._state):
            return False
        nodes = self._state.table()
        return all(axis.has_same_ids(nodes) for axis in self._axes)

    def invalidate(self) -> None:
        """Renumber all rows at the next refresh, because changes until then are not reported."""
        self._version = -1

    def _columns(self) -> Sequence[Ints]:
        nodes = self._state.table()
        return [axis.column(nodes) for axis in self._axes]

    def _number_all(self, room: int) -> None:
        """Number all rows."""
        columns, self.size = self._columns(), 1
        for axis, column in zip(self._axes, columns, strict=True):
            self.size = axis.set_range(column, self.size)
        self._has_numbers = self.size <= MAX_CLASSES
        self.generation += 1
        if self._has_numbers:
            self.of = np.zeros(room, np.int64)
            for axis, column in zip(self._axes, columns, strict=True):
                self.of[: len(column)] += (column - axis.low) * axis.stride
            self._first = np.empty(self.size, np.int64)

    def _renumber(self, rows: DirtyRows) -> bool:
        """Renumber some rows. Return False if a value has no coordinate on its axis."""
        columns = self._columns()
        if not isinstance(rows, list):
            return self._renumber_many(rows, columns)
        for row in rows:
            number = 0
            for axis, column in zip(self._axes, columns, strict=True):
                coordinate = column.item(row) - axis.low
                if not 0 <= coordinate < axis.width:
                    return False
                number += coordinate * axis.stride
            self._move(row, number)
        return True

    def _renumber_many(self, rows: Rows, columns: Sequence[Ints]) -> bool:
        numbers = np.zeros(len(rows), np.int64)
        for axis, column in zip(self._axes, columns, strict=True):
            coordinates = column.take(rows) - axis.low
            if len(rows) and not (
                coordinates[coordinates.argmin()] >= 0 and coordinates[coordinates.argmax()] < axis.width
            ):
                return False
            numbers += coordinates * axis.stride
        before = self.of.take(rows)
        moved = (numbers != before).nonzero()[0]
        if len(moved):
            self.of[rows] = numbers
            leaves = self._first.take(before.take(moved)) == rows.take(moved)
            arrives = self._first.take(numbers.take(moved)) < 0
            if (leaves | arrives).any():
                self.rows = self.rows[:0]
        return True

    def _move(self, row: int, number: int) -> None:
        """Move a row to another class; clear the representatives if the move affects them."""
        before = self.of.item(row)
        if number != before:
            self.of[row] = number
            if self._first.item(before) == row or self._first.item(number) < 0:
                self.rows = self.rows[:0]

    def _choose_representatives(self, feasible: Rows | slice) -> None:
        """Set the first feasible row of each class as its representative."""
        if isinstance(feasible, slice):
            first_of(self._first, self.of[feasible], None)
        else:
            first_of(self._first, self.of, feasible)
        self.numbers = np.flatnonzero(self._first >= 0)
        self.rows = self._first.take(self.numbers)


def _axes(equivalences: PluginEquivalences) -> list[_Axis]:
    """Return one axis per topology and count, for the first plugin that names it."""
    axes: dict[str | PodCount, _Axis] = {}
    for plugin, equivalence in equivalences:
        for part in call_guarded(plugin.name, "Score", _parts, equivalence):
            axes.setdefault(part, _Axis(plugin, part))
    return list(axes.values())


def _parts(equivalence: NodeEquivalence) -> Iterable[str | PodCount]:
    return dict.fromkeys([*equivalence.topologies, *equivalence.counts])  # an unhashable value raises here
