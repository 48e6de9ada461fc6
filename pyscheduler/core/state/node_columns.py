"""Columns of the cluster state by name, and the log of changed rows, by which results per node are refreshed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.objects import Taint
from pyscheduler.api.pod import HostPort
from pyscheduler.api.resources import CPU, MEMORY, PodRequests
from pyscheduler.core.state.columns import CategoricalColumn, IntColumn
from pyscheduler.core.state.node import NodeRow

_MAX_COLUMNS = 256
"""Number of columns of a kind, a power of two, above which unused ones are dropped: pods may name any resource and any
label."""
_LOGGED = 1 << 16
"""Least number of changed rows that a log holds once it has had so many."""


class NodeColumns:
    """All columns. A resource gets a column when a node or pod has it, a label when a plugin reads it."""

    def __init__(self) -> None:
        self.allocatable: dict[str, IntColumn] = {}
        """Columns by resource, read only; `no_amounts` stands for the other resources."""
        self.requested: dict[str, IntColumn] = {}
        self.non_zero_requested: dict[str, IntColumn] = {CPU: IntColumn(), MEMORY: IntColumn()}
        self.no_amounts = IntColumn()
        """Column of every resource that no node has."""
        self._common: tuple[IntColumn, ...] | None = None
        """Columns that nearly every pod requests; None after any column was added or dropped."""
        self.generations = IntColumn()
        self.allowed_pods = IntColumn()
        self.pod_counts = IntColumn()
        self.unschedulable = IntColumn()
        self.taints: CategoricalColumn[tuple[Taint, ...]] = CategoricalColumn(())
        self.ports: CategoricalColumn[frozenset[HostPort]] = CategoricalColumn(frozenset())
        self.labels: dict[str, CategoricalColumn[str | None]] = {}

    @property
    def resources(self) -> int:
        """Number of columns for resources."""
        return len(self.allocatable) + len(self.requested) + len(self.non_zero_requested)

    def together(self, column: IntColumn) -> tuple[IntColumn, ...]:
        """Return the columns to read together with one: the common ones if it is among them, else it alone."""
        common = self._common
        if common is None:
            optional = (columns.get(r) for r in (CPU, MEMORY) for columns in (self.allocatable, self.requested))
            existing = (numbers for numbers in optional if numbers is not None)
            common = self._common = (self.pod_counts, self.allowed_pods, *self.non_zero_requested.values(), *existing)
        return common if column in common else (column,)

    def write_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Set every allocatable amount of a row; resources not in `amounts` are set to 0."""
        for resource in self.allocatable.keys() | amounts.keys():
            self._column(self.allocatable, resource).set(row, amounts.get(resource, 0))

    def write_requested(self, row: int, amounts: Mapping[str, int], non_zero: Mapping[str, int]) -> None:
        """Set every requested amount of a row."""
        for resource in self.requested.keys() | amounts.keys():
            self.set_requested(row, resource, amounts.get(resource, 0))
        for resource in self.non_zero_requested:
            self.set_non_zero(row, resource, non_zero[resource])

    def set_requested(self, row: int, resource: str, amount: int) -> None:
        self._column(self.requested, resource).set(row, amount)

    def set_non_zero(self, row: int, resource: str, amount: int) -> None:
        self.non_zero_requested[resource].set(row, amount)

    def update_requested(self, row: int, node: NodeRow, requests: PodRequests) -> None:
        """Update a row after a pod with these requests was added to the node or removed from it."""
        used, used_non_zero = node.requested, node.non_zero_requested
        try:
            for resource in requests.effective:
                self.requested[resource].cells[row] = used.get(resource, 0)
            for resource in requests.non_zero:
                self.non_zero_requested[resource].cells[row] = used_non_zero[resource]
            self.pod_counts.cells[row] = len(node.pods)
            self.generations.cells[row] = node.generation
        except (KeyError, IndexError, OverflowError):  # a new resource, a column that must grow, or a huge amount
            self.write_requested(row, used, used_non_zero)
            self.pod_counts.set(row, len(node.pods))
            self.generations.set(row, node.generation)

    def new_label(self, key: str) -> CategoricalColumn[str | None]:
        """Return an empty column for a label; if there are too many, all others are dropped and rebuilt on next use."""
        if len(self.labels) >= _MAX_COLUMNS:
            self.labels.clear()
        column: CategoricalColumn[str | None] = CategoricalColumn(None)
        self.labels[key] = column
        return column

    def _column(self, columns: dict[str, IntColumn], resource: str) -> IntColumn:
        column = columns.get(resource)
        if column is None:
            self._common = None
            if len(columns) >= _MAX_COLUMNS and len(columns).bit_count() == 1:  # each time the number has doubled
                for name in [name for name, numbers in columns.items() if not numbers.is_needed]:
                    del columns[name]
            column = columns[resource] = IntColumn()
        return column


class ChangeLog:
    """Rows in the order of their changes; the oldest entries are dropped.

    Readers store a mark; `since(mark)` returns the rows changed after it. A reader that is too far behind gets None and
    must start over.
    """

    __slots__ = ("_base", "_rows", "mark")

    def __init__(self) -> None:
        self._rows: NDArray[np.intp] = np.empty(2 * _LOGGED, np.intp)
        self._base = 0
        self.mark = 0
        """Position after the newest entry."""

    def append(self, row: int) -> None:
        """Record a change of the row."""
        position = self.mark - self._base
        if position == 2 * _LOGGED:
            self._rows[:_LOGGED] = self._rows[_LOGGED:]
            self._base += _LOGGED
            position = _LOGGED
        self._rows[position] = row
        self.mark += 1

    def since(self, mark: int) -> NDArray[np.intp] | None:
        """Return the rows changed after `mark`, with repetitions; None if older entries were dropped."""
        start = mark - self._base
        return None if start < 0 else self._rows[start : self.mark - self._base].copy()
