"""Which rows have the best total, kept from attempt to attempt.

Between two pods of a signature one row changes, and mostly that is one of many that were the best: then the others still
are. All rows are looked at again only once none is left.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from pyscheduler.api.normalize import Scores
from pyscheduler.kernels import Rows

NO_SCORES: Scores = np.zeros(0, np.int64)
_LISTED = 2048
"""More rows than that are not made a list of: it takes as long as many of them take to leave one by one."""
_GONE = 64
"""So many rows leave an array before it is written anew: fewer than `_LISTED`, so that it is never empty."""


class TopScores:
    """The rows with the best total in ascending order; a column's place in it is its row."""

    __slots__ = ("_gone", "_rows", "_top", "_totals")

    def __init__(self) -> None:
        self._totals = NO_SCORES
        self._top = 0
        self._rows: Rows | list[int] | None = None
        """None where they are to be looked for; a list from the first change on where they are not too many."""
        self._gone: list[int] = []
        """The places of those in an array that have ceased to lead, in ascending order."""

    def reset(self, totals: Scores) -> None:
        """Take up a column, whose changes are told from now on."""
        self._totals = totals
        self._rows = None

    def update(self, row: int, before: int, now: int) -> None:
        """A row's total has changed in the column that is followed."""
        if self._rows is None or before == now:
            return
        if now > self._top:
            self._top, self._rows = now, [row]
        elif now == self._top:
            insort(self._listed(self._rows), row)
        elif before == self._top:
            self._remove(self._rows, row)

    def pick(self, chance: Callable[[], int]) -> int:
        """One of the rows that have the best total: number `chance()` of them in row order, counted round and round."""
        rows = self._find() if self._rows is None else self._rows
        gone = () if isinstance(rows, list) else self._gone
        left = len(rows) - len(gone)
        place = chance() % left if left > 1 else 0
        for passed_over in gone:
            if passed_over > place:
                break
            place += 1
        return int(rows[place])

    def _find(self) -> Rows:
        totals = self._totals
        top = totals[totals.argmax()]  # several times as quick as max()
        rows: Rows = (totals == top).nonzero()[0]
        self._top, self._rows, self._gone = int(top), rows, []
        return rows

    def _remove(self, rows: Rows | list[int], row: int) -> None:
        """One of the rows leads no more."""
        if isinstance(rows, list) or len(rows) <= _LISTED:
            rows = self._listed(rows)
            del rows[bisect_left(rows, row)]
            if not rows:
                self._rows = None
            return
        insort(self._gone, int(rows.searchsorted(row)))
        if len(self._gone) >= _GONE:
            self._rows, self._gone = np.delete(rows, self._gone), []

    def _listed(self, rows: Rows | list[int]) -> list[int]:
        if isinstance(rows, list):
            return rows
        listed: list[int] = (np.delete(rows, self._gone) if self._gone else rows).tolist()
        self._rows, self._gone = listed, []
        return listed
