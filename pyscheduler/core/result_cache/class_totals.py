"""Totals of the rows with the scores of their classes added, kept up to date between attempts.

If pods of one template follow each other, a row or two change between two of them, in their own total or because they
move to another class, and the scores of the classes often stay as they are. Then the sums are kept by row. Otherwise
one pass over the rows finds the best one without storing them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyscheduler.api.nodes import Ints
from pyscheduler.api.normalize import Scores
from pyscheduler.core.framework.score_plugins import FEW, NO_SCORES
from pyscheduler.core.result_cache.node_classes import Move, NodeClasses
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.kernels import Classes, Rows, Totals, add_by_class, count_by_class, pick_by_class

_NO_CLASSES: Classes = np.zeros(0, np.int32)
REJECTED = -(1 << 60)
"""Sum of a rejected class, so that its rows have a total below 0."""


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
        self._by_row: Scores | None = None
        """Sums of all scores by row, negative where a row is not feasible; None if they are not kept."""
        self._own: Totals = NO_SCORES
        """Total of each row without its class, as of the last refresh."""
        self._of: Classes = _NO_CLASSES
        """Class of each row."""
        self._sums: Ints = NO_SCORES
        """The scores of each class, REJECTED where the pod does not fit."""
        self._top_scores = TopScores()
        self._changes: list[int] = []
        """Log of the rows whose own totals changed."""
        self._read = 0
        """Number of entries of the log that were read."""
        self._moved: list[int] = []
        """Rows that moved to another class since the last refresh."""

    @property
    def bytes(self) -> int:
        """Memory of the totals in bytes."""
        return 0 if self._by_row is None else self._by_row.nbytes

    # -- feasible rows -----------------------------------------------------------------------------------------------

    def follow(self, classes: NodeClasses, rows: RowResults, codes: Ints | None) -> None:
        """Update what depends on the class and the feasibility of the rows; call it before the other methods."""
        if codes is not self._codes or len(self._fits) != classes.size:
            self._codes, self._scored, self._feasible, self._feasible_count = codes, None, None, None
            self._fits = np.ones(classes.size, np.int64) if codes is None else (codes == 0).astype(np.int64)
            self.rejected_sums = (1 - self._fits) * REJECTED
        moves, classes.moves = classes.moves, []
        if moves is None or rows.fitting_rows is not self._fitting:
            self._fitting = fitting = rows.fitting_rows
            self._counts = _count_feasible(classes, rows, fitting)
            self._scored = self._feasible = self._feasible_count = self._by_row = None
            return
        for move in moves:
            self._moved.append(move[0])
            if rows.feasible[move[0]]:
                self._count(move)
        if len(self._moved) > FEW:
            self._moved, self._by_row = [], None

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
            fits = self._fits.astype(np.bool_).take(of)  # taking from bools takes a third of the time
            self._feasible = (fits & rows.feasible[: len(of)]).nonzero()[0]
        return self._feasible

    # -- totals ------------------------------------------------------------------------------------------------------

    def refresh(self, classes: NodeClasses, rows: RowResults, sums: Ints) -> None:
        """Update the totals after the scores of the classes; `sums` has REJECTED for rejected classes."""
        log, moved = rows.scores.top_scores.changes, self._moved
        changed = [*log[self._read :], *moved] if log is self._changes else None
        self._moved, self._changes, self._read = [], log, len(log)
        self._own, self._of = rows.scores.total[: len(classes.of)], classes.of
        are_same = sums is self._sums or sums.tobytes() == self._sums.tobytes()
        self._sums = sums
        if changed is None or len(changed) > FEW or not are_same:
            self._by_row = None
        elif self._by_row is None:
            self._by_row = self._summed()
            self._top_scores.reset(self._by_row)
        else:
            self._update_rows(self._by_row, {*changed})

    def _update_rows(self, by_row: Scores, changed: set[int]) -> None:
        own, of, sums = self._own, self._of, self._sums
        for row in changed:
            by_row[row] = own.item(row) + sums.item(of.item(row))
            self._top_scores.update(row)

    def _summed(self) -> Scores:
        totals = np.empty(len(self._of), np.int64)
        add_by_class(totals, self._own, self._of, self._sums)
        return totals

    @property
    def by_row(self) -> Scores:
        """The sums of all scores by row, negative where a row is not feasible."""
        return self._summed() if self._by_row is None else self._by_row

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        if self._by_row is None:
            return pick_by_class(self._own, self._of, self._sums, random_bits())
        return self._top_scores.pick(random_bits)


def _count_feasible(classes: NodeClasses, rows: RowResults, fitting: Rows | slice) -> Ints:
    """Return the number of feasible rows by class, those of rejected classes included."""
    if not isinstance(fitting, slice) and len(fitting) <= len(classes.of) // 2:
        counts = np.empty(classes.size, np.int64)
        count_by_class(counts, classes.of, fitting)
        return counts
    counts = classes.counts.copy()
    if not isinstance(fitting, slice):
        np.subtract.at(counts, classes.of.take((~rows.feasible).nonzero()[0]), 1)
    return counts
