"""Scores of one plugin for one pod signature: raw, and normalised and weighted."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Normalizer, Scores
from pyscheduler.api.plugin import Reads, ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import InvalidReturnValue, check_score
from pyscheduler.core.framework.evaluation_counts import EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.framework.result_checks import check_scores
from pyscheduler.core.result_cache.filter_columns import are_few, select_rows
from pyscheduler.core.result_cache.invalidation import NODE, CachedColumn, DirtyRows, Scope
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import assign, grown
from pyscheduler.kernels import Rows, extremes, put

NORMALIZE = "ScoreExtensionNormalize"
"""NormalizeScore as named in kube-scheduler's metrics."""
NO_SCORES: Scores = np.zeros(0, np.int64)


class ScoreColumn(CachedColumn):
    """Raw scores, a mask of those that are valid, and the weighted scores."""

    __slots__ = (
        "_cache_key",
        "_fresh",
        "_has_cache_key",
        "_may_be_uniform",
        "_only_fresh_rows",
        "_overrides_normalize",
        "_raw",
        "_size",
        "_uniform",
        "_weighted",
        "evaluations",
        "is_fresh",
        "normalizer",
        "plugin",
        "span",
        "uniform_weighted",
        "weight",
    )

    def __init__(self, weighted: Weighted, n: int, evaluations: EvaluationCounter) -> None:
        super().__init__(weighted.plugin, weighted.plugin.score_reads)
        self.evaluations = evaluations
        self.plugin: ScorePlugin = weighted.plugin
        self.weight = weighted.weight
        self._overrides_normalize = type(self.plugin).normalize is not ScorePlugin.normalize
        self.normalizer: Normalizer | None = None if self._overrides_normalize else self.plugin.normalizer
        reads_all_nodes = (self.plugin.score_reads or self.plugin.reads) is Reads.ALL_NODES
        is_overridden = type(self.plugin).score_cache_key is not ScorePlugin.score_cache_key
        self._has_cache_key = is_overridden and (reads_all_nodes or self.plugin.has_score_key)
        self._cache_key: Hashable | None = None
        """Cache key of the raw scores of a plugin that reads all nodes."""
        if self._has_cache_key:
            self.reach = (Scope.ROWS, *self.reach[NODE + 1 :])
        self._size = n
        self._may_be_uniform = not self.is_volatile and not self._overrides_normalize
        self._uniform: int | None = None
        """Raw score of every valid row; None if they differ. Then `_raw` and `_weighted` are not in use."""
        self.uniform_weighted = 0
        """Weighted score of every valid row if `is_uniform`."""
        self._raw: Scores = NO_SCORES
        self._weighted: Scores = NO_SCORES
        self._fresh: NDArray[np.bool_] | None = None
        self._only_fresh_rows: Rows | slice | None = None
        """The only valid rows, not yet written to `_fresh`; most columns never need the mask."""
        self.is_fresh = False
        """True if every feasible row of the last full refresh is valid and none was invalidated since."""
        self.span: Any = None

    def copy(self) -> Self:
        twin = super().copy()
        if self._uniform is None:
            twin._raw, twin._weighted = self._raw.copy(), self._weighted.copy()
        if self._fresh is not None:
            twin._fresh = self._fresh.copy()
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the column in bytes."""
        fresh = 0 if self._fresh is None else self._fresh.nbytes
        return self._raw.nbytes + fresh + self._weighted.nbytes

    @property
    def is_uniform(self) -> bool:
        """True if every valid row has the same score, so that none is stored by row."""
        return self._uniform is not None

    @property
    def raw(self) -> Scores:
        """Raw scores by row."""
        if self._uniform is not None or len(self._raw) < self._size:
            self._store_by_row()
        return self._raw

    @property
    def weighted(self) -> Scores:
        """Weighted scores by row."""
        if self._uniform is not None or len(self._raw) < self._size:
            self._store_by_row()
        return self._weighted

    def _store_by_row(self) -> None:
        uniform, self._uniform = self._uniform, None
        if uniform is not None or not len(self._raw):
            self._raw = np.full(self._size, uniform or 0, np.int64)
            self._weighted = np.full(self._size, self.uniform_weighted, np.int64)
        else:
            self._raw, self._weighted = grown(self._raw, self._size), grown(self._weighted, self._size)

    def resize(self, size: int) -> None:
        """Extend the column to `size` rows; new rows are not valid."""
        if size > self._size:
            self._size = size
            self._fresh = None if self._fresh is None else grown(self._fresh, size)
            self.is_fresh = False

    def invalidate_rows(self, rows: DirtyRows) -> None:
        assign(self.fresh(), rows, False)
        self.is_fresh = False

    @property
    def depends_on_others(self) -> bool:
        """True if a node's final score depends on which other nodes are feasible."""
        return self._overrides_normalize or self.normalizer is not None

    def fresh(self) -> NDArray[np.bool_]:
        """Return the mask of rows with a valid raw score, for writing."""
        fresh = self._fresh
        if fresh is None:
            fresh = self._fresh = np.zeros(self._size, np.bool_)
        if self.all_stale:
            fresh.fill(False)
            self.all_stale = self.is_fresh = False
        elif self._only_fresh_rows is not None:
            fresh.fill(False)
            fresh[self._only_fresh_rows] = True
        self._only_fresh_rows = None
        return fresh

    def score_rows(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice) -> None:
        """Compute the raw scores of some rows; of few by per-node calls."""
        if not isinstance(rows, slice) and are_few(rows):
            self._score_few(cycle, pod, state, rows.tolist())
        else:
            table = state.table(None if isinstance(rows, slice) else rows)
            self.evaluations.n += len(table)
            try:
                self._write_raw(rows, scores_of(self.plugin, cycle, pod, table))
            except BaseException as error:
                raise_plugin_failed(self.plugin.name, "Score", error)
        if self.all_stale:
            self._only_fresh_rows, self.all_stale, self.is_fresh = rows, False, False
        else:
            self.fresh()[rows] = True

    def _write_raw(self, rows: Rows | slice, scores: Scores) -> None:
        """Store raw scores; as one number if all valid rows have it."""
        if self.all_stale:
            self._uniform = None
            if self._may_be_uniform and len(scores) and _are_equal(scores):
                self._uniform, self._raw, self._weighted = int(scores[0]), NO_SCORES, NO_SCORES
        if self._uniform is None or np.count_nonzero(scores != self._uniform):
            _write(self.raw, rows, scores)

    def _score_few(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: list[int]) -> bool:
        """Compute the raw scores of a few rows. Return True if one has changed."""
        plugin, changed = self.plugin, False
        self.evaluations.n += len(rows)
        try:
            for row in rows:
                score = score_of(plugin, cycle, pod, state.rows[row])
                if score != self._uniform:
                    raw = self.raw
                    before, raw[row] = raw.item(row), score
                    changed |= raw.item(row) != before
        except BaseException as error:
            raise_plugin_failed(plugin.name, "Score", error)
        return changed

    def refresh(
        self,
        cycle: Cycle,
        pod: Pod,
        state: ClusterState,
        rows: DirtyRows | slice,
        fitting: Rows | slice,
        feasible_changed: bool,
    ) -> bool:
        """Update some feasible rows, or all if all are stale. Return True if all were weighted again."""
        if self._has_cache_key:
            same = call_guarded(self.plugin.name, "Score", self._is_cache_key_unchanged, cycle)
            self.all_stale = self.all_stale or not same
        if self.all_stale:
            self.score_rows(cycle, pod, state, fitting)
            self.is_fresh = True
            if not self.depends_on_others or not self.renormalize(cycle, pod, fitting):
                self.weigh(fitting)
            return True
        if self.is_fresh and not feasible_changed:
            return False
        self.is_fresh = rows is fitting
        stale = self._rescore(cycle, pod, state, rows)
        if stale is None and not feasible_changed:
            return False
        if self.depends_on_others and self.renormalize(cycle, pod, fitting):
            return True
        weighed = rows if feasible_changed or stale is None else stale
        self.weigh(np.array(weighed, np.intp) if isinstance(weighed, list) else weighed)
        return False

    def is_same_without_rows(self, cycle: Cycle) -> bool:
        """Return True if the weighted scores of the other rows do not change when feasible rows become infeasible."""
        if self._has_cache_key:
            same = call_guarded(self.plugin.name, "Score", self._is_cache_key_unchanged, cycle)
            self.all_stale = self.all_stale or not same
        if self.all_stale or self._overrides_normalize:
            return False
        return self.normalizer is None or self._uniform is not None

    def _rescore(
        self, cycle: Cycle, pod: Pod, state: ClusterState, rows: DirtyRows | slice
    ) -> DirtyRows | slice | None:
        """Compute the raw scores of stale rows. Return these; None if no weighted score can have changed."""
        fresh = self.fresh()
        if isinstance(rows, list):
            few = [row for row in rows if not fresh[row]]
            changed = self._score_few(cycle, pod, state, few)
            assign(fresh, few, True)
            return few if changed or (few and self._overrides_normalize) else None
        stale = select_rows(rows, ~fresh[rows])
        if not isinstance(stale, slice) and not len(stale):
            return None
        self.score_rows(cycle, pod, state, stale)
        return stale

    def _is_cache_key_unchanged(self, cycle: Cycle) -> bool:
        before, self._cache_key = self._cache_key, self.plugin.score_cache_key(cycle)
        return self._cache_key is not None and bool(self._cache_key == before)

    def renormalize(self, cycle: Cycle, pod: Pod, feasible: Rows | slice) -> bool:
        """Normalise and weight all feasible rows if the normalisation changed. Return True if it did."""
        try:
            if self._overrides_normalize:
                self._write_weighted(feasible, self._normalized(cycle, pod, self._raw_of(feasible).copy()))
            elif self.normalizer is None:
                self.weigh(feasible)
            elif cycle.call_observer is None:
                return self._renormalize_span(self.normalizer, feasible)
            else:
                return cycle.call_observer(
                    self.plugin.name, NORMALIZE, self._renormalize_span, self.normalizer, feasible
                )
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "NormalizeScore", error)
        return True

    def weigh(self, rows: Rows | slice) -> None:
        """Weight some rows that `renormalize` has included, with the current span."""
        if self._uniform is not None:
            self._weigh_uniform(self._uniform)
        else:
            raw = self._raw_of(rows)
            if len(raw):
                final = raw
                if self.normalizer is not None:
                    try:
                        final = self._rescale(self.normalizer, raw)
                    except BaseException as error:
                        raise_plugin_failed(self.plugin.name, "NormalizeScore", error)
                self._write_weighted(rows, final)

    def _weigh_uniform(self, raw: int) -> None:
        final = np.array([raw])
        try:
            if self.normalizer is not None:
                final = self._rescale(self.normalizer, final)
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "NormalizeScore", error)
        check_range(self.plugin, final)
        self.uniform_weighted = int(final[0]) * self.weight

    def _normalized(self, cycle: Cycle, pod: Pod, raw: Scores) -> Scores:
        if cycle.call_observer is None:
            final = self.plugin.normalize(cycle, pod, raw)
        else:
            final = cycle.call_observer(self.plugin.name, NORMALIZE, self.plugin.normalize, cycle, pod, raw)
        check_scores(self.plugin.normalize, final, len(raw))
        return final

    def _renormalize_span(self, normalizer: Normalizer, feasible: Rows | slice) -> bool:
        """Normalise with a `Normalizer` if its span changed. Return True if it did."""
        span = normalizer.span_between(*self._extremes(feasible))
        if span is None:
            span = normalizer.span(self._raw_of(feasible))
        changed, self.span = bool(span != self.span), span
        if changed:
            self.weigh(feasible)
        return changed

    def _rescale(self, normalizer: Normalizer, raw: Scores) -> Scores:
        final = normalizer.rescale(raw, self.span)
        check_scores(normalizer.rescale, final, len(raw))
        return final

    def _extremes(self, rows: Rows | slice) -> tuple[int, int]:
        """Return the least and the greatest raw score of the rows."""
        if self._uniform is not None:
            return self._uniform, self._uniform
        return extremes(self.raw[rows], None) if isinstance(rows, slice) else extremes(self.raw, rows)

    def _raw_of(self, rows: Rows | slice) -> Scores:
        """Return the raw scores of some rows as a read-only array."""
        if self._uniform is not None:
            return np.broadcast_to(np.int64(self._uniform), rows.stop if isinstance(rows, slice) else len(rows))
        raw = self.raw[rows] if isinstance(rows, slice) else self.raw.take(rows)
        raw.flags.writeable = False
        return raw

    def _write_weighted(self, rows: Rows | slice, final: Scores) -> None:
        check_range(self.plugin, final)
        _write(self.weighted, rows, final * self.weight)


def _write(column: Scores, rows: Rows | slice, scores: Scores) -> None:
    """Write integer scores of any width to some rows."""
    if isinstance(rows, slice):
        column[rows] = scores
        return
    cells = np.empty(len(rows), np.int64)
    cells[:] = scores
    put(column, rows, cells)


def _are_equal(scores: Scores) -> bool:
    return not np.count_nonzero(scores != scores[0])


def score_of(plugin: ScorePlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
    """Return the plugin's raw score of one node. InvalidReturnValue if it is not an integer.

    Exceptions from the plugin pass through.
    """
    if cycle.call_observer is None:
        score = plugin.score(cycle, pod, node)
    else:
        score = cycle.call_observer(plugin.name, "Score", plugin.score, cycle, pod, node)
    if type(score) is not int:
        check_score(plugin.score, score)
    return score


def scores_of(plugin: ScorePlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
    """Return the plugin's raw scores of many nodes. InvalidReturnValue unless they are integers, one per node."""
    if cycle.call_observer is None:
        scores = plugin.score_all(cycle, pod, table)
    else:
        scores = cycle.call_observer(plugin.name, "Score", plugin.score_all, cycle, pod, table)
    check_scores(plugin.score_all, scores, len(table))
    return scores


def check_range(plugin: ScorePlugin, final: Scores) -> None:
    """Raise PluginFailed if a final score is not within 0..100."""
    if not len(final):
        return
    least, most = extremes(final, None)
    if least < 0 or most > MAX_NODE_SCORE:
        raise_plugin_failed(
            plugin.name, "NormalizeScore", out_of_range(plugin, most if most > MAX_NODE_SCORE else least)
        )


def out_of_range(plugin: ScorePlugin, score: int) -> InvalidReturnValue:
    """Return the error for a final score outside of 0..100, naming the method that returned it."""
    normalizes = plugin.normalizer is not None or type(plugin).normalize is not ScorePlugin.normalize
    method = plugin.normalize if normalizes else plugin.score
    hint = "" if normalizes else "; set `normalizer`, or scale it"
    return InvalidReturnValue(method, score, f"0 to {MAX_NODE_SCORE}{hint}", shown=str(score))
