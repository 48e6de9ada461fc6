"""Score answers for one pod shape, summed per node and kept up to date row by row.

There are three kinds of plugins. Those that rest are kept in columns, whose sum (`_still`) hardly ever changes. What
live ones say of a node is new when a pod comes to it or leaves it, and is asked and added to that sum row by row
(`_rest`). Those that move are new nearly everywhere as soon as any pod has come or gone, and are added on top of that
(`total`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import NONE_REACHED, picked, reached
from pyscheduler.core.decide.leaders import NO_SCORES, Leaders
from pyscheduler.core.decide.live_score import LiveScore
from pyscheduler.core.decide.moving import MovingScores
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.decide.staleness import USAGE, Change, Touched
from pyscheduler.core.framework.evaluations import Counts
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

INFEASIBLE = -(1 << 61)
"""What is added to the total of a node that does not fit: then it is below 0 whatever else is added."""
UNKNOWN = 2 * INFEASIBLE
"""The total of one that did not fit when it was to be computed, or a little more."""


class ScoreColumns:
    """Every Score plugin of a profile for one pod shape, and the total per node."""

    def __init__(self, state: ClusterState, plugins: Sequence[Weighted], asked: Counts) -> None:
        self._state = state
        self._plugins = plugins
        self._asked = asked
        self._columns: dict[str, ScoreColumn] = {}
        self._skipped: frozenset[str] | None = None
        self._live: list[LiveScore] = []
        self._resting: list[ScoreColumn] = []
        self._moving = MovingScores(state)
        self._reached: Sequence[Sequence[ScoreColumn]] = NONE_REACHED
        self._at_rest = True
        """Whether those that rest do so even where pods come or go."""
        # Room is made when nodes are first looked at: pods whose nodes PreFilter names never need it.
        self._still = self._rest = NO_SCORES
        self.total = self._rest
        """The sum of all; the same array where none moves."""
        self.leaders = Leaders()
        """The best of `total`."""
        self._followed = False
        """Whether the leaders follow what `total` is now."""

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return 2 * self._still.nbytes + self._moving.bytes + sum(c.bytes for c in self._columns.values())

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave the plugins out that PreScore skipped; whether that is another set than last time."""
        if skipped is self._skipped or skipped == self._skipped:
            return False
        self._skipped = skipped
        before = self._resting + self._moving.columns
        asked = [w for w in self._plugins if w.plugin.name not in skipped]
        live = [w for w in asked if LiveScore.suits(w.plugin)]
        self._live = [LiveScore(w, self._asked[w.plugin.name]) for w in live]
        columns = [self._column(w) for w in asked if w not in live]
        for column in columns:
            column.all_stale |= column not in before  # while it was left out, nobody told it of changes
        self._resting = [column for column in columns if not column.moves]
        self._moving.columns = [column for column in columns if column.moves]
        if not self._resting:
            self._still.fill(0)
        self._reached = reached(columns)
        self._at_rest = not any(column in self._reached[USAGE] for column in self._resting)
        self._make_total()
        return True

    def fit(self, n: int) -> None:
        """Follow the number of nodes: make room for new ones, and let go of those that are no more."""
        self._rest[n:] = UNKNOWN
        if n > len(self._rest):
            room = max(n, 2 * len(self._rest))
            self._still, self._rest = grown(self._still, room), grown(self._rest, room, UNKNOWN)
            for column in self._columns.values():
                column.fit(room)
            self._make_total()
        self._followed = False

    def forget(self, change: Change, rows: Touched) -> bool:
        """Drop the raw scores that the change makes stale; whether that goes beyond `rows` in a column that rests."""
        beyond = False
        for column in self._reached[change]:
            beyond |= column.forget(change, rows) and not column.moves
        return beyond

    def forget_all(self) -> None:
        """Drop every raw score."""
        for column in self._columns.values():
            column.all_stale = True

    def forget_those_of(self, plugins: frozenset[str]) -> bool:
        """Drop every raw score of some plugins; whether that makes totals stale beyond what columns that move add."""
        for column in self._columns.values():
            column.all_stale |= column.plugin.name in plugins
        summed = [each.plugin.name for each in self._resting] + [each.plugin.name for each in self._live]
        return not plugins.isdisjoint(summed)

    def follow(self, cycle: Cycle, pod: Pod, rows: Touched, fitting: Rows | slice) -> bool:
        """Bring rows up to date that fitted before and do so now, where nothing but pods on them has changed.

        `fitting` names all that fit. Whether it could be done: it cannot where pods make scores stale that rest.
        """
        if not self._followed or not self._at_rest:
            return False
        if isinstance(rows, list):
            for row in rows:
                self._sum_row(cycle, pod, row, fits=True)
        else:
            self._sum_rows(cycle, pod, rows, rows)
        for column in self._moving.columns:
            column.forget(USAGE, rows)
        self._add_moving(cycle, pod, rows, fitting, refit=False)
        return True

    def turn(self, rows: Rows, feasible: Mask) -> Rows:
        """Some rows may fit now that did not, or the other way round: those that fit, but have no total yet.

        What others came to before they ceased to fit still holds: whatever else had happened would make them due.
        """
        rest, fits = self._rest[rows], feasible[rows]
        turned = (rest >= 0) != fits
        unknown = fits & (rest < INFEASIBLE)
        for change, where in ((INFEASIBLE, turned & ~fits), (-INFEASIBLE, turned & fits & ~unknown)):
            self._rest[rows[where]] = rest[where] + change
        self._followed &= not turned.any()
        return rows[unknown]

    def settle(
        self, cycle: Cycle, pod: Pod, due: Touched | slice, feasible: Mask, fitting: Rows | slice, refit: bool
    ) -> None:
        """Bring the totals up to date: of the rows that are `due`, and of all where columns move.

        `feasible` says which rows fit, `fitting` names them, `refit` is whether those are others than last time.
        """
        everywhere = isinstance(due, slice)
        if isinstance(due, list):
            ours: Rows | slice = np.array([row for row in due if feasible[row]], np.intp)
        else:
            ours = fitting if everywhere else picked(due, feasible[due])
        for column in self._resting:
            everywhere |= column.settle(cycle, pod, self._state, ours, fitting, refit)
        self._sum_resting(everywhere, due)
        if isinstance(due, list):
            for row in due:
                self._sum_row(cycle, pod, row, bool(feasible[row]))
        else:
            self._sum_rows(cycle, pod, due, ours)
        self._add_moving(cycle, pod, due, fitting, refit)

    def _sum_resting(self, everywhere: bool, due: Touched | slice) -> None:
        """Add up the columns that rest, in rows that are due or everywhere."""
        rows = slice(0, len(self._state)) if everywhere else due
        if not self._resting or (not isinstance(rows, slice) and not len(rows)):
            return
        sums = self._resting[0].weighted[rows]
        for column in self._resting[1:]:
            sums = sums + column.weighted[rows]
        if everywhere:
            # What live plugins say is not kept, but it has not changed either where nothing is due.
            self._rest[rows] += sums - self._still[rows]
            # Those that do not fit have not been weighed anew.
            self._rest[self._rest < 0] = UNKNOWN
            self._followed = False
        self._still[rows] = sums

    def _sum_row(self, cycle: Cycle, pod: Pod, row: int, fits: bool) -> None:
        now = UNKNOWN
        if fits:
            now, node = self._still.item(row), self._state.rows[row]
            for live in self._live:
                now += live.of_row(cycle, pod, node)
        before = self._rest.item(row)
        self._rest[row] = now
        if self._followed and not self._moving.columns:
            self.leaders.changed(row, before, now)

    def _sum_rows(self, cycle: Cycle, pod: Pod, due: Rows | slice, ours: Rows | slice) -> None:
        """Add what live plugins say to the sum of the resting ones, in many rows of which `ours` fit."""
        if ours is not due:
            self._rest[due] = UNKNOWN
        sums = self._still[ours]
        for live in self._live:
            sums = sums + live.of_rows(cycle, pod, self._state, ours)
        self._rest[ours] = sums
        self._followed = False

    def _add_moving(self, cycle: Cycle, pod: Pod, rows: Touched | slice, fitting: Rows | slice, refit: bool) -> None:
        """Add the columns that move to the sum of the others, of which only `rows` are other ones if leaders follow."""
        moving = self._moving
        if not moving.columns:
            if not self._followed:
                self._look_anew()
        elif moving.settle(cycle, pod, rows, fitting, refit) and self._followed and isinstance(rows, list):
            for row in rows:
                before, now = self.total.item(row), self._rest.item(row) + moving.of_row(row)
                self.total[row] = now
                self.leaders.changed(row, before, now)
        else:
            moving.add_to(self._rest, self.total)
            self._look_anew()

    def _look_anew(self) -> None:
        self.leaders.follow(self.total)
        self._followed = True

    def _column(self, weighted: Weighted) -> ScoreColumn:
        name = weighted.plugin.name
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = ScoreColumn(weighted, len(self._rest), self._asked[name])
        return column

    def _make_total(self) -> None:
        self.total = np.empty_like(self._rest) if self._moving.columns else self._rest
        self._followed = False
