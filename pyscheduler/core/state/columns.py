"""The arrays under the cluster state: numbers per node, and categories whose values are interned.

All grow by doubling, so that a row keeps its place and adding a node is cheap.
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
    """One int64 per row. Amounts beyond int64 are kept at its largest value: nothing that big ever fits anyway."""

    __slots__ = ("cells",)

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.cells: Ints = np.zeros(capacity, np.int64)

    @property
    def is_needed(self) -> bool:
        """Whether any row has some."""
        return bool(self.cells.any())

    def set(self, row: int, amount: int) -> None:
        """Write one row, growing as needed."""
        try:
            self.cells[row] = amount
        except IndexError:
            self.cells = _grown(self.cells, row)
            self.set(row, amount)
        except OverflowError:
            self.cells[row] = MAX_INT64

    def grown_to(self, n: int) -> Ints:
        """All cells, for `n` rows at least; to be read only."""
        if n > len(self.cells):
            self.cells = _grown(self.cells, n - 1)
        return self.cells

    def read(self, rows: slice, n: int) -> Ints:
        """The cells of some rows of a table with `n` rows, to be read only; rows never written are 0."""
        cells = self.grown_to(n)[rows]
        cells.setflags(write=False)  # a plugin that computes in place would change the cluster
        return cells


class CategoricalColumn(Generic[V]):
    """One interned value per row: a predicate is asked once per distinct value, then gathered."""

    __slots__ = ("_ids", "_of", "_values")

    def __init__(self, default: V) -> None:
        self._values: list[V] = [default]
        self._of: dict[V, int] = {default: 0}
        self._ids: NDArray[np.int32] = np.zeros(_FIRST_CAPACITY, np.int32)

    def set(self, row: int, value: V) -> None:
        """Write one row, growing as needed."""
        if row >= len(self._ids):
            self._ids = _grown(self._ids, row)
        known = self._of.get(value)
        if known is None:
            if len(self._values) > 2 * len(self._ids) + _SPARE_VALUES:
                self._forget_unused()
            known = self._of[value] = len(self._values)
            self._values.append(value)
        self._ids[row] = known

    def fill(self, values: Sequence[V]) -> None:
        """Write all rows from the first on, where none has been written."""
        for value in dict.fromkeys(values):
            if value not in self._of:
                self._of[value] = len(self._values)
                self._values.append(value)
        self._ids = _grown(self._ids, max(len(values) - 1, 0))
        self._ids[: len(values)] = np.fromiter(map(self._of.__getitem__, values), np.int32, len(values))

    def get(self, row: int) -> V:
        """The value of one row."""
        return self._values[int(self._ids[row])]

    def gather(self, answer: Callable[[V], int], rows: Rows, n: int) -> Ints:
        """`answer` for some rows of a table with `n` rows, called once per distinct value."""
        ids = self._read(rows, n)
        if len(ids) >= len(self._values):
            return np.fromiter((answer(v) for v in self._values), np.int64, len(self._values))[ids]
        distinct, place = np.unique(ids, return_inverse=True)
        return np.fromiter((answer(self._values[i]) for i in distinct), np.int64, len(distinct))[place]

    def among(self, values: tuple[V, ...], rows: Rows, n: int) -> Mask:
        """Which of some rows have one of `values`."""
        ids = self._read(rows, n)
        wanted = [known for v in values if (known := self._of.get(v)) is not None]
        if len(wanted) == 1:
            same: Mask = ids == wanted[0]
            return same
        return np.isin(ids, wanted)

    def ids(self, rows: Rows, n: int) -> NDArray[np.int32]:
        """The values of some rows of a table of `n` as small ints, to be read only; `known` says what they mean."""
        ids = self._read(rows, n)
        ids.flags.writeable = False
        return ids

    @property
    def known(self) -> Mapping[V, int]:
        """The id of each remembered value; the default's is 0. Live."""
        return self._of

    @property
    def distinct(self) -> int:
        """How many values are remembered, some of which no row may have any more."""
        return len(self._values)

    def _forget_unused(self) -> None:
        used = np.union1d(self._ids, [0])  # the default keeps its place
        self._ids = np.searchsorted(used, self._ids).astype(np.int32)
        self._values = [self._values[i] for i in used]
        self._of = {value: i for i, value in enumerate(self._values)}

    def _read(self, rows: Rows, n: int) -> NDArray[np.int32]:
        if n > len(self._ids):
            self._ids = _grown(self._ids, n - 1)
        return self._ids[rows]


T = TypeVar("T", bound=np.generic)


def _grown(cells: NDArray[T], row: int) -> NDArray[T]:
    size = len(cells)
    while size <= row:
        size *= 2
    return grown(cells, size)


def grown(cells: NDArray[T], size: int, empty: int = 0) -> NDArray[T]:
    """A longer copy of a column, `empty` in the new places."""
    bigger = np.full(size, empty, cells.dtype)
    bigger[: len(cells)] = cells
    return bigger
