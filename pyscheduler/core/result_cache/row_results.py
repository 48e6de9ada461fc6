"""Filter and Score results by row of the plugins that are not evaluated by class, kept between attempts.

Thousands of pods follow each other, and between two of them only a row or two changes. RowResults reads the change logs
of the state, invalidates the affected rows and recomputes them. If a pod has other labels, claims or named nodes than
the one before, the results of plugins that read those are invalidated too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.filter_columns import FEW, FITS, FilterColumns, are_few
from pyscheduler.core.result_cache.invalidation import ATTEMPT, NODE, USAGE, Change, DirtyRows
from pyscheduler.core.result_cache.score_columns import ScoreColumns
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

_EMPTY_MASK: NDArray[np.bool_] = np.zeros(0, np.bool_)


class RowResults:
    """Cached results of one profile for all pods that its plugins evaluated by row sign alike."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self.reset()

    def reset(self) -> None:
        """Drop all results, which an exception may leave half updated."""
        profile, state = self._profile, self._state
        self._signature: PodSignature | None = None
        self.filters = FilterColumns(state, profile.row_filters, profile.evaluations.filter)
        self.scores = ScoreColumns(state, profile.row_scores, profile.evaluations.score)
        self.feasible = _EMPTY_MASK
        self.feasible_count = 0
        """Number of feasible rows."""
        self.excluded: Mask | None = None
        """Rows that pass all of these filters but are not feasible."""
        self._size = 0
        self._node_mark = -1
        self._usage_mark = -1
        self._signature_changed = False
        """True if active plugins have results of a pod with other labels, claims or named nodes."""
        self._dirty_rows: DirtyRows | None = None
        """Rows to be scored again; None for all."""
        self._feasible_changed = False
        """True if other rows are feasible than at the last refresh of the scores."""
        self._usage_dirty_rows: DirtyRows | None = None
        """Rows with scores stale because of added or removed pods, noted by `_refresh_incrementally` only."""
        self._fitting_rows: Rows | slice | None = None
        """The feasible rows; None if they are to be listed again."""

    def copy_without(self, plugins: frozenset[str]) -> RowResults:
        """Return results for pods that all plugins but these sign alike; those of `plugins` are stale."""
        twin = RowResults(self._profile, self._state)
        # Not by __dict__: CPython reads attributes more slowly once that has been used.
        twin.filters, twin.scores, twin.feasible = self.filters.copy(), self.scores.copy(), self.feasible.copy()
        twin._signature, twin._size, twin._signature_changed = self._signature, self._size, self._signature_changed
        twin._node_mark, twin._usage_mark = self._node_mark, self._usage_mark
        twin._usage_dirty_rows = self._usage_dirty_rows
        twin.feasible_count, twin._feasible_changed = self.feasible_count, self._feasible_changed
        twin.excluded, twin._fitting_rows = self.excluded, self._fitting_rows
        twin._invalidate_plugins(plugins)
        return twin

    @property
    def bytes(self) -> int:
        """Memory of all columns in bytes."""
        return self.filters.bytes + self.scores.bytes + self.feasible.nbytes

    @property
    def _is_small(self) -> bool:
        """True if the cluster has so few nodes that per-node calls serve all of them."""
        return are_few(self._state.rows)

    @property
    def fitting_rows(self) -> Rows | slice:
        """The feasible rows: a slice if all are, the same array object until others are."""
        if self._fitting_rows is None:
            all_fit = self.feasible_count == self._size and not self._is_small
            self._fitting_rows = slice(0, self._size) if all_fit else np.flatnonzero(self.feasible)
        return self._fitting_rows

    def switch_signature(self, signature: PodSignature) -> None:
        """Invalidate what depends on the labels, claims and named nodes in which the pod differs from the last one."""
        last, self._signature = self._signature, signature
        if last is None:
            return  # no results yet
        readers = self._profile.readers_of_difference(last, signature)
        if readers:
            self._invalidate_plugins(readers)

    def _invalidate_plugins(self, plugins: frozenset[str]) -> None:
        self._signature_changed |= self.filters.invalidate_plugins(plugins)
        if self.scores.invalidate_plugins(plugins):
            self._dirty_rows = None

    # -- filter ------------------------------------------------------------------------------------------------------

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update `feasible`; call it before `exclude`. PluginFailed if a plugin raises."""
        if pod.signature is not self._signature:
            self.switch_signature(pod.signature)
        if len(self._state.rows) != self._size:
            self._resize(len(self._state.rows))
        filters = self.filters
        active_changed = skipped is not filters.skipped and filters.activate(skipped)
        keys_changed = bool(filters.keyed) and filters.invalidate_keyed(cycle)
        if not active_changed and not keys_changed and self._refresh_incrementally(cycle, pod):
            return
        stale = self._invalidate_changed(active_changed or keys_changed)
        if stale is None and self._is_small:
            stale = list(range(self._size))
        if stale is None:
            self._filter_all(cycle, pod)
        elif isinstance(stale, list):
            for row in stale:
                self._set_feasible(row, filters.refresh_row(cycle, pod, row))
        else:
            filters.refresh(cycle, pod, stale)
            self._set_feasible_rows(stale)

    def exclude(self, rows: Mask | None) -> None:
        """Replace the excluded rows, which count as infeasible; None for no rows."""
        before, self.excluded = self.excluded, rows
        if before is None and rows is None:
            return
        flipped = before if rows is None else rows if before is None else before ^ rows
        assert flipped is not None, "one of the two is a mask"
        self._set_feasible_rows(flipped.nonzero()[0])

    def _refresh_incrementally(self, cycle: Cycle, pod: Pod) -> bool:
        """Return True if the pod still fits all rows that changed since the last attempt.

        This holds for most attempts. No filter result has to be invalidated then; the rows are noted for scoring.
        """
        state, filters = self._state, self.filters
        if self._signature_changed:
            return False
        changed = state.usage_log.since(self._usage_mark)
        if changed is None or len(changed) > self._size:
            return False
        rows = self._existing_rows(changed)
        if self.feasible_count < self._size and not self._are_feasible(rows):
            return False
        if not filters.still_fits(cycle, pod, rows, USAGE):
            return False
        if state.node_log.mark != self._node_mark and not self._accept_changed_nodes(cycle, pod):
            return False
        self._usage_mark = state.usage_log.mark
        if len(changed):
            rows = rows if self._usage_dirty_rows is None else _union(self._usage_dirty_rows, rows)
            self._usage_dirty_rows = rows if len(rows) <= self._size else np.unique(rows)
        return True

    def _accept_changed_nodes(self, cycle: Cycle, pod: Pod) -> bool:
        """Return True if the pod still fits all nodes with changed objects; they are marked as dirty then."""
        log = self._state.node_log
        changed = log.since(self._node_mark) if self._node_mark >= 0 else None
        if changed is None or len(changed) > self._size or not self.filters.reads_own_node:
            return False
        rows = self._existing_rows(changed)
        if not self._are_feasible(rows) or not self.filters.still_fits(cycle, pod, rows, NODE):
            return False
        self._node_mark = log.mark
        self.scores.invalidate(NODE, rows)
        self._mark_dirty(rows)
        return True

    def _are_feasible(self, rows: DirtyRows) -> bool:
        feasible = self.feasible
        if isinstance(rows, list):
            return all(feasible[row] for row in rows)
        return int(np.count_nonzero(feasible[rows])) == len(rows)

    def _filter_all(self, cycle: Cycle, pod: Pod) -> None:
        if self.filters.refresh(cycle, pod, slice(0, self._size)):
            if self.feasible_count == self._size and self.excluded is None:
                return
            fits = np.ones(self._size, np.bool_)
        else:
            fits = self.filters.first[: self._size] == FITS
        if self.excluded is not None:
            fits &= ~self.excluded
        flipped = (fits != self.feasible[: self._size]).nonzero()[0]
        if len(flipped):
            self.feasible[: self._size] = fits
            self._recount()
            self._mark_dirty(flipped)

    def _set_feasible_rows(self, rows: Rows) -> None:
        """Update `feasible` in some rows that are filtered already."""
        if are_few(rows):
            for row in rows.tolist():
                self._set_feasible(row, self.filters.fits(row))
            return
        fits = self.filters.fitting(rows)
        if self.excluded is not None:
            fits &= ~self.excluded[rows]
        flipped = rows[fits != self.feasible[rows]]
        if len(flipped):
            self.feasible[rows] = fits
            self._recount()
            self._mark_dirty(flipped)

    def _set_feasible(self, row: int, fits: bool) -> None:
        fits = fits and (self.excluded is None or not self.excluded[row])
        if fits != self.feasible[row]:
            self.feasible[row] = fits
            self.feasible_count += 1 if fits else -1
            self._feasible_changed, self._fitting_rows = True, None
            self._mark_dirty([row])

    def _recount(self) -> None:
        self.feasible_count = int(np.count_nonzero(self.feasible))
        self._feasible_changed, self._fitting_rows = True, None

    def _invalidate_changed(self, results_changed: bool) -> DirtyRows | None:
        """Invalidate what changes have made stale. Return the rows to be filtered again, None for all of them.

        Changed rows are also marked for scoring, in addition to those that a rejected attempt left unscored.
        `results_changed`: whole filter columns are stale already.
        """
        state = self._state
        nodes, usage = state.node_log.since(self._node_mark), state.usage_log.since(self._usage_mark)
        first_time = self._node_mark < 0
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        all_stale, self._signature_changed = results_changed or self._signature_changed, False
        if first_time or nodes is None or usage is None or self.filters.has_too_many_statuses:
            self.filters.invalidate_all()
            self.scores.invalidate_all()
            self._dirty_rows = None
            return None
        stale: DirtyRows = []
        for change, changed in ((NODE, nodes), (USAGE, usage)):
            if len(changed):  # also if the changed row no longer exists
                rows = self._existing_rows(changed)
                all_stale |= self._invalidate(change, rows)
                stale = _union(stale, rows)
        all_stale |= self.filters.invalidate(ATTEMPT, [])
        self._mark_dirty(stale)
        return None if all_stale else stale

    def _invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Invalidate what the change makes stale. Return True if filter results beyond `rows` are stale."""
        self.scores.invalidate(change, rows)
        return self.filters.invalidate(change, rows)

    def _mark_dirty(self, rows: DirtyRows) -> None:
        if self._dirty_rows is not None:
            self._dirty_rows = _union(self._dirty_rows, rows)
            if len(self._dirty_rows) > self._size:
                self._dirty_rows = None

    def _existing_rows(self, changed: Rows) -> DirtyRows:
        """Return the changed rows that still exist."""
        if len(changed) <= FEW:
            rows: list[int] = changed.tolist()
            if len(rows) > 1:
                rows = sorted(set(rows))
            return rows if not rows or rows[-1] < self._size else [row for row in rows if row < self._size]
        beyond = changed[changed.argmax()] >= self._size
        return changed[changed < self._size] if beyond else changed

    # -- score -------------------------------------------------------------------------------------------------------

    def refresh_scores(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update the totals of all feasible nodes. PluginFailed if a plugin raises."""
        scores = self.scores
        if skipped is not scores.skipped and scores.activate(skipped):
            self._dirty_rows, self._feasible_changed = None, True
        usage_rows, self._usage_dirty_rows = self._usage_dirty_rows, None
        if scores.change_with_attempts:
            scores.invalidate(ATTEMPT, [])
        if self._feasible_changed and usage_rows is None and self._drop_infeasible_rows(cycle, pod):
            return
        fitting = self.fitting_rows
        if usage_rows is not None:
            usage_only = self._dirty_rows is not None and not len(self._dirty_rows) and not self._feasible_changed
            if usage_only and scores.refresh_rows(cycle, pod, usage_rows, fitting):
                return
            scores.invalidate(USAGE, usage_rows)
            self._mark_dirty(usage_rows)
        all_rows = list(range(self._size)) if self._is_small else slice(0, self._size)
        dirty = all_rows if self._dirty_rows is None else self._dirty_rows
        scores.refresh(cycle, pod, dirty, self.feasible, fitting, self._feasible_changed)
        self._dirty_rows, self._feasible_changed = [], False

    def _drop_infeasible_rows(self, cycle: Cycle, pod: Pod) -> bool:
        """Update the totals if the only changed rows have become infeasible, as after a pod that fills its node.

        Return False if the scores have to be refreshed.
        """
        rows, feasible = self._dirty_rows, self.feasible
        if not isinstance(rows, list) or any(feasible[row] for row in rows):
            return False
        if not self.scores.remove_rows(cycle, pod, rows):
            return False
        self._dirty_rows, self._feasible_changed = [], False
        return True

    def _resize(self, n: int) -> None:
        """Adapt the columns to another number of nodes."""
        self._feasible_changed, self._fitting_rows = True, None
        if self.excluded is not None:
            self.excluded = grown(self.excluded[:n], n)
        if n > len(self.feasible):
            self.feasible = grown(self.feasible, max(n, 2 * len(self.feasible)))
        elif n < self._size:
            self.feasible[n : self._size] = False
            self._recount()
            self._usage_dirty_rows, self._dirty_rows = _below(n, self._usage_dirty_rows), _below(n, self._dirty_rows)
        self.filters.resize(n)
        self.scores.resize(n)
        self._size = n


def _below(n: int, rows: DirtyRows | None) -> DirtyRows | None:
    if rows is None or not isinstance(rows, list):
        return rows if rows is None else rows[rows < n]
    return [row for row in rows if row < n]


def _union(some: DirtyRows, others: DirtyRows) -> DirtyRows:
    """Return the rows of either; as a list only while they are few."""
    if not len(some) or not len(others):
        return others if not len(some) else some
    if isinstance(some, list) and isinstance(others, list):
        rows = sorted({*some, *others})
        if are_few(rows):
            return rows
        return np.array(rows, np.intp)
    return np.concatenate((np.asarray(some, np.intp), np.asarray(others, np.intp)))
