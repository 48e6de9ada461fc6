"""One Score plugin's answers for one pod signature: raw, and what they come to once normalised and weighted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, Normalizer, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import InvalidReturnValue, check_score
from pyscheduler.api.topology import NodeEquivalence
from pyscheduler.core.decide.filtering import are_few, select_rows
from pyscheduler.core.decide.invalidation import ATTEMPT, CachedColumn, DirtyRows, Scope
from pyscheduler.core.framework.evaluation_counts import EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.framework.result_checks import check_scores
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows, extremes, look_up, put

NORMALIZE = "ScoreExtensionNormalize"
"""NormalizeScore, as kube-scheduler's metrics call it."""
_WIDEST = 1 << 15
"""Raw scores of at most so many values are normalised once per value, then looked up."""


class ScoreColumn(CachedColumn):
    """The raw answers, which of them are current, and the weighted result."""

    __slots__ = (
        "_fresh",
        "_is_flat",
        "_last_raw",
        "_last_weighted",
        "_least",
        "_normalizes_freely",
        "_only_fresh_rows",
        "_weighted_by_raw",
        "evaluations",
        "is_fresh",
        "normalizer",
        "plugin",
        "raw",
        "span",
        "weight",
        "weighted",
    )

    def __init__(self, weighted: Weighted, n: int, evaluations: EvaluationCounter) -> None:
        super().__init__(weighted.plugin)
        self.evaluations = evaluations
        self.plugin: ScorePlugin = weighted.plugin
        self.weight = weighted.weight
        self._normalizes_freely = type(self.plugin).normalize is not ScorePlugin.normalize
        self.normalizer: Normalizer | None = None if self._normalizes_freely else self.plugin.normalizer
        self.raw: Scores = np.zeros(n, np.int64)
        self._fresh: NDArray[np.bool_] = np.zeros(n, np.bool_)
        self._only_fresh_rows: Rows | slice | None = None
        """The rows that alone are current, until `_fresh` is told of it: where a column moves nobody asks which."""
        self.weighted: Scores = np.zeros(n, np.int64)
        self.is_fresh = False
        """Whether every row that fitted when all were last settled is current, and nothing was dropped since."""
        self.span: Any = None
        self._weighted_by_raw: Scores | None = None
        """What raw scores from `_least` on come to while `span` holds, where they are few enough to be looked up."""
        self._least = 0
        self._is_flat = False
        """Whether the last raw scores of many were all the same."""
        self._last_raw = b""
        """The raw scores of rows that spoke for all last."""
        self._last_weighted = self.weighted
        """What those came to."""

    @property
    def bytes(self) -> int:
        """Memory of the column."""
        return self.raw.nbytes + self._fresh.nbytes + self.weighted.nbytes

    def resize(self, size: int) -> None:
        """Make room for so many rows; what is new is not current."""
        if size > len(self.raw):
            self.raw, self.weighted = grown(self.raw, size), grown(self.weighted, size)
            self._fresh = grown(self._fresh, size)
            self.is_fresh = False

    def invalidate_rows(self, rows: DirtyRows) -> None:
        self.fresh()[rows] = False
        self.is_fresh = False

    @property
    def depends_on_others(self) -> bool:
        """Whether a node's final score depends on which other nodes fit."""
        return self._normalizes_freely or self.normalizer is not None

    def fresh(self) -> NDArray[np.bool_]:
        """Per row whether its raw score is current; to be written to."""
        if self.all_stale:
            self._fresh.fill(False)
            self.all_stale = self.is_fresh = False
        elif self._only_fresh_rows is not None:
            self._fresh.fill(False)
            self._fresh[self._only_fresh_rows] = True
        self._only_fresh_rows = None
        return self._fresh

    def score_rows(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice) -> None:
        """The raw scores of some rows, of few by the plain form."""
        try:
            if not isinstance(rows, slice) and are_few(rows):
                self.evaluations.n += len(rows)
                for row in rows.tolist():
                    self.raw[row] = score_of(self.plugin, cycle, pod, state.rows[row])
            else:
                table = state.table(None if isinstance(rows, slice) else rows)
                self.evaluations.n += len(table)
                _write(self.raw, rows, scores_of(self.plugin, cycle, pod, table))
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "Score", error)
        if self.all_stale:
            self._only_fresh_rows, self.all_stale, self.is_fresh = rows, False, False
        else:
            self.fresh()[rows] = True

    def refresh(
        self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice, fitting: Rows | slice, refit: bool
    ) -> bool:
        """Bring some rows that fit up to date; whether all that fit were weighed anew."""
        if self.is_fresh and not self.all_stale and not refit:
            return False
        stale = rows
        if not self.all_stale:
            stale = select_rows(rows, ~self.fresh()[rows])
        outdated = isinstance(stale, slice) or len(stale) > 0
        if outdated:
            self.score_rows(cycle, pod, state, stale)
        self.is_fresh = rows is fitting
        if not outdated and not refit:
            return False
        if self.depends_on_others and self.renormalize(cycle, pod, fitting):
            return True
        self.weigh(rows if refit else stale)
        return False

    def score_representatives(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows) -> Scores:
        """The weighted scores of rows that speak for all that fit: the same array as long as their raw ones are."""
        self.all_stale = True
        self.score_rows(cycle, pod, state, rows)
        said = self.raw.take(rows).tobytes()
        if said != self._last_raw:
            if not self.depends_on_others or not self.renormalize(cycle, pod, rows):
                self.weigh(rows)
            self._last_raw, self._last_weighted = said, self.weighted.take(rows)
        return self._last_weighted

    def likeness(self, cycle: Cycle) -> NodeEquivalence | None:
        """By what nodes score alike; None if each is to be asked."""
        if self._normalizes_freely or self.reach[ATTEMPT] is not Scope.NOWHERE:
            return None
        return call_guarded(self.plugin.name, "Score", self._likeness, cycle)

    def _likeness(self, cycle: Cycle) -> NodeEquivalence | None:
        likeness = self.plugin.score_equivalence(cycle)
        if likeness is not None and not isinstance(likeness, NodeEquivalence):
            raise InvalidReturnValue(self.plugin.score_equivalence, likeness, "NodeEquivalence or None")
        return likeness

    def renormalize(self, cycle: Cycle, pod: Pod, feasible: Rows | slice) -> bool:
        """Normalise and weigh all feasible rows if what the result depends on has changed; whether it has."""
        try:
            if self._normalizes_freely:
                self._write_weighted(feasible, self._normalized(cycle, pod, self._raw(feasible).copy()))
            elif self.normalizer is None:
                self._write_weighted(feasible, self._raw(feasible))
            elif cycle.call_observer is None:
                return self._rescaled(self.normalizer, feasible)
            else:
                return cycle.call_observer(self.plugin.name, NORMALIZE, self._rescaled, self.normalizer, feasible)
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "NormalizeScore", error)
        return True

    def weigh(self, rows: Rows | slice) -> None:
        """Weigh some rows of those that `renormalize` has seen, with the span that holds."""
        if self._weighted_by_raw is None:
            raw = self._raw(rows)
            if len(raw):
                final = raw
                if self.normalizer is not None:
                    final = call_guarded(self.plugin.name, "NormalizeScore", self._rescale, self.normalizer, raw)
                self._write_weighted(rows, final)
        elif isinstance(rows, slice):
            look_up(self.weighted[rows], self.raw[rows], self._least, self._weighted_by_raw, None)
        else:
            look_up(self.weighted, self.raw, self._least, self._weighted_by_raw, rows)

    def _normalized(self, cycle: Cycle, pod: Pod, raw: Scores) -> Scores:
        if cycle.call_observer is None:
            final = self.plugin.normalize(cycle, pod, raw)
        else:
            final = cycle.call_observer(self.plugin.name, NORMALIZE, self.plugin.normalize, cycle, pod, raw)
        check_scores(self.plugin.normalize, final, len(raw))
        return final

    def _rescaled(self, normalizer: Normalizer, feasible: Rows | slice) -> bool:
        """The same for a normaliser, which says by its span whether anything is new."""
        rows = feasible.stop if isinstance(feasible, slice) else len(feasible)
        least, most = self._extremes(feasible, rows)
        span = normalizer.span_between(least, most)
        if span is None:
            span = normalizer.span(self._raw(feasible))
        renewed = bool(span != self.span)
        if (
            renewed
            or self._weighted_by_raw is None
            or least < self._least
            or most >= self._least + len(self._weighted_by_raw)
        ):
            self.span = span
            self._prepare(normalizer, least, most, rows)
        if renewed:
            self.weigh(feasible)
        return renewed

    def _rescale(self, normalizer: Normalizer, raw: Scores) -> Scores:
        final = normalizer.rescale(raw, self.span)
        check_scores(normalizer.rescale, final, len(raw))
        return final

    def _extremes(self, rows: Rows | slice, n: int) -> tuple[int, int]:
        """The least and the greatest raw score of so many rows."""
        if isinstance(rows, slice):
            return extremes(self.raw[rows], None)
        if self._is_flat and 2 * n > len(self.raw):
            # In all rows one after the other, which is several times as quick as to pick out some.
            least, most = extremes(self.raw, None)
            if least == most:
                return least, most
        least, most = extremes(self.raw, rows)
        self._is_flat = least == most
        return least, most

    def _prepare(self, normalizer: Normalizer, least: int, most: int, rows: int) -> None:
        """Normalise all scores there may be, if that is less work than to do so for as many rows."""
        self._weighted_by_raw = None
        if most - least < min(_WIDEST, rows):
            finals = self._rescale(normalizer, np.arange(least, most + 1))
            lowest, highest = extremes(finals, None)
            if lowest >= 0 and highest <= MAX_NODE_SCORE:
                self._least, self._weighted_by_raw = least, finals * self.weight

    def _raw(self, rows: Rows | slice) -> Scores:
        """The raw scores of some rows, to be read only."""
        raw = self.raw[rows] if isinstance(rows, slice) else self.raw.take(rows)
        raw.flags.writeable = False
        return raw

    def _write_weighted(self, rows: Rows | slice, final: Scores) -> None:
        check_range(self.plugin, final)
        _write(self.weighted, rows, final * self.weight)


def _write(column: Scores, rows: Rows | slice, scores: Scores) -> None:
    """Write the scores of some rows, whatever whole numbers they are."""
    if isinstance(rows, slice):
        column[rows] = scores
        return
    cells = np.empty(len(rows), np.int64)
    cells[:] = scores
    put(column, rows, cells)


def score_of(plugin: ScorePlugin, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
    """One plugin's raw score for one node; what it raises is raised. InvalidReturnValue if it is no whole number."""
    if cycle.call_observer is None:
        score = plugin.score(cycle, pod, node)
    else:
        score = cycle.call_observer(plugin.name, "Score", plugin.score, cycle, pod, node)
    if type(score) is not int:
        check_score(plugin.score, score)
    return score


def scores_of(plugin: ScorePlugin, cycle: Cycle, pod: Pod, table: NodeTable) -> Scores:
    """The same for many nodes."""
    if cycle.call_observer is None:
        scores = plugin.score_all(cycle, pod, table)
    else:
        scores = cycle.call_observer(plugin.name, "Score", plugin.score_all, cycle, pod, table)
    check_scores(plugin.score_all, scores, len(table))
    return scores


def check_range(plugin: ScorePlugin, final: Scores) -> None:
    """PluginFailed for a final score outside of 0..100."""
    if not len(final):
        return
    least, most = extremes(final, None)
    if least < 0 or most > MAX_NODE_SCORE:
        raise_plugin_failed(
            plugin.name, "NormalizeScore", out_of_range(plugin, most if most > MAX_NODE_SCORE else least)
        )


def out_of_range(plugin: ScorePlugin, score: int) -> InvalidReturnValue:
    """The error of a final score outside of 0..100, which names the method that gave it."""
    normalizes = plugin.normalizer is not None or type(plugin).normalize is not ScorePlugin.normalize
    method = plugin.normalize if normalizes else plugin.score
    hint = "" if normalizes else "; set `normalizer`, or scale it"
    return InvalidReturnValue(method, score, f"0 to {MAX_NODE_SCORE}{hint}", shown=str(score))
