"""Raw scores of one plugin for all nodes, and their conversion to weighted final scores."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.normalize import Normalizer, Scores
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import Reads
from pyscheduler.core.framework.evaluation_counts import EvaluationCounter
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Weighted
from pyscheduler.core.framework.score_plugins import (
    NO_SCORES,
    NORMALIZE,
    are_few,
    check_range,
    overrides_normalize,
    rescale,
    run_normalize,
    run_score,
    run_score_on_table,
)
from pyscheduler.core.result_cache.invalidation import NODE, USAGE, DirtyRows, Scope, invalidation_scopes
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import copy_if_shared, grown, share
from pyscheduler.kernels import Rows, extremes, put


class ScoreColumn(Struct, eq=False):
    """Raw scores of a plugin by row; one number if all scored rows have the same, as most plugins give most pods."""

    plugin: ScorePlugin
    weight: int
    _evaluations: EvaluationCounter
    scopes: tuple[Scope, ...]
    """Extent of what each kind of change makes stale."""
    is_volatile: bool
    """True if all scores are stale as soon as any pod is added or removed."""
    is_normalized_whole: bool
    """True if the plugin has a NormalizeScore of its own, which runs on all feasible rows in each attempt."""
    has_key: bool
    """True if all scores are stale once the plugin's cache key has changed."""
    _key: Hashable | None = None
    """Cache key of the raw scores; None if there is none."""
    all_stale: bool = True
    """True if no score is valid any more."""
    uniform: int | None = None
    """Raw score of every valid row; None if they differ."""
    _raw: Scores = NO_SCORES
    """Raw scores by row; not in use if they are uniform."""
    _span: object = None
    """What the normaliser needs of the raw scores of all feasible rows."""
    _final: Scores = NO_SCORES
    """The final and weighted scores of all feasible rows, if `is_normalized_whole`."""

    @staticmethod
    def of(weighted: Weighted, evaluations: EvaluationCounter) -> ScoreColumn:
        """Return a column without scores."""
        plugin = weighted.plugin
        scopes = invalidation_scopes(plugin, plugin.score_reads)
        is_volatile = scopes[USAGE] is Scope.EVERYWHERE
        has_own_key = type(plugin).score_cache_key is not ScorePlugin.score_cache_key
        reads_all_nodes = (plugin.score_reads or plugin.reads) is Reads.ALL_NODES
        has_key = has_own_key and not is_volatile and (reads_all_nodes or plugin.has_score_key)
        scopes = (Scope.ROWS, *scopes[NODE + 1 :]) if has_key else scopes
        whole = overrides_normalize(plugin)
        return ScoreColumn(plugin, weighted.weight, evaluations, scopes, is_volatile, whole, has_key)

    @property
    def is_uniform(self) -> bool:
        """True if the final scores of all feasible rows are known to be equal."""
        return self.uniform is not None and not self.is_normalized_whole

    @property
    def depends_on_others(self) -> bool:
        """True if a node's final score depends on which other nodes are feasible."""
        return self.plugin.normalizer is not None or self.is_normalized_whole

    @property
    def _normalizer(self) -> Normalizer | None:
        return None if self.is_normalized_whole else self.plugin.normalizer

    def copy(self) -> ScoreColumn:
        """Return a column with the same scores, which changes independently."""
        twin = copy(self)
        twin._raw = share(self._raw)
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the column in bytes."""
        return self._raw.nbytes + self._final.nbytes

    def resize(self, n: int) -> None:
        """Adapt to `n` rows; new rows are to be scored."""
        if len(self._raw):
            self._raw = grown(self._raw, n) if n > len(self._raw) else self._raw[:n]

    def check_key(self, cycle: Cycle) -> bool:
        """Invalidate all scores if they hold for no other attempt or under another cache key. Return True if stale."""
        if self.is_volatile:
            self.all_stale = True
        elif self.has_key:
            self.all_stale |= not call_guarded(self.plugin.name, "Score", self._is_same_key, cycle)
        return self.all_stale

    def _is_same_key(self, cycle: Cycle) -> bool:
        before, self._key = self._key, self.plugin.score_cache_key(cycle)
        return self._key is not None and bool(self._key == before)

    def is_same_without_rows(self, cycle: Cycle) -> bool:
        """Return True if the final scores of the other rows do not change when feasible rows become infeasible."""
        if self.check_key(cycle) or self.is_normalized_whole:
            return False
        return self._normalizer is None or self.uniform is not None

    # -- raw scores --------------------------------------------------------------------------------------------------

    def score_all(self, cycle: Cycle, pod: Pod, state: ClusterState, feasible: Rows | slice) -> None:
        """Compute the scores of all feasible rows, the only valid ones from now on."""
        scores = self._scores(cycle, pod, state, feasible)
        self.all_stale, self.uniform = False, None
        if len(scores) and not np.count_nonzero(scores != scores[0]):
            self.uniform, self._raw = int(scores[0]), NO_SCORES
            return
        if isinstance(feasible, slice):
            self._raw = scores.copy()
            return
        self._raw = np.zeros(len(state), np.int64)
        put(self._raw, feasible, scores)

    def score_rows(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: DirtyRows) -> bool:
        """Compute the scores of some rows. Return True if one has changed."""
        rows = np.asarray(rows, np.intp)
        scores = self._scores(cycle, pod, state, rows)
        if self.uniform is not None and not np.count_nonzero(scores != self.uniform):
            return False
        raw = self._by_row(len(state))
        changed = bool(np.count_nonzero(raw[rows] != scores))
        raw[rows] = scores
        return changed

    def _by_row(self, n: int) -> Scores:
        """Return the raw scores by row, for writing."""
        if self.uniform is not None:
            self.uniform, self._raw = None, np.full(n, self.uniform)
        self._raw = copy_if_shared(self._raw)
        return self._raw

    def _scores(self, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice) -> Scores:
        if isinstance(rows, slice):
            rows_or_all, n = None, len(state)
        else:
            rows_or_all, n = rows, len(rows)
        self._evaluations.n += n
        if rows_or_all is not None and are_few(rows_or_all):
            few = [run_score(self.plugin, cycle, pod, state.rows[row]) for row in rows_or_all.tolist()]
            return np.array(few, np.int64)
        return run_score_on_table(self.plugin, cycle, pod, state.table(rows_or_all))

    # -- final scores ------------------------------------------------------------------------------------------------

    def renormalize(self, cycle: Cycle, pod: Pod, feasible: Rows | slice) -> bool:
        """Update what final scores depend on, after other raw scores or with other feasible rows, or in each attempt.

        Return True if all final scores may have changed.
        """
        if self.is_normalized_whole:
            self._final = run_normalize(self.plugin, cycle, pod, self._raw_of(feasible).copy()) * self.weight
            return True
        normalizer, observer, before = self._normalizer, cycle.call_observer, self._span
        if normalizer is None:
            return False
        try:
            if observer is None:
                self._span = self._span_of(normalizer, feasible)
            else:
                self._span = observer(self.plugin.name, NORMALIZE, self._span_of, normalizer, feasible)
            return bool(self._span != before)
        except BaseException as error:
            raise_plugin_failed(self.plugin.name, "NormalizeScore", error)

    def _span_of(self, normalizer: Normalizer, feasible: Rows | slice) -> object:
        if self.uniform is not None:
            span = normalizer.span_between(self.uniform, self.uniform)
        elif isinstance(feasible, slice):
            span = normalizer.span_between(*extremes(self._raw, None))
        else:
            span = normalizer.span_between(*extremes(self._raw, feasible))
        return normalizer.span(self._raw_of(feasible)) if span is None else span

    def final(self, rows: Rows | slice) -> Scores | int:
        """Return the final and weighted scores of some rows; a number if all valid rows have it.

        Those rows are all feasible ones if `is_normalized_whole`.
        """
        if self.is_normalized_whole:
            return self._final
        if self.uniform is None:
            raw = self._raw_of(rows)
            return self._checked(raw) * self.weight if len(raw) else raw
        return int(self._checked(np.array([self.uniform]))[0]) * self.weight

    def _checked(self, raw: Scores) -> Scores:
        normalizer = self._normalizer
        if normalizer is not None:
            return rescale(self.plugin, normalizer, raw, self._span)
        check_range(self.plugin, raw)
        return raw

    def _raw_of(self, rows: Rows | slice) -> Scores:
        """Return the raw scores of some rows as a read-only array."""
        if self.uniform is not None:
            return np.broadcast_to(np.int64(self.uniform), rows.stop if isinstance(rows, slice) else len(rows))
        raw = self._raw[rows] if isinstance(rows, slice) else self._raw.take(rows)
        raw.flags.writeable = False
        return raw
