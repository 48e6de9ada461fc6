"""Score answers for one pod signature, summed per node and kept up to date row by row.

There are three kinds of plugins. Those that rest are kept in columns, whose sum (`_stable_total`) hardly ever changes. What
live ones say of a node is new when a pod comes to it or leaves it, and is asked and added to that sum row by row
(`_row_total`). Those that move are new nearly everywhere as soon as any pod has come or gone, and are added on top of that
(`total`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import NO_COLUMNS_BY_CHANGE, columns_by_change, select_rows
from pyscheduler.core.decide.invalidation import USAGE, Change, DirtyRows
from pyscheduler.core.decide.pod_dependent_scores import PodDependentScores
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.decide.top_scores import NO_SCORES, TopScores
from pyscheduler.core.decide.uncached_score import UncachedScore
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

INFEASIBLE = -(1 << 61)
"""What is added to the total of a node that does not fit: then it is below 0 whatever else is added."""
UNKNOWN = 2 * INFEASIBLE
"""The total of one that did not fit when it was to be computed, or a little more."""


class ScoreColumns:
    """Every Score plugin of a profile for one pod signature, and the total per node."""

    def __init__(self, state: ClusterState, plugins: Sequence[Weighted], evaluations: CountersByPlugin) -> None:
        self._state = state
        self._plugins = plugins
        self._evaluations = evaluations
        self._columns: dict[str, ScoreColumn] = {}
        self._skipped: frozenset[str] | None = None
        self._uncached: list[UncachedScore] = []
        self._stable: list[ScoreColumn] = []
        self._volatile = PodDependentScores(state)
        self._columns_by_change: Sequence[Sequence[ScoreColumn]] = NO_COLUMNS_BY_CHANGE
        self._is_stable = True
        """Whether those that rest do so even where pods come or go."""
        # Room is made when nodes are first looked at: pods whose nodes PreFilter names never need it.
        self._stable_total = self._row_total = NO_SCORES
        self.total = self._row_total
        """The sum of all; the same array where none moves."""
        self.top_scores = TopScores()
        """The best of `total`."""
        self._top_scores_current = False
        """Whether the leaders follow what `total` is now."""

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return 2 * self._stable_total.nbytes + self._volatile.bytes + sum(c.bytes for c in self._columns.values())

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave the plugins out that PreScore skipped; whether that is another set than last time."""
        if skipped is self._skipped or skipped == self._skipped:
            return False
        self._skipped = skipped
        before = self._stable + self._volatile.columns
        asked = [w for w in self._plugins if w.plugin.name not in skipped]
        live = [w for w in asked if UncachedScore.applies_to(w.plugin)]
        self._uncached = [UncachedScore(w, self._evaluations[w.plugin.name]) for w in live]
        columns = [self._column(w) for w in asked if w not in live]
        for column in columns:
            column.all_stale |= column not in before  # while it was left out, nobody told it of changes
        self._stable = [column for column in columns if not column.is_volatile]
        self._volatile.columns = [column for column in columns if column.is_volatile]
        if not self._stable:
            self._stable_total.fill(0)
        self._columns_by_change = columns_by_change(columns)
        self._is_stable = not any(column in self._columns_by_change[USAGE] for column in self._stable)
        self._make_total()
        return True

    def resize(self, n: int) -> None:
        """Follow the number of nodes: make room for new ones, and let go of those that are no more."""
        self._row_total[n:] = UNKNOWN
        if n > len(self._row_total):
            room = max(n, 2 * len(self._row_total))
            self._stable_total, self._row_total = grown(self._stable_total, room), grown(self._row_total, room, UNKNOWN)
            for column in self._columns.values():
                column.resize(room)
            self._make_total()
        self._top_scores_current = False

    def invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Drop the raw scores that the change makes stale; whether that goes beyond `rows` in a column that rests."""
        beyond = False
        for column in self._columns_by_change[change]:
            beyond |= column.invalidate(change, rows) and not column.is_volatile
        return beyond

    def invalidate_all(self) -> None:
        """Drop every raw score."""
        for column in self._columns.values():
            column.all_stale = True

    def invalidate_plugins(self, plugins: frozenset[str]) -> bool:
        """Drop every raw score of some plugins; whether that makes totals stale beyond what columns that move add."""
        for column in self._columns.values():
            column.all_stale |= column.plugin.name in plugins
        summed = [each.plugin.name for each in self._stable] + [each.plugin.name for each in self._uncached]
        return not plugins.isdisjoint(summed)

    def refresh_rows(self, cycle: Cycle, pod: Pod, rows: DirtyRows, fitting: Rows | slice) -> bool:
        """Bring rows up to date that fitted before and do so now, where nothing but pods on them has changed.

        `fitting` names all that fit. Whether it could be done: it cannot where pods make scores stale that rest.
        """
        if not self._top_scores_current or not self._is_stable:
            return False
        if isinstance(rows, list):
            for row in rows:
                self._sum_row(cycle, pod, row, fits=True)
        else:
            self._sum_rows(cycle, pod, rows, rows)
        for column in self._volatile.columns:
            column.invalidate(USAGE, rows)
        self._add_volatile(cycle, pod, rows, fitting, refit=False)
        return True

    def flip_rows(self, rows: Rows, feasible: Mask) -> Rows:
        """Some rows may fit now that did not, or the other way round: those that fit, but have no total yet.

        What others came to before they ceased to fit still holds: whatever else had happened would make them due.
        """
        rest, fits = self._row_total[rows], feasible[rows]
        turned = (rest >= 0) != fits
        unknown = fits & (rest < INFEASIBLE)
        for change, where in ((INFEASIBLE, turned & ~fits), (-INFEASIBLE, turned & fits & ~unknown)):
            self._row_total[rows[where]] = rest[where] + change
        self._top_scores_current &= not turned.any()
        return rows[unknown]

    def refresh(
        self, cycle: Cycle, pod: Pod, due: DirtyRows | slice, feasible: Mask, fitting: Rows | slice, refit: bool
    ) -> None:
        """Bring the totals up to date: of the rows that are `due`, and of all where columns move.

        `feasible` says which rows fit, `fitting` names them, `refit` is whether those are others than last time.
        """
        everywhere = isinstance(due, slice)
        if isinstance(due, list):
            ours: Rows | slice = np.array([row for row in due if feasible[row]], np.intp)
        else:
            ours = fitting if everywhere else select_rows(due, feasible[due])
        for column in self._stable:
            everywhere |= column.refresh(cycle, pod, self._state, ours, fitting, refit)
        self._sum_stable(everywhere, due)
        if isinstance(due, list):
            for row in due:
                self._sum_row(cycle, pod, row, bool(feasible[row]))
        else:
            self._sum_rows(cycle, pod, due, ours)
        self._add_volatile(cycle, pod, due, fitting, refit)

    def _sum_stable(self, everywhere: bool, due: DirtyRows | slice) -> None:
        """Add up the columns that rest, in rows that are due or everywhere."""
        rows = slice(0, len(self._state)) if everywhere else due
        if not self._stable or (not isinstance(rows, slice) and not len(rows)):
            return
        sums = self._stable[0].weighted[rows]
        for column in self._stable[1:]:
            sums = sums + column.weighted[rows]
        if everywhere:
            # What live plugins say is not kept, but it has not changed either where nothing is due.
            self._row_total[rows] += sums - self._stable_total[rows]
            # Those that do not fit have not been weighed anew.
            self._row_total[self._row_total < 0] = UNKNOWN
            self._top_scores_current = False
        self._stable_total[rows] = sums

    def _sum_row(self, cycle: Cycle, pod: Pod, row: int, fits: bool) -> None:
        now = UNKNOWN
        if fits:
            now, node = self._stable_total.item(row), self._state.rows[row]
            for live in self._uncached:
                now += live.of_row(cycle, pod, node)
        before = self._row_total.item(row)
        self._row_total[row] = now
        if self._top_scores_current and not self._volatile.columns:
            self.top_scores.update(row, before, now)

    def _sum_rows(self, cycle: Cycle, pod: Pod, due: Rows | slice, ours: Rows | slice) -> None:
        """Add what live plugins say to the sum of the resting ones, in many rows of which `ours` fit."""
        if ours is not due:
            self._row_total[due] = UNKNOWN
        sums = self._stable_total[ours]
        for live in self._uncached:
            sums = sums + live.of_rows(cycle, pod, self._state, ours)
        self._row_total[ours] = sums
        self._top_scores_current = False

    def _add_volatile(
        self, cycle: Cycle, pod: Pod, rows: DirtyRows | slice, fitting: Rows | slice, refit: bool
    ) -> None:
        """Add the columns that move to the sum of the others, of which only `rows` are other ones if leaders follow."""
        moving = self._volatile
        if not moving.columns:
            if not self._top_scores_current:
                self._reset_top_scores()
        elif moving.refresh(cycle, pod, rows, fitting, refit) and self._top_scores_current and isinstance(rows, list):
            for row in rows:
                before, now = self.total.item(row), self._row_total.item(row) + moving.of_row(row)
                self.total[row] = now
                self.top_scores.update(row, before, now)
        else:
            moving.add_to(self._row_total, self.total)
            self._reset_top_scores()

    def _reset_top_scores(self) -> None:
        self.top_scores.reset(self.total)
        self._top_scores_current = True

    def _column(self, weighted: Weighted) -> ScoreColumn:
        name = weighted.plugin.name
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = ScoreColumn(weighted, len(self._row_total), self._evaluations[name])
        return column

    def _make_total(self) -> None:
        self.total = np.empty_like(self._row_total) if self._volatile.columns else self._row_total
        self._top_scores_current = False
