"""Which rows have the best total, kept from attempt to attempt.

Between two pods of a shape one row changes, and mostly that is one of many that were the best: then the others still
are. All rows are looked at again only once none is left.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.normalize import Scores

Rows = NDArray[np.intp]
NO_SCORES: Scores = np.zeros(0, np.int64)


class Leaders:
    """The rows with the best total in ascending order; a column's place in it is its row."""

    __slots__ = ("_rows", "_top", "_totals")

    def __init__(self) -> None:
        self._totals = NO_SCORES
        self._top = 0
        self._rows: Rows | list[int] | None = None
        """None where they are to be looked for; a list from the first change on."""

    def follow(self, totals: Scores) -> None:
        """Take up a column, whose changes are told from now on."""
        self._totals = totals
        self._rows = None

    def changed(self, row: int, before: int, now: int) -> None:
        """A row's total has changed in the column that is followed."""
        if self._rows is None or before == now:
            return
        if now > self._top:
            self._top, self._rows = now, [row]
        elif now == self._top:
            insort(self._listed(self._rows), row)
        elif before == self._top:
            rows = self._listed(self._rows)
            del rows[bisect_left(rows, row)]
            if not rows:
                self._rows = None

    def pick(self, chance: Callable[[], int]) -> int:
        """One of the rows that have the best total: number `chance()` of them in row order, counted round and round."""
        rows = self._look() if self._rows is None else self._rows
        return int(rows[chance() % len(rows) if len(rows) > 1 else 0])

    def _look(self) -> Rows:
        totals = self._totals
        top = totals[totals.argmax()]  # several times as quick as max()
        rows: Rows = (totals == top).nonzero()[0]
        self._top, self._rows = int(top), rows
        return rows

    def _listed(self, rows: Rows | list[int]) -> list[int]:
        listed: list[int] = rows if isinstance(rows, list) else rows.tolist()
        self._rows = listed
        return listed
