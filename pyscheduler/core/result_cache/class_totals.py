"""Totals of the rows with the scores of their classes added, and the best of them.

Each placed pod may change the scores of the classes, and so the sums of all rows. They are not computed: the best row
without the scores of its class is known for each block and class, and the class with the best sum has the best row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyscheduler.api.nodes import Ints
from pyscheduler.api.normalize import Scores
from pyscheduler.core.result_cache.calls import NO_SCORES
from pyscheduler.core.result_cache.node_classes import Move, NodeClasses
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.kernels import Classes, Rows, Totals, add_by_class, count_by_class

_NO_CLASSES: Classes = np.zeros(0, np.int32)
REJECTED = -(1 << 60)
"""Sum of a rejected class, so that its rows have a total below 0."""

_MAX_INDEXED = 128
"""Number of classes above which the index would take more memory and time than the sums of all rows."""


class ClassTotals:
    """Feasible rows by class, and the total of each row."""

    def __init__(self) -> None:
        self._fitting: Rows | slice | None = None
        """The rows that are feasible but for their class."""
        self._counts: Ints = NO_SCORES
        """Number of these by class."""
        self._codes: Ints | None = None
        """Filter results by class: 0 where the pod fits; None if it fits all."""
        self._fits: Ints = NO_SCORES
        """By class: 1 where the pod fits, else 0."""
        self.rejected_sums: Ints = NO_SCORES
        """By class: 0 where the pod fits, else REJECTED."""
        self._feasible_count: int | None = None
        """Number of feasible rows; None if they are to be counted again."""
        self._scored: Rows | None = None
        """The classes with feasible rows; None if they are to be listed again."""
        self._feasible: Rows | None = None
        """The feasible rows; None if they are to be listed again."""
        self._own: Totals = NO_SCORES
        """Total of each row without its class, as of the last refresh."""
        self._of: Classes = _NO_CLASSES
        """Class of each row."""
        self._sums: Ints = NO_SCORES
        """The scores of each class, REJECTED where the pod does not fit."""
        self._top_scores = TopScores()
        self._by_row: Scores | None = None
        """The sums of all rows, which the index is of if there are very many classes; None if it is of `_own`."""
        self._changes: list[int] | None = None
        """Log of the rows whose own totals changed; None if all rows are to be searched."""
        self._read = 0
        """Number of entries of the log that were read."""
        self._moved: list[int] = []
        """Rows that moved to another class since the last refresh."""

    @property
    def bytes(self) -> int:
        """Memory of the index in bytes."""
        return self._top_scores.bytes + (0 if self._by_row is None else self._by_row.nbytes)

    # -- feasible rows -----------------------------------------------------------------------------------------------

    def follow(self, classes: NodeClasses, rows: RowResults, codes: Ints | None) -> None:
        """Update what depends on the class and the feasibility of the rows; call it before the other methods."""
        if codes is not self._codes or len(self._fits) != classes.size:
            self._codes, self._scored, self._feasible, self._feasible_count = codes, None, None, None
            self._fits = np.ones(classes.size, np.int64) if codes is None else (codes == 0).astype(np.int64)
            self.rejected_sums = (1 - self._fits) * REJECTED
        moves, classes.moves = classes.moves, []
        if moves is None:
            self._changes, self._moved = None, []
        else:
            self._moved += [row for row, _, _ in moves]
        if moves is None or rows.fitting_rows is not self._fitting:
            self._fitting = fitting = rows.fitting_rows
            self._counts = np.empty(classes.size, np.int64)
            count_by_class(self._counts, classes.of, None if isinstance(fitting, slice) else fitting)
            self._scored = self._feasible = self._feasible_count = None
            return
        for move in moves:
            if rows.feasible[move[0]]:
                self._count(move)

    def _count(self, move: Move) -> None:
        counts, fits, (_, before, now) = self._counts, self._fits, move
        counts[before] -= 1
        counts[now] += 1
        if not counts[before] or counts[now] == 1:
            self._scored = None
        if fits[before] != fits[now]:
            self._feasible = self._feasible_count = None

    @property
    def feasible_count(self) -> int:
        """Number of feasible rows."""
        if self._feasible_count is None:
            self._feasible_count = int(self._counts.dot(self._fits))  # ten times as quick as counts[mask].sum()
        return self._feasible_count

    @property
    def scored(self) -> Rows:
        """The classes with feasible rows."""
        if self._scored is None:
            self._scored = (self._counts * self._fits).nonzero()[0]
        return self._scored

    def feasible_rows(self, classes: NodeClasses, rows: RowResults) -> Rows:
        """Return the feasible rows, the same object until others are."""
        if self._feasible is None:
            of = classes.of
            self._feasible = (self._fits.take(of) & rows.feasible[: len(of)]).nonzero()[0]
        return self._feasible

    # -- totals ------------------------------------------------------------------------------------------------------

    def refresh(self, classes: NodeClasses, rows: RowResults, sums: Ints) -> None:
        """Update the totals after the scores of the classes; `sums` has REJECTED for rejected classes."""
        log, moved, self._moved = rows.scores.top_scores.changes, self._moved, []
        self._own, self._of, self._sums = rows.scores.total[: len(classes.of)], classes.of, sums
        if classes.size > _MAX_INDEXED:
            if self._by_row is None or len(self._by_row) != len(self._of):
                self._by_row = np.empty(len(self._of), np.int64)
            add_by_class(self._by_row, self._own, self._of, sums)
            self._top_scores.reset(self._by_row)
        elif log is not self._changes:
            self._by_row = None
            self._top_scores.reset(self._own, self._of, classes.size)
        elif moved or self._read < len(log):
            self._top_scores.update(log[self._read :] + moved)
        self._changes, self._read = log, len(log)

    @property
    def by_row(self) -> Scores:
        """The sums of all scores by row, negative where a row is not feasible."""
        if self._by_row is not None:
            return self._by_row
        totals = np.empty(len(self._of), np.int64)
        add_by_class(totals, self._own, self._of, self._sums)
        return totals

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        return self._top_scores.pick(random_bits, self._sums if self._by_row is None else None)
