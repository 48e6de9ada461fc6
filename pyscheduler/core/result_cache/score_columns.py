"""Scores by row, summed per node and kept up to date row by row, and the rows with the best total.

There are three kinds of Score plugins. Stable ones have a column, and the sum of these (`_stable_total`) hardly ever
changes. Uncached ones get a new score for a node whenever a pod is added to it or removed from it; they run again and
are added row by row (`_row_total`). Volatile ones change on nearly all nodes whenever any pod is added or removed;
their sum is added on top (`total`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Scores
from pyscheduler.api.plugin import Reads, ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import check_score
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin, EvaluationCounter
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Weighted, reads_of
from pyscheduler.core.result_cache.filter_columns import NO_COLUMNS_BY_CHANGE, are_few, columns_by_change, select_rows
from pyscheduler.core.result_cache.invalidation import (
    ATTEMPT,
    NODE,
    USAGE,
    Change,
    DirtyRows,
    Scope,
    invalidation_scopes,
)
from pyscheduler.core.result_cache.score_column import NO_SCORES, ScoreColumn, check_range, out_of_range, scores_of
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows, count_equal, nth_equal

INFEASIBLE = -(1 << 61)
"""Total of an infeasible node; below 0 whatever volatile columns add."""
_MAX_LISTED = 2048
"""Maximum length of the list form. Converting more rows takes as long as many single removals."""
_MAX_CHANGES = 64
"""Length at which the list of changes is dropped."""
_MAX_REMOVED = 64
"""Number of removed rows at which the array is copied without them. Below `_MAX_LISTED`, so it is never empty."""


class UncachedScore:
    """A plugin that is not normalised and reads the node and its pods only: computed at each use, never cached.

    Reading a cache would cost more: with hundreds of signatures its entries are no longer in the CPU caches when used.
    """

    __slots__ = ("evaluations", "plugin", "weight")

    def __init__(self, weighted: Weighted, evaluations: EvaluationCounter) -> None:
        self.plugin = weighted.plugin
        self.weight = weighted.weight
        self.evaluations = evaluations

    @staticmethod
    def applies_to(plugin: ScorePlugin) -> bool:
        """Return True if the plugin's scores should not be cached."""
        if plugin.has_score_key:
            return False
        is_not_normalized = plugin.normalizer is None and type(plugin).normalize is ScorePlugin.normalize
        reach = invalidation_scopes(plugin, plugin.score_reads)
        return is_not_normalized and reach[USAGE] is Scope.ROWS and reach[ATTEMPT] is Scope.NOWHERE

    def of(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return the weighted score of one node. PluginFailed if the plugin raises or the score is out of range."""
        self.evaluations.n += 1
        plugin, observer = self.plugin, cycle.call_observer
        try:
            if observer is None:
                score = plugin.score(cycle, pod, node)
            else:
                score = observer(plugin.name, "Score", plugin.score, cycle, pod, node)
            if type(score) is not int:
                check_score(plugin.score, score)
                score = int(score)
            if not 0 <= score <= MAX_NODE_SCORE:
                raise out_of_range(plugin, score)
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        return score * self.weight

    def of_all(self, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
        """Return the weighted scores of many nodes. PluginFailed as for one node."""
        plugin = self.plugin
        self.evaluations.n += len(table)
        try:
            scores = scores_of(plugin, cycle, pod, table)
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        check_range(plugin, scores)
        return scores if self.weight == 1 else scores * self.weight


class TopScores:
    """The rows with the best total, in ascending order; the index in the column is the row.

    If pods of one template follow each other, one row changes between two of them, and it is mostly one of many with
    the best total: the others still have it, so the rows with it are listed. If other templates came in between, many
    rows have changed, and the row to pick is searched without a list.
    """

    __slots__ = ("_is_first_pick", "_removed", "_rows", "_top", "_totals", "changes")

    def __init__(self) -> None:
        self._totals = NO_SCORES
        self.changes: list[int] = []
        """The rows with changed totals; another object if others may have changed too."""
        self._is_first_pick = True
        """True until a row is picked after `reset`."""
        self._top = 0
        self._rows: Rows | list[int] | None = None
        """None if they must be searched; a list from the first change on unless there are too many."""
        self._removed: list[int] = []
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


class ScoreColumns:
    """The Score plugins that are evaluated by row, for the pods that they sign alike, and the total per node."""

    def __init__(self, state: ClusterState, plugins: Sequence[Weighted], evaluations: CountersByPlugin) -> None:
        self._state = state
        self._plugins = plugins
        self._evaluations = evaluations
        self._columns: dict[str, ScoreColumn] = {}
        self._names = frozenset(each.plugin.name for each in plugins)
        self._reads_others = any(reads_of(each.plugin) >= Reads.DOMAINS for each in plugins)
        """True if a plugin's PreScore results may be those of the feasible nodes only."""
        self.skipped: frozenset[str] | None = None
        """Names of the plugins that PreScore skipped; None before the first call of `activate`."""
        self._uncached: list[UncachedScore] = []
        self._stable: list[ScoreColumn] = []
        self._volatile: list[ScoreColumn] = []
        self._normalized: list[ScoreColumn] = []
        """Columns with scores that depend on which other nodes are feasible, unless they are uniform."""
        self._summed_names: list[str] = []
        """Names of the plugins with stable or uncached scores."""
        self._columns_by_change: Sequence[Sequence[ScoreColumn]] = NO_COLUMNS_BY_CHANGE
        self.change_with_attempts = False
        """True if some scores are stale at every attempt."""
        self._is_current = False
        """True if no node object has changed since the last refresh and every plugin has its scores."""
        self._is_stable = True
        """True if the stable columns do not change when pods are added or removed either."""
        self._stable_total: Scores | int = 0
        """Sum of the stable columns; a number if each has the same score in all rows."""
        # Allocated at the first refresh: pods with nodes named by PreFilter never need the columns.
        self._row_total = NO_SCORES
        self.total = self._row_total
        """Sum of all plugins; the same array as `_row_total` if no column is volatile."""
        self.top_scores = TopScores()
        """The rows with the best `total`."""
        self._top_scores_current = False
        """True if `top_scores` is up to date with `total`."""

    def copy(self) -> ScoreColumns:
        """Return columns with the same scores, which change independently; the totals have to be computed."""
        twin = ScoreColumns(self._state, self._plugins, self._evaluations)
        twin.skipped, twin._uncached, twin._is_current = self.skipped, self._uncached, self._is_current
        twin._row_total = np.full(len(self._row_total), INFEASIBLE)
        twin._stable_total = self._stable_total if isinstance(self._stable_total, int) else self._stable_total.copy()
        twin._set_columns([column.copy() for column in (*self._stable, *self._volatile)])
        twin._columns = {column.plugin.name: column for column in (*twin._stable, *twin._volatile)}
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the columns in bytes."""
        stable = 0 if isinstance(self._stable_total, int) else self._stable_total.nbytes
        volatile = self.total.nbytes if self._volatile else 0
        columns = sum(column.bytes for column in self._columns.values())
        return self._row_total.nbytes + stable + volatile + columns

    @property
    def depend_on_feasibility(self) -> bool:
        """True if a node's score depends on which other nodes are feasible, or may not be computed if it is not."""
        return self._reads_others or bool([each for each in self._normalized if not each.is_uniform])

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave out the plugins that PreScore skipped. Return True if others are left out than before."""
        last, self.skipped = self.skipped, skipped
        if last is not None and skipped & self._names == last & self._names:
            return False
        self._is_current = False
        before = self._stable + self._volatile
        active = [w for w in self._plugins if w.plugin.name not in skipped]
        uncached = [w for w in active if UncachedScore.applies_to(w.plugin)]
        self._uncached = [UncachedScore(w, self._evaluations[w.plugin.name]) for w in uncached]
        columns = [self._column(w) for w in active if w not in uncached]
        for column in columns:
            column.all_stale |= column not in before  # columns of skipped plugins are not invalidated
        self._set_columns(columns)
        if not self._stable:
            self._stable_total = 0
        return True

    def _set_columns(self, columns: list[ScoreColumn]) -> None:
        self._stable = [column for column in columns if not column.is_volatile]
        self._volatile = [column for column in columns if column.is_volatile]
        self._normalized = [column for column in columns if column.depends_on_others]
        self._summed_names = [each.plugin.name for each in self._stable]
        self._summed_names += [each.plugin.name for each in self._uncached]
        self._columns_by_change = columns_by_change(columns)
        self.change_with_attempts = bool(self._columns_by_change[ATTEMPT])
        self._is_stable = not any(column in self._columns_by_change[USAGE] for column in self._stable)
        self._make_total()

    def resize(self, n: int) -> None:
        """Adapt the columns to the number of nodes."""
        self._row_total[n:] = INFEASIBLE
        if n > len(self._row_total):
            room = max(n, 2 * len(self._row_total))
            self._row_total = grown(self._row_total, room, INFEASIBLE)
            if not isinstance(self._stable_total, int):
                self._stable_total = grown(self._stable_total, room)
            for column in self._columns.values():
                column.resize(room)
            self._make_total()
        self._top_scores_current = False

    def invalidate(self, change: Change, rows: DirtyRows) -> None:
        """Invalidate the raw scores that the change makes stale."""
        self._is_current &= change is not NODE
        for column in self._columns_by_change[change]:
            column.invalidate(change, rows)

    def invalidate_all(self) -> None:
        """Invalidate every raw score."""
        self._is_current = False
        for column in self._columns.values():
            column.all_stale = True

    def invalidate_plugins(self, plugins: frozenset[str]) -> bool:
        """Invalidate all raw scores of some plugins. Return True if a stable or uncached score is affected."""
        for name in self._columns.keys() & plugins:
            self._columns[name].all_stale, self._is_current = True, False
        return not plugins.isdisjoint(self._summed_names)

    def refresh_rows(self, cycle: Cycle, pod: Pod, rows: DirtyRows, fitting: Rows | slice) -> bool:
        """Update rows that were and are feasible, where only pods on them changed.

        Return False if that is impossible, because stable columns are stale. `fitting` holds all feasible rows.
        """
        if not self._top_scores_current or not self._is_stable or not self._is_current:
            return False
        if isinstance(rows, list):
            for row in rows:
                self._sum_row(cycle, pod, row, fits=True)
        else:
            self._sum_rows(cycle, pod, rows, rows)
        for column in self._volatile:
            column.invalidate(USAGE, rows)
        self._add_volatile(cycle, pod, fitting, feasible_changed=False)
        return True

    def remove_rows(self, cycle: Cycle, pod: Pod, rows: list[int]) -> bool:
        """Drop the totals of rows that have become infeasible. Return False, dropping none, if others may change."""
        if self._volatile or not self._top_scores_current or not self._is_current:
            return False
        if not all(column.is_same_without_rows(cycle) for column in self._stable):
            return False
        for row in rows:
            self._sum_row(cycle, pod, row, fits=False)
        return True

    def refresh(
        self,
        cycle: Cycle,
        pod: Pod,
        due: DirtyRows | slice,
        feasible: Mask,
        fitting: Rows | slice,
        feasible_changed: bool,
    ) -> None:
        """Update the totals of the `due` rows, and of all rows if columns are volatile.

        `feasible` is the mask of feasible rows, `fitting` their numbers, `feasible_changed` is True if they changed.
        """
        if isinstance(due, list):
            rows = [row for row in due if feasible[row]]
            self._refresh_stable(cycle, pod, due, rows, fitting, feasible_changed)
            for row in due:
                self._sum_row(cycle, pod, row, bool(feasible[row]))
        else:
            many = fitting if isinstance(due, slice) else select_rows(due, feasible[due])
            self._refresh_stable(cycle, pod, due, many, fitting, feasible_changed)
            self._sum_rows(cycle, pod, due, many)
        self._add_volatile(cycle, pod, fitting, feasible_changed)
        self._is_current = True

    def _refresh_stable(
        self,
        cycle: Cycle,
        pod: Pod,
        due: DirtyRows | slice,
        feasible_rows: DirtyRows | slice,
        fitting: Rows | slice,
        feasible_changed: bool,
    ) -> None:
        """Update the stable columns in the feasible due rows, and their sum; stale columns in all rows."""
        all_rows = isinstance(due, slice)
        for column in self._stable:
            all_rows |= column.refresh(cycle, pod, self._state, feasible_rows, fitting, feasible_changed)
        self._sum_stable(all_rows, due)

    def _sum_stable(self, all_rows: bool, due: DirtyRows | slice) -> None:
        """Sum the stable columns over the due rows, or over all."""
        if not self._stable:
            return
        uniform, by_row = 0, []
        for column in self._stable:
            if column.is_uniform:
                uniform += column.uniform_weighted
            else:
                by_row.append(column.weighted)
        total = self._stable_total
        if all_rows or (isinstance(total, int) and (by_row or total != uniform)):
            self._sum_stable_everywhere(uniform, by_row, isinstance(due, slice))
        elif isinstance(total, int):
            return
        elif isinstance(due, list):
            for row in due:
                total[row] = uniform + sum(weighted.item(row) for weighted in by_row)
        else:
            total[due] = uniform + sum(weighted[due] for weighted in by_row)

    def _sum_stable_everywhere(self, uniform: int, by_row: Sequence[Scores], all_due: bool) -> None:
        """Sum the stable columns in all rows; correct the totals of all rows unless these are due themselves."""
        sums: Scores | int = uniform
        for weighted in by_row:
            sums = sums + weighted
        if not all_due:
            # Uncached scores are not stored, but they did not change where nothing is due.
            self._row_total += sums - self._stable_total
            # Infeasible rows were not weighted again.
            self._row_total[self._row_total < 0] = INFEASIBLE
        self._stable_total = sums
        self._top_scores_current = False

    def _sum_row(self, cycle: Cycle, pod: Pod, row: int, fits: bool) -> None:
        now = INFEASIBLE
        if fits:
            stable, node = self._stable_total, self._state.rows[row]
            now = stable if isinstance(stable, int) else stable.item(row)
            for uncached in self._uncached:
                now += uncached.of(cycle, pod, node)
        before = self._row_total.item(row)
        self._row_total[row] = now
        if self._top_scores_current and not self._volatile:
            self.top_scores.update(row, before, now)

    def _sum_rows(self, cycle: Cycle, pod: Pod, due: Rows | slice, feasible_rows: Rows | slice) -> None:
        """Add the uncached scores to the stable sum for many rows, some of which are feasible."""
        if feasible_rows is not due:
            self._row_total[due] = INFEASIBLE
        self._top_scores_current = False
        if not isinstance(feasible_rows, slice) and are_few(feasible_rows):
            for row in feasible_rows.tolist():
                self._sum_row(cycle, pod, row, fits=True)
            return
        stable = self._stable_total
        sums = stable if isinstance(stable, int) else stable[feasible_rows]
        if self._uncached:
            table = self._state.table(None if isinstance(feasible_rows, slice) else feasible_rows)
            for uncached in self._uncached:
                sums = sums + uncached.of_all(cycle, pod, table)
        self._row_total[feasible_rows] = sums

    def _add_volatile(self, cycle: Cycle, pod: Pod, fitting: Rows | slice, feasible_changed: bool) -> None:
        """Score the feasible rows with the volatile columns and add these to the other sums."""
        if self._volatile:
            np.copyto(self.total, self._row_total)
            for column in self._volatile:
                column.refresh(cycle, pod, self._state, fitting, fitting, feasible_changed)
                self.total[fitting] += column.weighted[fitting]
            self._reset_top_scores()
        elif not self._top_scores_current:
            self._reset_top_scores()

    def _reset_top_scores(self) -> None:
        self.top_scores.reset(self.total[: len(self._state)])
        self._top_scores_current = True

    def _column(self, weighted: Weighted) -> ScoreColumn:
        name = weighted.plugin.name
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = ScoreColumn(weighted, len(self._row_total), self._evaluations[name])
        return column

    def _make_total(self) -> None:
        self.total = np.empty_like(self._row_total) if self._volatile else self._row_total
        self._top_scores_current = False
