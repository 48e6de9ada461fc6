"""Scores by row of the plugins that are not evaluated by class, summed per node and kept between attempts.

There are two kinds of Score plugins. Most have a column, and the sum of these (`_column_total`) hardly ever changes.
Uncached ones get a new score for a node whenever a pod is added to it or removed from it; they run again and are added
row by row (`total`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import Reads
from pyscheduler.api.return_values import check_score
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin, EvaluationCounter
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Profile, Weighted, reads_of
from pyscheduler.core.framework.score_plugins import (
    NO_SCORES,
    are_few,
    check_range,
    overrides_normalize,
    raise_out_of_range,
    run_score_on_table,
)
from pyscheduler.core.result_cache.invalidation import NODE, USAGE, Change, DirtyRows, Scope, invalidation_scopes
from pyscheduler.core.result_cache.row_filters import select_rows
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import assign, copy_if_shared, grown, share
from pyscheduler.kernels import BLOCK, Rows, Totals, add_scores, pick_top, put, refresh_tops

INFEASIBLE = -(1 << 61)
"""Total of an infeasible node; below 0 whatever is added."""
INFEASIBLE_INT16 = -(1 << 15)
"""Total of an infeasible node where totals are int16."""
_NO_SMALL_TOTALS: Totals = np.zeros(0, np.int16)
_NO_ROWS: Mask = np.zeros(0, np.bool_)
_MAX_CHANGES = 64
"""Length at which the list of changes is dropped."""


class UncachedScore(NamedTuple):
    """A plugin that is not normalised and reads the node and its pods only: computed at each use, never cached.

    Reading a cache would cost more: with hundreds of signatures its entries are no longer in the CPU caches when used.
    """

    plugin: ScorePlugin
    weight: int
    evaluations: EvaluationCounter

    @staticmethod
    def applies_to(plugin: ScorePlugin) -> bool:
        """Return True if the plugin's scores should not be cached."""
        if plugin.has_score_key or plugin.normalizer is not None or overrides_normalize(plugin):
            return False
        return invalidation_scopes(plugin, plugin.score_reads)[USAGE] is Scope.ROWS

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
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        if not 0 <= score <= MAX_NODE_SCORE:
            raise_out_of_range(plugin, score)
        return score * self.weight

    def add_all(self, totals: Totals, cycle: Cycle, pod: Pod, table: NodeTable) -> None:
        """Add the weighted scores of many nodes to their totals. PluginFailed as for one node."""
        self.evaluations.n += len(table)
        scores = run_score_on_table(self.plugin, cycle, pod, table)
        if not add_scores(totals, scores, self.weight, MAX_NODE_SCORE):
            check_range(self.plugin, scores)


class TopScores(Struct, eq=False):
    """The rows with the best total, found by the best total of each block of rows; the index in the column is the row.

    If a row changes, only its block is searched again, so picking a row takes as long however many have the best total.
    """

    changes: list[int] = []
    """The rows with changed totals; another object if others may have changed too."""
    _totals: Totals = NO_SCORES
    _tops: Ints = NO_SCORES
    """The best total of each block, then the number of its rows with it."""
    _read: int | None = None
    """Number of changes that `_tops` includes; None if all blocks are to be searched."""

    def reset(self, totals: Totals) -> None:
        """Start to follow a column; report its changes through `update` from now on."""
        self.changes, self._totals, self._read = [], totals, None

    def update(self, row: int) -> None:
        """Include the changed total of a row."""
        if len(self.changes) >= _MAX_CHANGES:
            self._refresh()
            self.changes, self._read = [], 0
        self.changes.append(row)

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        self._refresh()
        return pick_top(self._totals, self._tops, random_bits)

    def _refresh(self) -> None:
        if self._read is None:
            self._tops = np.empty(2 * -(-len(self._totals) // BLOCK), np.int64)
            refresh_tops(self._totals, self._tops, None)
        elif self._read < len(self.changes):
            refresh_tops(self._totals, self._tops, self.changes[self._read :])
        self._read = len(self.changes)


class RowScores(Struct, eq=False):
    """Scores and totals by row, for the pods that the plugins sign alike."""

    _state: ClusterState
    _plugins: Sequence[Weighted]
    _evaluations: CountersByPlugin
    _infeasible: int
    """Total of an infeasible node."""
    _reads_others: bool
    """True if a plugin's PreScore results may be those of the feasible nodes only."""
    skipped: frozenset[str] | None = None
    """Names of the plugins that PreScore skipped; None before the first attempt."""
    _columns: dict[str, ScoreColumn] = {}
    """Columns of the other plugins by name."""
    _is_keyed_by_node: bool = False
    """True if a column has a cache key and its plugin reads its own node only: this key may change at any time."""
    _objects_version: int = -1
    """Version of the watched objects when all keys were compared."""
    _normalized: Sequence[ScoreColumn] = ()
    """Columns with scores that depend on which other nodes are feasible, unless they are uniform."""
    _uncached: Sequence[UncachedScore] = ()
    reads_usage: bool = False
    """True if a column changes with the pods on nodes, so `invalidate_usage` has an effect, or in each attempt."""
    _scored: Mask = _NO_ROWS
    """Rows with valid scores in all columns that are not stale."""
    _is_current: bool = False
    """True if nothing that is read of a node has changed since the last refresh and every plugin has its scores."""
    _column_total: Scores | int | None = None
    """Sum of the columns; a number if each has the same score in all rows, None if other columns are active."""
    # Allocated at the first refresh: pods with nodes named by PreFilter never need the columns.
    total: Totals = NO_SCORES
    """Sum of all plugins."""
    top_scores: TopScores = field(default_factory=TopScores)
    """The rows with the best `total`."""

    @staticmethod
    def of(profile: Profile, state: ClusterState) -> RowScores:
        """Return an instance without scores."""
        plugins = profile.row_scores
        reads_others = any(reads_of(each.plugin) >= Reads.DOMAINS for each in plugins)
        # The scores of classes are added to a total, which must stay below 0 where it is that of an infeasible node.
        are_small = MAX_NODE_SCORE * sum(each.weight for each in profile.score) < -INFEASIBLE_INT16
        infeasible, totals = (INFEASIBLE_INT16, _NO_SMALL_TOTALS) if are_small else (INFEASIBLE, NO_SCORES)
        return RowScores(state, plugins, profile.evaluations.score, infeasible, reads_others, total=totals)

    def copy(self) -> RowScores:
        """Return the same scores, which change independently; the totals have to be computed."""
        twin = copy(self)
        twin._scored, twin.top_scores = share(self._scored), TopScores()
        if isinstance(self._column_total, np.ndarray):
            twin._column_total = share(self._column_total)
        twin._set_columns([column.copy() for column in self._columns.values()])
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the columns in bytes."""
        summed = self._column_total.nbytes if isinstance(self._column_total, np.ndarray) else 0
        return self.total.nbytes + self._scored.nbytes + summed + sum(each.bytes for each in self._columns.values())

    @property
    def depend_on_feasibility(self) -> bool:
        """True if a node's score depends on which other nodes are feasible, or may not be computed if it is not."""
        return self._reads_others or bool([each for each in self._normalized if not each.is_uniform])

    # -- what is stale -----------------------------------------------------------------------------------------------

    def activate(self, skipped: frozenset[str]) -> bool:
        """Leave out the plugins that PreScore skipped. Return True if others are left out than before."""
        before, self.skipped = self.skipped, skipped
        if skipped == before:
            return False
        if before is not None and (skipped ^ before).isdisjoint({each.plugin.name for each in self._plugins}):
            return False
        self._is_current = False
        active = [each for each in self._plugins if each.plugin.name not in skipped]
        self._uncached = [self._uncached_of(each) for each in active if UncachedScore.applies_to(each.plugin)]
        # Columns of skipped plugins are dropped: they are not invalidated.
        self._set_columns([self._column(each) for each in active if not UncachedScore.applies_to(each.plugin)])
        self._column_total = None
        return True

    def _uncached_of(self, weighted: Weighted) -> UncachedScore:
        return UncachedScore(weighted.plugin, weighted.weight, self._evaluations[weighted.plugin.name])

    def _column(self, weighted: Weighted) -> ScoreColumn:
        name = weighted.plugin.name
        return self._columns.get(name) or ScoreColumn.of(weighted, self._evaluations[name])

    def _set_columns(self, columns: Sequence[ScoreColumn]) -> None:
        self._columns = {column.plugin.name: column for column in columns}
        self._is_keyed_by_node = any(column.has_key and column.plugin.has_score_key for column in columns)
        self._normalized = [column for column in columns if column.depends_on_others]
        self.reads_usage = any(each.is_normalized_whole or each.scopes[USAGE] is not Scope.NOWHERE for each in columns)

    def resize(self, n: int) -> None:
        """Adapt to the number of nodes."""
        before = len(self.total)
        self.total = grown(self.total, n, self._infeasible) if n > before else self.total[:n]
        self._scored = grown(self._scored, n) if n > before else self._scored[:n]
        if isinstance(self._column_total, np.ndarray):
            self._column_total = grown(self._column_total, n) if n > before else self._column_total[:n]
        for column in self._columns.values():
            column.resize(n)
        self.top_scores.reset(self.total)

    def invalidate_nodes(self, rows: DirtyRows, readers: frozenset[str]) -> bool:
        """Invalidate the raw scores that are stale because nodes have changed, of the plugins that read the change.

        Return True if the totals of these rows may differ.
        """
        columns = [column for name, column in self._columns.items() if name in readers]
        if not columns and not any(each.plugin.name in readers for each in self._uncached):
            return False
        self._is_current = False
        self._invalidate(NODE, rows, columns)
        return True

    def invalidate_usage(self, rows: DirtyRows) -> None:
        """Invalidate the raw scores that are stale because pods were added or removed in some rows."""
        self._invalidate(USAGE, rows, self._columns.values())

    def _invalidate(self, change: Change, rows: DirtyRows, columns: Iterable[ScoreColumn]) -> None:
        is_dirty = False
        for column in columns:
            scope = column.scopes[change]
            column.all_stale |= scope is Scope.EVERYWHERE
            is_dirty |= scope is Scope.ROWS
        if is_dirty:
            self._scored = copy_if_shared(self._scored)
            assign(self._scored, rows, False)

    def invalidate_all(self) -> None:
        """Invalidate every raw score."""
        self.invalidate_plugins(frozenset(self._columns))

    def invalidate_plugins(self, plugins: frozenset[str]) -> bool:
        """Invalidate all raw scores of some plugins. Return True if the sum of a row is affected."""
        for name in self._columns.keys() & plugins:
            self._columns[name].all_stale, self._is_current = True, False
        return not plugins.isdisjoint([*self._columns, *[each.plugin.name for each in self._uncached]])

    # -- refresh -----------------------------------------------------------------------------------------------------

    def update_rows(self, cycle: Cycle, pod: Pod, rows: DirtyRows, feasible: Mask, feasible_changed: bool) -> bool:
        """Update the totals of some rows if no others change, as after pods that were placed or that fill their nodes.

        Return False, updating none, if others may change. `feasible` and `feasible_changed` as in `refresh`.
        """
        if not self._is_current or self.reads_usage:
            return False
        if feasible_changed:
            if not isinstance(rows, list) or any(feasible[row] for row in rows):
                return False
            if not all(column.is_same_without_rows(cycle) for column in self._columns.values()):
                return False
        elif self._is_keyed_by_node or self._objects_version != self._state.objects_version:
            if any(column.check_key(cycle) for column in self._columns.values()):
                return False
            self._objects_version = self._state.objects_version
        if isinstance(rows, list):
            for row in rows:
                self._sum_row(cycle, pod, row, bool(feasible[row]))
        else:
            inside = select_rows(rows, feasible[rows])
            self._sum_rows(cycle, pod, inside, inside)
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
        """Update the totals of the `due` rows, and of all rows that depend on them.

        `feasible` is the mask of feasible rows, `fitting` their numbers, `feasible_changed` is True if they changed.
        """
        rows: DirtyRows | slice
        if isinstance(due, slice):
            rows = fitting
        else:
            rows = [row for row in due if feasible[row]] if isinstance(due, list) else due[feasible[due]]
        all_changed = self._refresh_columns(cycle, pod, rows, fitting, feasible_changed)
        self._sum_columns(rows, fitting, all_changed)
        if isinstance(due, list):
            for row in due:
                self._sum_row(cycle, pod, row, bool(feasible[row]))
        elif not isinstance(rows, list):
            self._sum_rows(cycle, pod, due, rows)
        self._is_current = True

    def _refresh_columns(
        self, cycle: Cycle, pod: Pod, rows: DirtyRows | slice, fitting: Rows | slice, feasible_changed: bool
    ) -> bool:
        """Score some feasible rows, and all in stale columns. Return True if the scores of all rows may differ."""
        columns, all_changed = self._columns.values(), False
        stale = [column for column in columns if column.check_key(cycle)]
        self._objects_version = self._state.objects_version
        unscored = _unscored(rows, self._scored) if len(stale) < len(columns) else []
        for column in columns:
            if column in stale:
                column.score_all(cycle, pod, self._state, fitting)
                column.renormalize(cycle, pod, fitting)
                all_changed = True
                continue
            changed = len(unscored) and column.score_rows(cycle, pod, self._state, unscored)
            if changed or feasible_changed or column.is_normalized_whole:
                all_changed |= column.renormalize(cycle, pod, fitting)
        if stale:
            self._scored = np.zeros(len(self._scored), np.bool_)
            self._scored[fitting] = True
        elif len(unscored):
            self._scored = copy_if_shared(self._scored)
            assign(self._scored, unscored, True)
        return all_changed

    def _sum_columns(self, rows: DirtyRows | slice, fitting: Rows | slice, all_changed: bool) -> None:
        """Sum the columns over some feasible rows, or over all."""
        columns, before = self._columns.values(), self._column_total
        if all_changed or before is None or isinstance(before, int) != all(each.is_uniform for each in columns):
            sums = sum((column.final(fitting) for column in columns), 0)
            self._column_total = sums if isinstance(sums, int) else self._by_row(fitting, sums)
            if before is not None and rows is not fitting:
                # Uncached scores are not stored, but they did not change where nothing is due.
                self.total[fitting] += sums - (before if isinstance(before, int) else before[fitting])
                self.top_scores.reset(self.total)
        elif not isinstance(before, int):
            some = np.array(rows, np.intp) if isinstance(rows, list) else rows
            self._column_total = before = copy_if_shared(before)
            before[some] = sum((column.final(some) for column in columns), 0)

    def _by_row(self, rows: Rows | slice, scores: Scores) -> Scores:
        if isinstance(rows, slice):
            return scores
        by_row = np.zeros(len(self._state), np.int64)
        put(by_row, rows, scores)
        return by_row

    def _sum_row(self, cycle: Cycle, pod: Pod, row: int, fits: bool) -> None:
        now = self._infeasible
        if fits:
            summed, node = self._column_total, self._state.rows[row]
            assert summed is not None, "the columns are summed before"
            now = summed if isinstance(summed, int) else summed.item(row)
            for uncached in self._uncached:
                now += uncached.of(cycle, pod, node)
        before = self.total.item(row)
        self.total[row] = now
        if now != before:
            self.top_scores.update(row)

    def _sum_rows(self, cycle: Cycle, pod: Pod, due: Rows | slice, feasible_rows: Rows | slice) -> None:
        """Add the uncached scores to the sum of the columns for many rows, some of which are feasible."""
        summed, total = self._column_total, self.total
        assert summed is not None, "the columns are summed before"
        if isinstance(due, slice):
            base = summed if isinstance(feasible_rows, slice) else self._infeasible
            self.total = total = np.full(due.stop, base, total.dtype)
        elif feasible_rows is not due:
            total[due] = self._infeasible
        self.top_scores.reset(total)
        if isinstance(feasible_rows, slice):
            self._add_uncached(total, cycle, pod, self._state.table())
        elif are_few(feasible_rows):
            for row in feasible_rows.tolist():
                self._sum_row(cycle, pod, row, fits=True)
        else:
            base = summed if isinstance(summed, int) else summed[feasible_rows]
            sums = np.full(len(feasible_rows), base, total.dtype)
            self._add_uncached(sums, cycle, pod, self._state.table(feasible_rows))
            total[feasible_rows] = sums

    def _add_uncached(self, totals: Totals, cycle: Cycle, pod: Pod, table: NodeTable) -> None:
        for uncached in self._uncached:
            uncached.add_all(totals, cycle, pod, table)


def _unscored(rows: DirtyRows | slice, scored: Mask) -> DirtyRows:
    """Return the rows without valid scores."""
    if isinstance(rows, list):
        return [row for row in rows if not scored[row]]
    are_scored = scored[rows]
    if np.count_nonzero(are_scored) == len(are_scored):
        return []
    return np.flatnonzero(~are_scored) if isinstance(rows, slice) else rows[~are_scored]
