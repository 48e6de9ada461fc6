"""Columns of mostly zeros: a dictionary of the other numbers, until an array is read or would be smaller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints
from pyscheduler.core.state.columns import grown

_MIN_SPARSE = 64
"""Number of cells that are not 0 up to which they are in a dictionary, however short the column would be."""
_CELLS_PER_ENTRY = 32
"""There is an array if more than one of so many cells is not 0: a dictionary would take nearly half its memory."""
_ENTRY_BYTES = 100
"""Memory of an entry of the dictionary."""


class SparseColumn:
    """One int64 per index; 0 for indices beyond the end."""

    __slots__ = ("_array", "_capacity", "_nonzero_count", "_numbers")

    def __init__(self, n: int) -> None:
        self._numbers: dict[int, int] = {}
        """Number by index, without those that are 0, unless there is an array."""
        self._array: Ints | None = None
        self._nonzero_count: int | None = None
        """Number of cells of the array that are not 0; None until it is read."""
        self._capacity = max(n, 1)
        """Length of the array."""

    @property
    def nbytes(self) -> int:
        """Memory of the numbers in bytes."""
        return _ENTRY_BYTES * len(self._numbers) if self._array is None else self._array.nbytes

    def array(self) -> Ints:
        """Return all numbers, and 0 for indices to come; it includes later changes until `fit` needs a longer one."""
        if self._array is None:
            indices, numbers = self.nonzero(self._capacity)
            self._array = np.zeros(self._capacity, np.int64)
            self._array[indices] = numbers
            self._numbers = {}
        return self._array

    def item(self, index: int) -> int:
        """Return one number."""
        if self._array is None:
            return self._numbers.get(index, 0)
        return self._array.item(index) if index < self._capacity else 0

    def nonzero(self, n: int) -> tuple[NDArray[np.intp], Ints]:
        """Return which of the first `n` numbers are not 0, and these numbers."""
        if self._array is not None:
            indices = self._array[:n].nonzero()[0]
            return indices, self._array.take(indices)
        found = {index: number for index, number in self._numbers.items() if index < n}
        return np.fromiter(found, np.intp, len(found)), np.fromiter(found.values(), np.int64, len(found))

    @property
    def nonzero_count(self) -> int:
        """Number of cells that are not 0."""
        if self._array is None:
            return len(self._numbers)
        if self._nonzero_count is None:
            self._nonzero_count = int(np.count_nonzero(self._array))
        return self._nonzero_count

    def fit(self, n: int) -> None:
        """Adapt to at least `n` indices."""
        if n > self._capacity:
            self._capacity = max(n, 2 * self._capacity)
            if self._array is not None:
                self._array = grown(self._array, self._capacity)

    def add(self, index: int, amount: int) -> None:
        """Add an amount to one number."""
        if index >= self._capacity:
            self.fit(index + 1)
        if self._array is not None:
            before = self._array.item(index)
            self._array[index] = before + amount
            if self._nonzero_count is not None:
                self._nonzero_count += (before + amount != 0) - (before != 0)
        elif number := self._numbers.get(index, 0) + amount:
            self._numbers[index] = number
            if len(self._numbers) > self._max_entries:
                self.array()
        else:
            self._numbers.pop(index, None)

    def add_all(self, indices: NDArray[np.intp], amounts: Ints) -> None:
        """Add amounts to many numbers; an index may occur several times."""
        if self._array is None and len(indices) <= self._max_entries:
            for index, amount in zip(indices.tolist(), amounts.tolist(), strict=True):
                self.add(index, amount)
        elif len(indices):
            self.fit(int(indices.max()) + 1)
            np.add.at(self.array(), indices, amounts)
            self._nonzero_count = None

    @property
    def _max_entries(self) -> int:
        return max(_MIN_SPARSE, self._capacity // _CELLS_PER_ENTRY)
