"""Classes of equivalent nodes, for results that depend on topology domains and pod counts only.

With pods spread over zones and hosts, fifty thousand nodes form a few dozen classes: nodes of one zone with the same
number of matching pods. A class number is composed of one coordinate per axis, a topology or a pod count, so an added
or removed pod moves one node by the stride of its axis. Every combination of coordinates has a number, also without
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.match import Requirement
from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.topology import (
    NO_DOMAIN,
    Domains,
    NodeEquivalence,
    PodCount,
)
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.core.state.pod_counters import RowCounter
from pyscheduler.core.state.shared_node_fields import EXISTENCE, LABELS
from pyscheduler.core.state.table import ClusterTable
from pyscheduler.kernels import Classes, Rows, count_by_class, extremes

MAX_CLASSES = 1 << 14
"""Maximum number of classes, so that their numbers are int16.

With more, and with more than nodes, every node is a class of its own.
"""
MIN_CLASSES = 1 << 10
"""Number of classes that are allowed however few nodes there are: evaluating fewer takes no less time."""
_MAX_MOVES = 1 << 8
"""Number of changed counts above which numbering all rows takes no longer than moving some."""
_NO_CLASSES: Classes = np.zeros(0, np.int32)
PluginEquivalences = Sequence[tuple[Plugin, NodeEquivalence | None]]
_Part = tuple[Rows | slice, Classes]
"""Some rows, and what one axis adds to the class number of each."""
Move = tuple[int, int, int]
"""A row, its class before, and its class now."""


@dataclass(slots=True)
class _Axis:
    """A topology or a pod count, with a coordinate for each of its values."""

    plugin: Plugin
    """The plugin that returned it first."""
    width: int
    """Number of coordinates, some of which may not be in use."""
    stride: int
    """Distance of two adjacent coordinates in class numbers."""

    def coordinates(self, size: int) -> NDArray[np.intp]:
        """Return the coordinate of each class."""
        return np.arange(size) // self.stride % self.width


@dataclass(slots=True)
class _TopologyAxis(_Axis):
    known: Mapping[str | None, int]
    """Domain of each label value, as in `Domains.known`."""
    first: int
    """Domain with coordinate 0."""

    def of_classes(self, size: int) -> Domains:
        """Return the domain of each class."""
        return Domains(self.coordinates(size) + self.first, self.known)


@dataclass(slots=True)
class _CountAxis(_Axis):
    counter: RowCounter
    mark: int
    """Changes of the counter up to here are included in the class numbers."""
    coordinate_of: dict[int, int]
    """Coordinate of each number of pods that has one; numbers may be far apart, as sums of weights are."""

    def values(self, size: int) -> Ints:
        """Return the number of pods of each class; 0 where the coordinate is not in use."""
        values = np.zeros(self.width, np.int64)
        values[: len(self.coordinate_of)] = [*self.coordinate_of]
        return values.take(self.coordinates(size))


class NodeClasses:
    """The class of each row, and a node table with one entry for each class."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._equivalences: PluginEquivalences = ()
        self._topologies: dict[str, _TopologyAxis] = {}
        self._counts: dict[PodCount, _CountAxis] = {}
        self.is_by_row = True
        """True if every row is a class of its own."""
        self._nodes_version = -1
        self._node_mark = 0
        """Changes of nodes up to here are included in the class numbers."""
        self._placed_version = -1
        """Version of the placed pods whose counts are included in the class numbers."""
        self._point = ""
        self._covered: dict[str, PluginEquivalences] = {}
        """Last equivalences of each extension point for which the classes serve."""
        self.of: Classes = _NO_CLASSES
        """Class number of each row; int16, or int32 if every row is a class of its own."""
        self._cells: Classes = _NO_CLASSES
        """The class numbers, with spare cells for rows to come."""
        self.counts: Ints = np.zeros(0, np.int64)
        """Number of rows of each class."""
        self.moves: list[Move] | None = None
        """The moved rows since the reader last cleared the list; None if too many, or all were numbered again."""
        self.size = 0
        """Number of classes, with or without nodes."""
        self.table: NodeTable = state.table()
        """One entry for each class; has the topologies and counts of the equivalences only."""

    def copy(self) -> NodeClasses:
        """Return the same classes, which change independently."""
        twin = copy(self)
        twin.of = twin._cells = self.of.copy()
        twin.counts, twin.moves, twin._covered = self.counts.copy(), None, {}
        twin._counts = {
            count: replace(axis, coordinate_of={**axis.coordinate_of}) for count, axis in self._counts.items()
        }
        return twin

    def refresh(self, equivalences: PluginEquivalences, point: str) -> None:
        """Update the classes so that nodes of one class are equivalent for all of the plugins.

        Nodes may be divided further, as earlier equivalences required. PluginFailed, with the extension point, if a
        plugin's count raises.
        """
        state, self._point = self._state, point
        same_nodes = state.nodes_version == self._nodes_version
        if (
            # With other nodes, a key that none had may be a topology now.
            ((same_nodes and equivalences == self._covered.get(point)) or self._covers(equivalences))
            and (self._has_same_rows() if self.is_by_row else self._update_counts() and self._update_nodes())
        ):
            self._covered[point] = equivalences
            return
        self._number_all(equivalences)

    def _covers(self, equivalences: PluginEquivalences) -> bool:
        parts = [equivalence for _, equivalence in equivalences]
        if self.is_by_row:
            return None in parts or all(each in self._equivalences for each in equivalences)
        known = self._state.known_label
        return all(
            part is not None
            and all(known(key) in self._topologies for key in part.topologies)
            and self._counts.keys() >= {*part.counts}
            for part in parts
        )

    def _has_same_rows(self) -> bool:
        """Return True if there are as many rows as before, each of which is a class."""
        if len(self._state) != len(self.of):
            return False
        self.table, self._nodes_version = self._state.table(), self._state.nodes_version
        return True

    def _update_nodes(self) -> bool:
        """Number the rows with changed nodes. Return False if there are too many, or no coordinate for one."""
        state, n, before = self._state, len(self._state), len(self.of)
        if state.nodes_version == self._nodes_version:
            return True
        if not state.changed_node_fields(self._nodes_version) & (LABELS | EXISTENCE):
            self._nodes_version, self._node_mark = state.nodes_version, state.node_log.mark
            return True
        changed = state.node_log.since(self._node_mark)
        if changed is None or len(changed) > max(_MAX_MOVES, n >> 3):
            return False
        rows = np.array(sorted({row for row in changed.tolist() if row < n}), np.intp)
        values = sum(len(axis.coordinate_of) for axis in self._counts.values())
        numbers = self._numbered(rows)
        if numbers is None:
            return False
        if n > len(self._cells):
            self._cells = grown(self._cells, n + n // 16 + 64)
        gone = np.concatenate((self.of.take(rows[: rows.searchsorted(before)]), self.of[n:]))
        if n != before or not np.array_equal(gone, numbers):
            np.subtract.at(self.counts, gone, 1)
            np.add.at(self.counts, numbers, 1)
            self.of, self.moves = self._cells[:n], None
            self.of[rows] = numbers
        if sum(len(axis.coordinate_of) for axis in self._counts.values()) > values:
            self.table = self._class_table()
        self._nodes_version, self._node_mark = state.nodes_version, state.node_log.mark
        return True

    def _numbered(self, rows: Rows) -> Classes | None:
        """Return the classes of some rows; None if a domain or a count has no coordinate."""
        state, numbers = self._state, np.zeros(len(rows), np.int16)
        for key, axis in self._topologies.items():
            domains = state.topology(key)
            coordinates = domains.ids.take(rows) - axis.first
            if domains.known is not axis.known or np.count_nonzero(coordinates.view(np.uintp) >= axis.width):
                return None
            numbers += coordinates * axis.stride
        for count in self._counts.values():
            of_value = count.coordinate_of
            found = [
                of_value.setdefault(value, len(of_value)) for value in map(count.counter.cells.item, rows.tolist())
            ]
            if len(of_value) > count.width:
                return None
            numbers += np.array(found, np.int16) * count.stride
        return numbers

    def _update_counts(self) -> bool:
        """Move the rows with changed counts. Return False if a count has no coordinate or all must be counted again."""
        placed = self._state.placed
        if placed.version == self._placed_version:
            return True
        has_new_values = False
        for axis in self._counts.values():
            counter = axis.counter
            if not counter.is_kept:
                return False
            if not placed.is_current(counter):
                call_guarded(axis.plugin.name, self._point, placed.update, counter)
            changes = counter.since(axis.mark)
            if changes is None or len(changes) > _MAX_MOVES:
                return False
            if changes:
                axis.mark, values = counter.mark, len(axis.coordinate_of)
                for row, _ in changes:
                    # A row may have come and gone again, with its pods.
                    if row < len(self.of) and not self._move(axis, row):
                        return False
                has_new_values |= len(axis.coordinate_of) > values
        if has_new_values:
            self.table = self._class_table()
        self._placed_version = placed.version
        return True

    def _move(self, axis: _CountAxis, row: int) -> bool:
        """Move a row with a changed count. Return False if there is no coordinate left for the count."""
        coordinate = axis.coordinate_of.setdefault(axis.counter.cells.item(row), len(axis.coordinate_of))
        if coordinate >= axis.width:
            return False
        before = self.of.item(row)
        now = self.of[row] = before + (coordinate - before // axis.stride % axis.width) * axis.stride
        self.counts[before] -= 1
        self.counts[now] += 1
        if self.moves is not None:
            self.moves.append((row, before, now))
            if len(self.moves) > _MAX_MOVES:
                self.moves = None
        return True

    def _number_all(self, equivalences: PluginEquivalences) -> None:
        state = self._state
        self._topologies, self._counts, self._covered, self.moves = {}, {}, {}, None
        self._nodes_version = -1  # until all is done, in case a plugin raises
        parts: list[_Part] = []
        self.size = 1
        self.is_by_row = False
        for plugin, equivalence in equivalences:
            if equivalence is None or call_guarded(plugin.name, self._point, _has_large_count, equivalence):
                self.is_by_row = True
                break
            parts += call_guarded(plugin.name, self._point, self._add_axes, plugin, equivalence)
        self.is_by_row |= self._has_too_many
        if self.is_by_row:
            self._topologies, self._counts = {}, {}
            self.size, self.of, self.table = len(state), np.arange(len(state), dtype=np.int32), state.table()
        else:
            self.of = self._cells = np.zeros(len(state), np.int16)
            for rows, numbers in parts:
                self.of[rows] += numbers
            self.table = self._class_table()
        self.counts = np.empty(self.size, np.int64)
        count_by_class(self.counts, self.of, None)
        self._equivalences, self._nodes_version = equivalences, state.nodes_version
        self._placed_version, self._node_mark = state.placed.version, state.node_log.mark

    @property
    def _has_too_many(self) -> bool:
        """True if there are so many classes that evaluating every node takes no longer."""
        return self.size > min(MAX_CLASSES, max(MIN_CLASSES, len(self._state)))

    def _add_axes(self, plugin: Plugin, equivalence: NodeEquivalence) -> list[_Part]:
        """Add the axes that are new and return what they add to the class numbers.

        Ends once there are too many classes: one pod may name a thousand topologies and selectors.
        """
        state, added = self._state, list[_Part]()
        for key in map(state.known_label, equivalence.topologies):
            if key not in self._topologies and not self._has_too_many:
                domains = state.topology(key)
                # Usually every node has the label, so there is no class without it.
                first = NO_DOMAIN if len(domains.unlabelled) else NO_DOMAIN + 1
                axis = _TopologyAxis(plugin, max(1, domains.size - first), self.size, domains.known, first)
                self._topologies[key] = axis
                self.size *= axis.width
                of_domain = (np.arange(-first, axis.width) * axis.stride).astype(np.int16)
                added.append((slice(None), of_domain.take(domains.ids)))
        for count in equivalence.counts:
            if count not in self._counts and not self._has_too_many:
                counter = state.placed.counter(count, len(state))
                rows, numbers = counter.cells.nonzero(len(state))
                values, positions = _distinct(numbers)
                coordinate_of = {value: i for i, value in enumerate([0, *values.tolist()])}
                width = 2 * len(coordinate_of) + 2  # numbers may appear
                added.append((rows, ((positions + 1) * self.size).astype(np.int16)))
                self._counts[count] = _CountAxis(plugin, width, self.size, counter, counter.mark, coordinate_of)
                self.size *= width
        return added

    def _class_table(self) -> NodeClassTable:
        topologies = {key: axis.of_classes(self.size) for key, axis in self._topologies.items()}
        counts = {count: axis.values(self.size) for count, axis in self._counts.items()}
        return NodeClassTable(self._state, self.size, topologies, counts)


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers in ascending order, and for each number its position among them."""
    least, most = extremes(numbers, None) if len(numbers) else (0, 0)
    if most - least >= len(numbers) + MIN_CLASSES:
        values, positions = np.unique(numbers, return_inverse=True)
        return values, positions
    # Counts are usually near each other: without sorting it takes a tenth of the time.
    offsets = numbers - least
    values = np.bincount(offsets).nonzero()[0]
    position_of = np.zeros(most - least + 1, np.int64)
    position_of[values] = np.arange(len(values))
    return values + least, position_of.take(offsets)


def _has_large_count(equivalence: NodeEquivalence) -> bool:
    return any(count.is_large for count in equivalence.counts)


class NodeClassTable(ClusterTable):
    """Node table with one entry for each class, of topologies and pod counts only; LookupError for anything else."""

    def __init__(
        self, state: ClusterState, n: int, topologies: Mapping[str, Domains], counts: Mapping[PodCount, Ints]
    ) -> None:
        super().__init__(state)
        self._n = n
        self._topologies = topologies
        self._counts = counts

    def __len__(self) -> int:
        return self._n

    def topology(self, key: str) -> Domains:
        domains = self._topologies.get(self._state.known_label(key))
        return self._missing() if domains is None else domains

    def matches_requirement(self, requirement: Requirement) -> Mask:
        domains = self.topology(requirement.key)
        matches = np.zeros(domains.size, np.bool_)
        matches[[i for value, i in domains.known.items() if requirement.matches(value)]] = True
        return matches.take(domains.ids)

    def count_pods(self, count: PodCount) -> Ints:
        numbers = self._counts.get(count)
        return self._missing() if numbers is None else numbers

    def __iter__(self) -> Iterator[NodeInfo]:
        self._missing()

    def __getitem__(self, i: int) -> NodeInfo:
        self._missing()

    def _missing(self, *_: object) -> NoReturn:
        raise LookupError("the plugin's equivalence of nodes does not include what it reads of a node")

    _method: Callable[..., Any] = _missing
    _property: Any = property(_missing)
    allocatable = requested = non_zero_requested = named = _method
    by_taints = has_image = by_ports = _method
    names = positions = generations = allowed_pods = pod_counts = unschedulable = _property
