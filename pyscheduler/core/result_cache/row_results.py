"""Filter and Score results by row of the plugins that are not evaluated by class, kept between attempts.

Thousands of pods follow each other, and between two of them only a row or two changes. RowResults reads the change logs
of the state, invalidates the affected rows and recomputes them. If a pod has other labels, claims or named nodes than
the one before, the results of plugins that read those are invalidated too.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.score_plugins import FEW, are_few
from pyscheduler.core.result_cache.invalidation import DirtyRows, NodeReaders
from pyscheduler.core.result_cache.row_filters import SPARE_STATUSES, RowFilter, RowFilters, row_filters
from pyscheduler.core.result_cache.row_scores import RowScores
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import copy_if_shared, grown, share
from pyscheduler.core.state.shared_node_fields import EXISTENCE
from pyscheduler.kernels import Rows

_NONE: Rows = np.zeros(0, np.intp)


class RowResults(Struct, eq=False, weakref=True):
    """Cached results of one profile for all pods that its plugins evaluated by row sign alike."""

    _profile: Profile
    _state: ClusterState
    filters: RowFilters
    scores: RowScores
    _node_readers: NodeReaders
    feasible: Mask
    feasible_count: int = 0
    """Number of feasible rows."""
    excluded: Mask | None = None
    """Rows that pass all of these filters but are not feasible."""
    _signature: PodSignature | None = None
    _size: int = 0
    _node_mark: int = -1
    _usage_mark: int = -1
    _nodes_version: int = -1
    """Version of the nodes at `_node_mark`."""
    _dirty_rows: DirtyRows | None = None
    """Rows to be scored again; None for all."""
    _feasible_changed: bool = False
    """True if other rows are feasible than at the last refresh of the scores."""
    _fitting_rows: Rows | slice | None = None
    """The feasible rows; None if they are to be listed again."""

    @staticmethod
    def of(profile: Profile, state: ClusterState) -> RowResults:
        """Return an instance without results."""
        filters = RowFilters(state, row_filters(profile.row_filters, profile.evaluations.filter))
        scores = RowScores.of(profile, state)
        return RowResults(profile, state, filters, scores, NodeReaders(profile.signers), np.zeros(0, np.bool_))

    def reset(self) -> None:
        """Drop all results, which an exception may leave half updated."""
        empty = RowResults.of(self._profile, self._state)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(empty, name))

    def copy_without(self, plugins: frozenset[str]) -> RowResults:
        """Return results for pods that all plugins but these sign alike; those of `plugins` are stale."""
        twin = copy(self)
        twin.filters, twin.scores, twin.feasible = self.filters.copy(), self.scores.copy(), share(self.feasible)
        twin._dirty_rows, twin._node_readers = None, NodeReaders(self._profile.signers)
        twin._invalidate_plugins(plugins)
        return twin

    @property
    def bytes(self) -> int:
        """Memory of all columns in bytes, shared ones included."""
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
        if not readers.isdisjoint(self._profile.row_plugins):
            self._invalidate_plugins(readers)

    def _invalidate_plugins(self, plugins: frozenset[str]) -> None:
        self.filters.invalidate_plugins(plugins)
        if self.scores.invalidate_plugins(plugins):
            self._dirty_rows = None

    # -- filter ------------------------------------------------------------------------------------------------------

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update `feasible`; call it before `exclude`. PluginFailed if a plugin raises."""
        if pod.signature is not self._signature:
            self.switch_signature(pod.signature)
        if len(self._state.rows) != self._size:
            self._resize(len(self._state.rows))
        state = self._state
        is_stale = self.filters.begin(cycle, skipped)
        if is_stale or state.usage_log.mark != self._usage_mark or state.node_log.mark != self._node_mark:
            self._refresh_changed(cycle, pod, is_stale)

    def exclude(self, rows: Mask | None) -> None:
        """Replace the excluded rows, which count as infeasible; None for no rows."""
        before, self.excluded = self.excluded, rows
        if before is None and rows is None:
            return
        flipped = before if rows is None else rows if before is None else before ^ rows
        assert flipped is not None, "one of the two is a mask"
        self._set_feasible_rows(flipped.nonzero()[0])

    def _refresh_changed(self, cycle: Cycle, pod: Pod, is_stale: bool) -> None:
        """Update the results that changes have made stale, and mark the changed rows for scoring.

        `is_stale` if those of a plugin are stale in all rows. Rows that a rejected attempt left unscored stay marked.
        """
        state, filters = self._state, self.filters
        usage = state.usage_log.since(self._usage_mark)
        nodes = _NONE if state.node_log.mark == self._node_mark else state.node_log.since(self._node_mark)
        changed = 0 if nodes is _NONE else state.changed_node_fields(self._nodes_version)
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        self._nodes_version = state.nodes_version
        if nodes is None or usage is None or len(filters.statuses) > 2 * self._size + SPARE_STATUSES:
            filters.invalidate_all()
            self.scores.invalidate_all()
            self._dirty_rows = None
            filters.refresh_all(cycle, pod)
            self._set_feasible_rows(slice(0, self._size))
            return
        if changed:
            self._refresh_nodes(cycle, pod, self._existing_rows(nodes), changed)
        usage_rows = self._existing_rows(usage)
        if self.scores.reads_usage:
            self.scores.invalidate_usage(usage_rows)
        self._mark_dirty(usage_rows)
        self._filter_rows(cycle, pod, usage_rows, filters.usage_readers)
        if is_stale:
            filters.refresh_all(cycle, pod)
            self._set_feasible_rows(slice(0, self._size))

    def _refresh_nodes(self, cycle: Cycle, pod: Pod, rows: DirtyRows, changed: int) -> None:
        """Update the Filter results of rows with changed nodes, and mark those to be scored again.

        There may be no such row any more: others may still depend on it.
        """
        readers = self._node_readers.of(pod.signature.template, changed)
        if self.scores.invalidate_nodes(rows, readers):
            self._mark_dirty(rows)
        filters = self.filters.node_readers(readers)
        if filters or changed & EXISTENCE:
            self._filter_rows(cycle, pod, rows, filters)

    def _filter_rows(self, cycle: Cycle, pod: Pod, rows: DirtyRows, readers: Sequence[RowFilter]) -> None:
        """Update rows after a change there that these plugins read."""
        if not isinstance(rows, list):
            self.filters.refresh_rows(cycle, pod, rows, readers)
            self._set_feasible_rows(rows)
            return
        for row in rows:
            fits = self.filters.refresh_row(cycle, pod, row, readers)
            if not fits or self.feasible_count < self._size:
                self._set_feasible(row, fits)

    def _set_feasible_rows(self, rows: Rows | slice) -> None:
        """Update `feasible` in some rows that are filtered already."""
        if self.filters.all_fit and self.excluded is None and self.feasible_count == self._size:
            return
        if not isinstance(rows, slice) and are_few(rows):
            for row in rows.tolist():
                self._set_feasible(row, self.filters.fits(row))
            return
        fits = self.filters.fitting(rows)
        if self.excluded is not None:
            fits &= ~self.excluded[rows]
        flipped = fits != self.feasible[rows]
        if np.count_nonzero(flipped):
            self.feasible = copy_if_shared(self.feasible)
            self.feasible[rows] = fits
            self.feasible_count = int(np.count_nonzero(self.feasible))
            self._feasible_changed, self._fitting_rows = True, None
            self._mark_dirty(np.flatnonzero(flipped) if isinstance(rows, slice) else rows[flipped])

    def _set_feasible(self, row: int, fits: bool) -> None:
        fits = fits and (self.excluded is None or not self.excluded[row])
        if fits != self.feasible[row]:
            self.feasible = copy_if_shared(self.feasible)
            self.feasible[row] = fits
            self.feasible_count += 1 if fits else -1
            self._feasible_changed, self._fitting_rows = True, None
            self._mark_dirty([row])

    def _mark_dirty(self, rows: DirtyRows) -> None:
        dirty = self._dirty_rows
        if dirty is not None:
            together = _union(dirty, rows) if len(dirty) else rows
            self._dirty_rows = None if len(together) > self._size else together

    def _existing_rows(self, changed: Rows) -> DirtyRows:
        """Return the changed rows that still exist."""
        if len(changed) <= FEW:
            rows: list[int] = changed.tolist()
            if len(rows) > 1:
                rows = sorted(set(rows))
            return rows if not rows or rows[-1] < self._size else [row for row in rows if row < self._size]
        beyond = changed[changed.argmax()] >= self._size
        existing = changed[changed < self._size] if beyond else changed
        if len(existing) > self._size:  # np.unique would import numpy.ma, within an attempt
            is_changed = np.zeros(self._size, np.bool_)
            is_changed[existing] = True
            existing = np.flatnonzero(is_changed)
        return existing if len(existing) else []

    # -- score -------------------------------------------------------------------------------------------------------

    def refresh_scores(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update the totals of all feasible nodes. PluginFailed if a plugin raises."""
        scores = self.scores
        if skipped is not scores.skipped and scores.activate(skipped):
            self._dirty_rows, self._feasible_changed = None, True
        rows, is_changed = self._dirty_rows, self._feasible_changed
        if rows is None or not scores.update_rows(cycle, pod, rows, self.feasible, is_changed):
            due = slice(0, self._size) if rows is None else rows
            scores.refresh(cycle, pod, due, self.feasible, self.fitting_rows, is_changed)
        self._dirty_rows, self._feasible_changed = [], False

    def _resize(self, n: int) -> None:
        """Adapt the columns to another number of nodes."""
        self._feasible_changed, self._fitting_rows = True, None
        if self.excluded is not None:
            self.excluded = _resized(self.excluded, n)
        self.feasible = _resized(self.feasible, n)
        if n < self._size:
            self.feasible_count = int(np.count_nonzero(self.feasible))
            self._dirty_rows = None if self._dirty_rows is None else _below(n, self._dirty_rows)
        self.filters.resize(n)
        self.scores.resize(n)
        self._size = n


def _resized(mask: Mask, n: int) -> Mask:
    return grown(mask, n) if n > len(mask) else mask[:n]


def _below(n: int, rows: DirtyRows) -> DirtyRows:
    return [row for row in rows if row < n] if isinstance(rows, list) else rows[rows < n]


def _union(some: DirtyRows, others: DirtyRows) -> DirtyRows:
    """Return the rows of either; as a list only while they are few."""
    if not len(others):
        return some
    if isinstance(some, list) and isinstance(others, list):
        rows = sorted({*some, *others})
        if are_few(rows):
            return rows
        return np.array(rows, np.intp)
    return np.concatenate((np.asarray(some, np.intp), np.asarray(others, np.intp)))
