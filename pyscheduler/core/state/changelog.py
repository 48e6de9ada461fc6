"""Which rows changed since somebody last looked: the bookkeeping behind incremental evaluation.

Readers keep a mark; `since(mark)` names the rows touched after it. The log forgets old entries, and then tells the
reader to start over rather than answer wrongly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_KEEP = 1 << 16


class ChangeLog:
    """An append-only list of row numbers with a movable start."""

    __slots__ = ("_base", "_rows", "mark")

    def __init__(self) -> None:
        self._rows: NDArray[np.intp] = np.empty(2 * _KEEP, np.intp)
        self._base = 0
        self.mark = 0
        """The place after the newest entry."""

    def append(self, row: int) -> None:
        """Note that the row has changed."""
        place = self.mark - self._base
        if place == 2 * _KEEP:
            self._rows[:_KEEP] = self._rows[_KEEP:]
            self._base += _KEEP
            place = _KEEP
        self._rows[place] = row
        self.mark += 1

    def since(self, mark: int) -> NDArray[np.intp] | None:
        """The rows changed after `mark`, as often as they were; None if the log no longer reaches back that far."""
        start = mark - self._base
        return None if start < 0 else self._rows[start : self.mark - self._base].copy()
