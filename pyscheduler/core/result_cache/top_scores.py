"""The rows with the best total, kept up to date row by row."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from pyscheduler.api.normalize import Scores
from pyscheduler.core.result_cache.calls import NO_SCORES
from pyscheduler.kernels import Rows, count_equal, nth_equal

_MAX_LISTED = 2048
"""Maximum length of the list form. Converting more rows takes as long as many single removals."""
_MAX_CHANGES = 64
"""Length at which the list of changes is dropped."""
_MAX_REMOVED = 64
"""Number of removed rows at which the array is copied without them. Below `_MAX_LISTED`, so it is never empty."""


class TopScores(Struct, eq=False):
    """The rows with the best total, in ascending order; the index in the column is the row.

    If pods of one template follow each other, one row changes between two of them, and it is mostly one of many with
    the best total: the others still have it, so the rows with it are listed. If other templates came in between, many
    rows have changed, and the row to pick is searched without a list.
    """

    _totals: Scores = NO_SCORES
    changes: list[int] = []
    """The rows with changed totals; another object if others may have changed too."""
    _is_first_pick: bool = True
    """True until a row is picked after `reset`."""
    _top: int = 0
    _rows: Rows | list[int] | None = None
    """None if they must be searched; a list from the first change on unless there are too many."""
    _removed: list[int] = []
    """Indexes of the array elements that no longer have the best total, in ascending order."""

    def reset(self, totals: Scores) -> None:
        """Start to follow a column; report its changes through `update` from now on."""
        self._totals = totals
        self.changes = []
        self._rows = None
        self._is_first_pick = True

    def update(self, row: int, before: int, now: int) -> None:
        """Apply the change of one row's total from `before` to `now`."""
        if before == now:
            return
        if len(self.changes) >= _MAX_CHANGES:
            self.changes = []
        self.changes.append(row)
        if self._rows is None:
            return
        if now > self._top:
            self._top, self._rows = now, [row]
        elif now == self._top:
            insort(self._as_list(self._rows), row)
        elif before == self._top:
            self._remove(self._rows, row)

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        if self._is_first_pick:
            self._is_first_pick = False
            return self._search(random_bits)
        rows = self._find() if self._rows is None else self._rows
        removed = () if isinstance(rows, list) else self._removed
        remaining = len(rows) - len(removed)
        index = random_bits() % remaining if remaining > 1 else 0
        for removed_index in removed:
            if removed_index > index:
                break
            index += 1
        return int(rows[index])

    def _search(self, random_bits: Callable[[], int]) -> int:
        """Return what `pick` returns, without a list of the best rows."""
        totals = self._totals
        top = int(totals[totals.argmax()])
        count = count_equal(totals, top)
        return nth_equal(totals, top, random_bits() % count if count > 1 else 0)

    def _find(self) -> Rows:
        """List the best rows."""
        totals = self._totals
        top = totals[totals.argmax()]  # several times as quick as max()
        rows: Rows = (totals == top).nonzero()[0]
        self._top, self._rows, self._removed = int(top), rows, []
        return rows

    def _remove(self, rows: Rows | list[int], row: int) -> None:
        """Remove a row that no longer has the best total."""
        if isinstance(rows, list) or len(rows) <= _MAX_LISTED:
            rows = self._as_list(rows)
            del rows[bisect_left(rows, row)]
            if not rows:
                self._rows = None
            return
        insort(self._removed, int(rows.searchsorted(row)))
        if len(self._removed) >= _MAX_REMOVED:
            self._rows, self._removed = np.delete(rows, self._removed), []

    def _as_list(self, rows: Rows | list[int]) -> list[int]:
        if isinstance(rows, list):
            return rows
        listed: list[int] = (np.delete(rows, self._removed) if self._removed else rows).tolist()
        self._rows, self._removed = listed, []
        return listed
