"""Score answers for one pod shape: raw, normalised and weighted, summed per node, kept up to date row by row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.normalize import MAX_NODE_SCORE, Normalizer, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import are_few, picked
from pyscheduler.core.decide.staleness import Change, Scope, overwrite, scopes
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.state.cluster import ClusterState

Rows = NDArray[np.intp]
INFEASIBLE = -1
"""The total of a node that does not fit, below every real total."""


class ScoreColumn:
    """One Score plugin: its raw answers, which of them are current, and the weighted result."""

    __slots__ = ("_free_form", "fresh", "normalizer", "plugin", "raw", "reach", "settled", "span", "weight", "weighted")

    def __init__(self, weighted: Weighted, n: int) -> None:
        self.plugin: ScorePlugin = weighted.plugin
        self.weight = weighted.weight
        self.reach = scopes(weighted.plugin)
        self._free_form = type(self.plugin).normalize is not ScorePlugin.normalize
        self.normalizer: Normalizer | None = None if self._free_form else self.plugin.normalizer
        self.raw: Scores = np.zeros(n, np.int64)
        self.fresh: NDArray[np.bool_] = np.zeros(n, np.bool_)
        self.weighted: Scores = np.zeros(n, np.int64)
        self.settled = False
        """Whether every row that fitted when all were last settled is current, and nothing was forgotten since."""
        self.span: Any = None

    def fit(self, n: int) -> None:
        """Make room for `n` rows; what is new is not current."""
        if n > len(self.raw):
            size = max(n, 2 * len(self.raw))
            for name in ("raw", "fresh", "weighted"):
                cells = getattr(self, name)
                bigger = np.zeros(size, cells.dtype)
                bigger[: len(cells)] = cells
                setattr(self, name, bigger)

    @property
    def depends_on_others(self) -> bool:
        """Whether a node's final score depends on which other nodes fit."""
        return self._free_form or self.normalizer is not None

    def ask_row(self, cycle: Cycle, pod: Pod, state: ClusterState, row: int) -> bool:
        """The raw score of one row by the plain form; whether it changed."""
        known = int(self.raw[row]) if self.fresh[row] else None
        try:
            score = self.plugin.score(cycle, pod, state.rows[row])
            self.raw[row] = score  # raises if it is no number, or beyond 64 bits
        except Exception as error:
            raise PluginFailed(self.plugin.name, "Score", error) from error
        self.fresh[row] = True
        return score != known

    def ask(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice) -> None:
        """The raw scores of some rows, of few by the plain form."""
        if not isinstance(rows, slice) and are_few(rows):
            for row in rows.tolist():
                self.ask_row(cycle, pod, state, row)
            return
        table = state.table(None if isinstance(rows, slice) else rows)
        try:
            self.raw[rows] = self.plugin.score_all(cycle, pod, table)
        except Exception as error:
            raise PluginFailed(self.plugin.name, "Score", error) from error
        self.fresh[rows] = True

    def renormalize(self, cycle: Cycle, pod: Pod, feasible: Rows | slice) -> bool:
        """Normalise and weigh all feasible rows if what the result depends on has changed; whether it has."""
        raw = self._raw(feasible)
        try:
            if self._free_form:
                final = self.plugin.normalize(cycle, pod, raw)
            elif self.normalizer is None:
                final = raw
            else:
                span = self.normalizer.span(raw)
                if span == self.span:
                    return False
                final = self.normalizer.rescale(raw, span)
                self.span = span
        except Exception as error:
            raise PluginFailed(self.plugin.name, "NormalizeScore", error) from error
        self._check(final)
        self.weighted[feasible] = final * self.weight
        return True

    def weigh(self, rows: Rows | slice) -> None:
        """Weigh some rows, with the span that holds."""
        raw = self._raw(rows)
        if not len(raw):
            return
        final = raw if self.normalizer is None else self.normalizer.rescale(raw, self.span)
        self._check(final)
        self.weighted[rows] = final * self.weight

    def weigh_row(self, row: int) -> None:
        """Weigh one row, with the span that holds."""
        if self.normalizer is not None:
            self.weigh(np.array([row], np.intp))
            return
        score = int(self.raw[row])
        if not 0 <= score <= MAX_NODE_SCORE:
            self._check(self.raw[row : row + 1])
        self.weighted[row] = score * self.weight

    def _raw(self, rows: Rows | slice) -> Scores:
        """The raw scores of some rows, for a plugin to compute with: never the column itself."""
        return self.raw[rows].copy() if isinstance(rows, slice) else self.raw[rows]

    def _check(self, final: Scores) -> None:
        if len(final) and (int(final.min()) < 0 or int(final.max()) > MAX_NODE_SCORE):
            worst = int(final.max()) if int(final.max()) > MAX_NODE_SCORE else int(final.min())
            text = f"invalid score {worst}, it should be in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            raise PluginFailed(self.plugin.name, "NormalizeScore", ValueError(text))


class ScoreColumns:
    """Every Score plugin of a profile for one pod shape, and the total per node."""

    __slots__ = ("_active", "_columns", "_plugins", "_skipped", "_state", "total")

    def __init__(self, state: ClusterState, plugins: Sequence[Weighted]) -> None:
        self._state = state
        self._plugins = plugins
        self._columns: dict[str, ScoreColumn] = {}
        self._active: list[ScoreColumn] = []
        self._skipped: set[str] | None = None
        self.total: Scores = np.full(len(state), INFEASIBLE, np.int64)

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return self.total.nbytes + sum(c.raw.nbytes * 2 + c.fresh.nbytes for c in self._columns.values())

    @property
    def active(self) -> Sequence[ScoreColumn]:
        """The columns of the plugins that have something to say of this shape."""
        return self._active

    def activate(self, skipped: set[str]) -> bool:
        """Leave the plugins out that PreScore skipped; whether that is another set than last time."""
        if skipped == self._skipped:
            return False
        self._skipped = set(skipped)
        self._active = [self._column(w) for w in self._plugins if w.plugin.name not in skipped]
        return True

    def fit(self, n: int) -> None:
        """Make room for `n` rows."""
        if n > len(self.total):
            bigger = np.full(max(n, 2 * len(self.total)), INFEASIBLE, np.int64)
            bigger[: len(self.total)] = self.total
            self.total = bigger
        for column in self._columns.values():
            column.fit(n)

    def forget(self, change: Change, rows: Collection[int]) -> bool:
        """Drop the raw scores that the change makes stale; whether that goes beyond `rows`."""
        everywhere = False
        for column in self._columns.values():
            reach = column.reach[change]
            if reach is Scope.EVERYWHERE or (rows and reach is Scope.ROWS):
                column.settled = False
                everywhere |= overwrite(column.fresh, reach, rows, False)
        return everywhere

    def forget_all(self) -> None:
        """Drop every raw score."""
        for column in self._columns.values():
            column.fresh.fill(False)
            column.settled = False

    def settle(self, cycle: Cycle, pod: Pod, changed: Rows | slice, feasible: Mask, refit: bool) -> None:
        """Bring the totals up to date where answers may be new; `refit`: some rows began or ceased to fit."""
        fitting = picked(changed, feasible[changed])
        everywhere = isinstance(changed, slice)
        for column in self._active:
            if column.settled and not refit:
                continue
            fresh = column.fresh[fitting]
            outdated = not fresh.all()
            stale = picked(fitting, ~fresh)
            if outdated:
                column.ask(cycle, pod, self._state, stale)
            if outdated or refit:
                if self._renormalized(cycle, pod, column, feasible):
                    everywhere = True
                else:
                    column.weigh(fitting if refit else stale)
            column.settled = isinstance(changed, slice)
        if everywhere:
            self._sum_all(feasible)
        else:
            self.total[changed] = INFEASIBLE
            self._sum(fitting)

    def settle_few(self, cycle: Cycle, pod: Pod, changed: Collection[int], feasible: Mask, refit: bool) -> None:
        """The same for a few rows, by the plain form: what follows nearly every placement."""
        fitting = [row for row in changed if feasible[row]]
        everywhere = False
        for column in self._active:
            moved = False
            for row in fitting:
                if not column.fresh[row]:
                    moved |= column.ask_row(cycle, pod, self._state, row)
            if moved or refit:
                if self._renormalized(cycle, pod, column, feasible):
                    everywhere = True
                else:
                    for row in fitting:
                        column.weigh_row(row)
        if everywhere:
            self._sum_all(feasible)
            return
        for row in changed:
            fits = feasible[row]
            self.total[row] = sum(int(c.weighted[row]) for c in self._active) if fits else INFEASIBLE

    def _renormalized(self, cycle: Cycle, pod: Pod, column: ScoreColumn, feasible: Mask) -> bool:
        """Whether new raw scores have changed what the others of the column come to, and all are weighed anew."""
        if not column.depends_on_others:
            return False
        if not feasible.any():
            return False
        return column.renormalize(cycle, pod, picked(slice(0, len(self._state)), feasible[: len(self._state)]))

    def _column(self, weighted: Weighted) -> ScoreColumn:
        name = weighted.plugin.name
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = ScoreColumn(weighted, len(self.total))
        return column

    def _sum_all(self, feasible: Mask) -> None:
        """Add up every row: quicker than picking out those that fit, whose sums alone are kept."""
        n = len(self._state)
        total = self.total[:n]
        total.fill(0)
        for column in self._active:
            total += column.weighted[:n]
        np.copyto(total, INFEASIBLE, where=~feasible[:n])

    def _sum(self, rows: Rows | slice) -> None:
        """Add up what the columns say of some feasible rows."""
        self.total[rows] = 0
        for column in self._active:
            self.total[rows] += column.weighted[rows]
