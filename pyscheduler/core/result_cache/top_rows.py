"""The rows with the best total, found without reading all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyscheduler.api.nodes import Ints
from pyscheduler.core.result_cache.calls import NO_SCORES
from pyscheduler.kernels import BLOCK, Classes, Totals, pick_top, refresh_tops

_MAX_CHANGES = 1 << 10
"""Length at which the log of changes is dropped."""


class TopRows:
    """Index of the best total in each block of 128 rows, for each class of nodes if there are classes.

    If a row changes, only its block is searched again. Picking a row reads the index only, so it takes as long however
    many rows have the best total and whatever the scores of the classes are.
    """

    def __init__(self) -> None:
        self._totals: Totals = NO_SCORES
        self._classes: Classes | None = None
        self._tops: Ints = NO_SCORES

    @property
    def bytes(self) -> int:
        """Memory of the index in bytes."""
        return self._tops.nbytes

    def reset(self, totals: Totals, classes: Classes | None = None, size: int = 1) -> None:
        """Search all rows of a column; `classes` has the class of each row, `size` is the number of classes."""
        self._totals, self._classes = totals, classes
        length = 2 * size * -(-len(totals) // BLOCK)
        if len(self._tops) != length:
            self._tops = np.empty(length, np.int64)
        refresh_tops(totals, classes, self._tops, None)

    def update(self, rows: list[int]) -> None:
        """Include the changed totals and classes of these rows."""
        if len(rows) * BLOCK < len(self._totals):
            refresh_tops(self._totals, self._classes, self._tops, rows)
        else:
            refresh_tops(self._totals, self._classes, self._tops, None)

    def pick(self, sums: Ints | None, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order.

        `sums` is what each class adds to the totals of its rows; None if there are no classes.
        """
        return pick_top(self._totals, self._classes, self._tops, sums, random_bits)


class TopScores:
    """The rows with the best total of a column that changes row by row, and a log of its changes."""

    def __init__(self) -> None:
        self.changes: list[int] = []
        """The rows with changed totals; another object if others may have changed too."""
        self._totals: Totals = NO_SCORES
        self._top_rows = TopRows()
        self._read: int | None = None
        """Number of changes that the index includes; None if all rows are to be searched."""

    def reset(self, totals: Totals) -> None:
        """Start to follow a column; report its changes through `update` from now on."""
        self.changes, self._totals, self._read = [], totals, None

    def update(self, rows: list[int]) -> None:
        """Include the changed totals of these rows."""
        if len(self.changes) > _MAX_CHANGES:
            self.reset(self._totals)
        self.changes += rows

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        if self._read is None:
            self._top_rows.reset(self._totals)
        elif self._read < len(self.changes):
            self._top_rows.update(self.changes[self._read :])
        self._read = len(self.changes)
        return self._top_rows.pick(None, random_bits)
