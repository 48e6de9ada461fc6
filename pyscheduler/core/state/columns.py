"""Columns of the cluster state: arrays of one integer per node, or of one interned value per node.

All grow by doubling, so that rows keep their positions and adding a node is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.quantity import MAX_INT64

V = TypeVar("V", bound=Hashable)
Rows = slice | NDArray[np.intp]
_FIRST_CAPACITY = 16
_SPARE_VALUES = 1024


class IntColumn:
    """One int64 per row. Larger amounts are stored as its maximum, which no pod fits."""

    __slots__ = ("cells",)

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.cells: Ints = np.zeros(capacity, np.int64)

    @property
    def is_needed(self) -> bool:
        """Return True if any row is not 0."""
        return bool(self.cells.any())

    def set(self, row: int, amount: int) -> None:
        """Set one row, growing as needed."""
        try:
            self.cells[row] = amount
        except IndexError:
            self.cells = _grown(self.cells, row)
            self.set(row, amount)
        except OverflowError:
            self.cells[row] = MAX_INT64

    def grown_to(self, n: int) -> Ints:
        """Return all cells, at least `n`; callers must not write to them."""
        if n > len(self.cells):
            self.cells = _grown(self.cells, n - 1)
        return self.cells

    def read(self, rows: Rows, n: int) -> Ints:
        """Return some of the first `n` rows, read-only, a slice as a view; rows never set are 0."""
        cells = self.grown_to(n)[rows]
        cells.setflags(write=False)  # a plugin that computes in place would corrupt the cluster state
        return cells


class CategoricalColumn(Generic[V]):
    """One interned value per row: functions are called once per distinct value."""

    __slots__ = ("_id_of", "_ids", "_values")

    def __init__(self, default: V) -> None:
        self._values: list[V] = [default]
        self._id_of: dict[V, int] = {default: 0}
        self._ids: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)

    def set(self, row: int, value: V) -> None:
        """Set one row, growing as needed."""
        if row >= len(self._ids):
            self._ids = _grown(self._ids, row)
        value_id = self._id_of.get(value)
        if value_id is None:
            if len(self._values) > 2 * len(self._ids) + _SPARE_VALUES:
                self._drop_unused()
            value_id = self._id_of[value] = len(self._values)
            self._values.append(value)
        self._ids[row] = value_id

    def fill(self, values: Sequence[V]) -> None:
        """Set all rows from the first on; none may have been set before."""
        for value in dict.fromkeys(values):
            if value not in self._id_of:
                self._id_of[value] = len(self._values)
                self._values.append(value)
        self._ids = _grown(self._ids, max(len(values) - 1, 0))
        self._ids[: len(values)] = np.fromiter(map(self._id_of.__getitem__, values), np.intp, len(values))

    def get(self, row: int) -> V:
        """Return the value of one row."""
        return self._values[int(self._ids[row])]

    def gather(self, function: Callable[[V], int], rows: Rows, n: int) -> Ints:
        """Return the function's results for some of the first `n` rows; it is called once per distinct value."""
        ids = self._read(rows, n)
        if len(ids) >= len(self._values):
            results = np.fromiter((function(v) for v in self._values), np.int64, len(self._values))
            if len(results) == 1 or not np.count_nonzero(results != results[0]):
                return np.full(len(ids), results[0])
            return results[ids]
        distinct, inverse = np.unique(ids, return_inverse=True)
        values = map(self._values.__getitem__, distinct.tolist())
        return np.fromiter(map(function, values), np.int64, len(distinct))[inverse]

    def among(self, values: tuple[V, ...], rows: Rows, n: int) -> Mask:
        """Return a mask of the rows with one of `values`."""
        ids = self._read(rows, n)
        wanted = [value_id for v in values if (value_id := self._id_of.get(v)) is not None]
        if len(wanted) == 1:
            same: Mask = ids == wanted[0]
            return same
        return np.isin(ids, wanted)

    def ids(self, rows: Rows, n: int) -> NDArray[np.intp]:
        """Return the value ids of some of the first `n` rows, read-only; `known` maps values to ids."""
        ids = self._read(rows, n)
        ids.flags.writeable = False
        return ids

    @property
    def known(self) -> Mapping[V, int]:
        """Ids of all stored values, as a live view; the default's is 0."""
        return self._id_of

    @property
    def distinct(self) -> int:
        """Number of stored values, some of which may be unused."""
        return len(self._values)

    def _drop_unused(self) -> None:
        used = np.union1d(self._ids, [0])  # the default keeps id 0
        self._ids = np.searchsorted(used, self._ids)
        self._values = [self._values[i] for i in used]
        self._id_of = {value: i for i, value in enumerate(self._values)}

    def _read(self, rows: Rows, n: int) -> NDArray[np.intp]:
        if n > len(self._ids):
            self._ids = _grown(self._ids, n - 1)
        return self._ids[rows]


T = TypeVar("T", bound=np.generic)


def _grown(cells: NDArray[T], row: int) -> NDArray[T]:
    size = len(cells)
    while size <= row:
        size *= 2
    return grown(cells, size)


def assign(cells: NDArray[T], rows: Rows | list[int], value: int) -> None:
    """Set some rows of a column to one value."""
    if isinstance(rows, list):  # a few rows: converting them to an array takes longer
        for row in rows:
            cells[row] = value
    else:
        cells[rows] = value


def grown(cells: NDArray[T], size: int, empty: int = 0) -> NDArray[T]:
    """Return a longer copy of a column, filled up with `empty`."""
    bigger = np.full(size, empty, cells.dtype)
    bigger[: len(cells)] = cells
    return bigger


def share(cells: NDArray[T]) -> NDArray[T]:
    """Make the column read-only and return it for another owner; both call `copy_if_shared` before they write."""
    cells.flags.writeable = False
    return cells


def copy_if_shared(cells: NDArray[T]) -> NDArray[T]:
    """Return the column for writing, a copy if it is shared."""
    return cells if cells.flags.writeable else cells.copy()
