"""Log of changed rows, by which caches of per-node results are updated incrementally.

Readers store a mark; `since(mark)` returns the rows changed after it. Old entries are dropped; a reader that is too far
behind gets None and must start over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_KEEP = 1 << 16


class ChangeLog:
    """An append-only list of row numbers that drops its oldest entries."""

    __slots__ = ("_base", "_rows", "mark")

    def __init__(self) -> None:
        self._rows: NDArray[np.intp] = np.empty(2 * _KEEP, np.intp)
        self._base = 0
        self.mark = 0
        """Position after the newest entry."""

    def append(self, row: int) -> None:
        """Record a change of the row."""
        position = self.mark - self._base
        if position == 2 * _KEEP:
            self._rows[:_KEEP] = self._rows[_KEEP:]
            self._base += _KEEP
            position = _KEEP
        self._rows[position] = row
        self.mark += 1

    def since(self, mark: int) -> NDArray[np.intp] | None:
        """Return the rows changed after `mark`, with repetitions; None if older entries were dropped."""
        start = mark - self._base
        return None if start < 0 else self._rows[start : self.mark - self._base].copy()
