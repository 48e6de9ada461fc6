"""Filter and Score results of one profile for the pods of one signature group, kept between attempts.

Thousands of such pods follow each other, and between two of them only a row or two changes. An EquivalenceCache reads
the change logs of the state, invalidates the affected rows and recomputes them. If a pod has other labels, claims or
named nodes than the one before, the results of plugins that read those are invalidated too.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.filter_columns import FEW, FITS, NO_ROWS, FilterColumns, are_few
from pyscheduler.core.result_cache.invalidation import ATTEMPT, NODE, USAGE, Change, DirtyRows
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.result_cache.score_columns import ScoreColumns
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

_NO_CHANGES: DirtyRows = []
_EMPTY_MASK: NDArray[np.bool_] = np.zeros(0, np.bool_)


class EquivalenceCache:
    """Cached results of one profile for the signatures of one group. Discard it after any exception."""

    def __init__(
        self,
        profile: Profile,
        state: ClusterState,
        pre_filter: PluginResultCache | None = None,
        pre_score: PluginResultCache | None = None,
    ) -> None:
        """`pre_filter` and `pre_score` may have results that hold for the group."""
        self._profile = profile
        self._signature: PodSignature | None = None
        self._state = state
        self._pre_filter = pre_filter or PluginResultCache()
        self._pre_score = pre_score or PluginResultCache()
        self.filters = FilterColumns(state, profile.filter, profile.evaluations.filter)
        self.scores = ScoreColumns(state, profile.score, profile.evaluations.score)
        self.feasible = _EMPTY_MASK
        self.feasible_count = 0
        """Number of feasible rows."""
        self._excluded_rows: frozenset[int] = frozenset()
        """Rows that pass all filters but are not feasible because nominated pods need the space."""
        self.with_nominated_pods: dict[str, tuple[Hashable, Status | None]] = {}
        """Filter status of nodes with their nominated pods added, with the versions it depends on; by node name."""
        self._are_all_filtered = False
        """True if the current attempt has filtered all nodes."""
        self._size = 0
        self._nodes_version = state.nodes_version
        self._objects_version = state.objects_version
        self._templates_version = state.placed.templates_version
        self._node_mark = -1
        self._usage_mark = -1
        self._signature_changed = False
        """True if active plugins have results of a pod with other labels, claims or named nodes."""
        self._dirty_rows: DirtyRows | None = None
        """Rows to be scored again; None for all."""
        self._feasibility_changed_rows: Rows = NO_ROWS
        """Rows that may have become feasible or infeasible without any other change."""
        self._feasible_changed = False
        self._usage_dirty_rows: DirtyRows | None = None
        """Rows with scores stale because of added or removed pods, noted by `_refresh_incrementally` only."""
        self._fitting_rows: Rows | slice = slice(0, 0)
        """The feasible rows; the array is replaced only when they change."""

    @property
    def bytes(self) -> int:
        """Memory of all columns in bytes."""
        return self.filters.bytes + self.scores.bytes + self.feasible.nbytes

    @property
    def holds_for_signature(self) -> bool:
        """True if an attempt of another pod of the signature would have the current attempt's PreFilter and Filter
        results while nothing changes.
        """
        return self._are_all_filtered and not self._includes(self._profile.unlimited_plugins, group=False)

    def depends_on(self, plugins: frozenset[str]) -> bool:
        """Return True if the signature's PreFilter or Filter results may include any of these plugins'."""
        return self._includes(plugins, group=True)

    def _includes(self, plugins: frozenset[str], group: bool) -> bool:
        pre_filters = plugins & self._profile.pre_filter_names
        return not pre_filters <= self._pre_filter.skips(group) or self.filters.has_active(plugins)

    @property
    def _is_small(self) -> bool:
        """True if the cluster has so few nodes that per-node calls serve all of them."""
        return are_few(self._state.rows)

    def begin(self, signature: PodSignature) -> PluginResultCache:
        """Return the PreFilter results that are still valid."""
        self._are_all_filtered = False
        if self._signature is not signature:
            self._switch_signature(signature)
        if self._nodes_version != self._state.nodes_version:
            self._nodes_version = self._state.nodes_version
            self._pre_filter.drop(self._profile.pre_node_readers)
            self._pre_score.drop(self._profile.pre_node_readers)
            self.with_nominated_pods.clear()
        state = self._state
        if self._objects_version != state.objects_version or self._templates_version != state.placed.templates_version:
            readers = self._readers_of_changes()
            self._pre_filter.invalidate_skips(readers)
            self._pre_score.invalidate_skips(readers)
        return self._pre_filter

    def _readers_of_changes(self) -> set[str]:
        """Return the names of the plugins that read objects or counts of templates which have changed."""
        state, readers = self._state, set[str]()
        if self._templates_version != state.placed.templates_version:
            readers.update(self._profile.pod_readers)
        for kind, version in state.object_versions.items():
            if version > self._objects_version:
                readers.update(self._profile.watchers.get(kind, ()))
        self._objects_version, self._templates_version = state.objects_version, state.placed.templates_version
        return readers

    def _switch_signature(self, signature: PodSignature) -> None:
        """Invalidate what depends on the labels, claims and named nodes in which the signatures differ."""
        last, self._signature = self._signature, signature
        if last is None:
            return  # no results yet
        readers = self._dependent_plugins(last, signature)
        self._pre_filter.invalidate(readers)
        self._pre_score.invalidate(readers)
        if self.filters.invalidate_plugins(readers):
            self.with_nominated_pods.clear()
            self._signature_changed = True
        if self.scores.invalidate_plugins(readers):
            self._dirty_rows = None

    def _dependent_plugins(self, last: PodSignature, signature: PodSignature) -> frozenset[str]:
        """Return the names of the plugins with results that may differ between the two signatures."""
        profile = self._profile
        readers: frozenset[str] = frozenset()
        if last.labels != signature.labels or last.annotations != signature.annotations:
            readers = profile.label_readers
        if last.spec is signature.spec:
            return readers
        if last.spec.volumes != signature.spec.volumes:
            readers |= profile.claim_readers
        return readers if last.spec.affinity == signature.spec.affinity else readers | profile.named_node_readers

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update `feasible`; call it before `exclude_rows`. PluginFailed if a plugin raises."""
        if len(self._state.rows) != self._size:
            self._resize(len(self._state.rows))
        self._are_all_filtered = True
        filters = self.filters
        active_changed = skipped is not filters.skipped and filters.activate(skipped)
        changed_rows = filters.invalidate_keyed(cycle) if filters.keyed else _NO_CHANGES
        keys_changed = active_changed or changed_rows is None or len(changed_rows) > 0
        if not keys_changed and self._refresh_incrementally(cycle, pod):
            return
        stale = self._invalidate_changed(active_changed, changed_rows)
        if stale is None and self._is_small:
            stale = list(range(self._size))
        if stale is None:
            self._filter_all(cycle, pod)
        elif isinstance(stale, list):
            for row in stale:
                self._set_feasible(row, self.filters.refresh_row(cycle, pod, row))
        else:
            self.filters.refresh(cycle, pod, stale)
            fits = self.filters.first[stale] == FITS
            if self._excluded_rows:
                fits &= ~np.isin(stale, list(self._excluded_rows))
            flipped = stale[fits != self.feasible[stale]]
            if len(flipped):
                self.feasible[stale] = fits
                self._recount()
                self._mark_feasibility_changed(flipped)

    def exclude_rows(self, rows: AbstractSet[int]) -> int:
        """Replace the excluded rows, which count as infeasible. Return the number of feasible rows."""
        if rows != self._excluded_rows:
            flipped, self._excluded_rows = self._excluded_rows ^ rows, frozenset(rows)
            for row in sorted(flipped):
                self._set_feasible(row, self.fits(row))
        return self.feasible_count

    def fits(self, row: int) -> bool:
        """Return True if all filters pass, also where the node is reserved for nominated pods."""
        return self.filters.fits(row)

    def pre_score(self, cycle: Cycle, pod: Pod) -> None:
        """Run PreScore; call it before `refresh_scores`. PluginFailed if a plugin raises."""
        if self._feasible_changed:
            all_fit = self.feasible_count == self._size and not self._is_small
            self._fitting_rows = slice(0, self._size) if all_fit else np.flatnonzero(self.feasible)
        results, scores = self._pre_score, self.scores
        skipped = results.replay(cycle) if results.outcome is not None else self._run_pre_score(cycle, pod)
        if skipped is not scores.skipped and scores.activate(skipped):
            self._dirty_rows, self._feasible_changed = None, True

    def _run_pre_score(self, cycle: Cycle, pod: Pod) -> frozenset[str]:
        fitting, profile = self._fitting_rows, self._profile

        def table() -> NodeTable:
            return self._state.table(None if isinstance(fitting, slice) else fitting)

        return run_pre_score(profile.pre_score, cycle, pod, table, self._pre_score, profile.evaluations.pre_score)

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> None:
        """Update the totals of all feasible nodes. PluginFailed if a plugin raises."""
        fitting = self._fitting_rows
        usage_rows, self._usage_dirty_rows = self._usage_dirty_rows, None
        if self.scores.change_with_attempts:
            self.scores.invalidate(ATTEMPT, [])
        if usage_rows is not None:
            usage_only = self._dirty_rows is not None and not len(self._dirty_rows) and not self._feasible_changed
            if usage_only and self.scores.refresh_rows(cycle, pod, usage_rows, fitting):
                return
            self.scores.invalidate(USAGE, usage_rows)
            self._mark_dirty(usage_rows)
        flipped, self._feasibility_changed_rows = self._feasibility_changed_rows, NO_ROWS
        if self._dirty_rows is not None and len(flipped):
            self._mark_dirty(self.scores.update_feasibility(flipped, self.feasible))
        all_rows = list(range(self._size)) if self._is_small else slice(0, self._size)
        dirty = all_rows if self._dirty_rows is None else self._dirty_rows
        self.scores.refresh(cycle, pod, dirty, self.feasible, fitting, self._feasible_changed)
        self._dirty_rows, self._feasible_changed = [], False

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
            self._usage_dirty_rows = rows if self._usage_dirty_rows is None else _union(self._usage_dirty_rows, rows)
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
            if self.feasible_count == self._size:
                return
            fits = np.ones(self._size, np.bool_)
        else:
            fits = self.filters.first[: self._size] == FITS
        fits[list(self._excluded_rows)] = False
        if self._dirty_rows is None:
            self.feasible[: self._size] = fits
            self._recount()
            return
        flipped = np.flatnonzero(fits != self.feasible[: self._size])
        if len(flipped):
            self.feasible[: self._size] = fits
            self._recount()
            self._mark_feasibility_changed(flipped)

    def _mark_feasibility_changed(self, rows: Rows) -> None:
        """Note rows that became feasible or infeasible without any other change."""
        if are_few(rows):
            self._mark_dirty(rows.tolist())
            return
        self._feasibility_changed_rows = np.concatenate((self._feasibility_changed_rows, rows))
        if len(self._feasibility_changed_rows) > self._size:
            self._feasibility_changed_rows, self._dirty_rows = NO_ROWS, None

    def _set_feasible(self, row: int, fits: bool) -> None:
        fits = fits and row not in self._excluded_rows
        if fits != self.feasible[row]:
            self.feasible[row] = fits
            self.feasible_count += 1 if fits else -1
            self._feasible_changed = True
            self._mark_dirty([row])

    def _recount(self) -> None:
        self.feasible_count = int(np.count_nonzero(self.feasible))
        self._feasible_changed = True

    def _invalidate_changed(self, active_changed: bool, changed_rows: DirtyRows | None) -> DirtyRows | None:
        """Invalidate what changes have made stale. Return the rows to be filtered again, None for all of them.

        `changed_rows`, which are invalidated already, are among them. Changed rows are also marked for scoring, in
        addition to those that a rejected attempt left unscored.
        """
        state = self._state
        nodes, usage = state.node_log.since(self._node_mark), state.usage_log.since(self._usage_mark)
        first_time = self._node_mark < 0
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        if active_changed:
            self.with_nominated_pods.clear()
        all_stale, self._signature_changed = active_changed or self._signature_changed, False
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
        return None if all_stale or changed_rows is None else _union(stale, changed_rows)

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

    def _resize(self, n: int) -> None:
        """Adapt the columns to another number of nodes."""
        self._feasible_changed = True
        if n > len(self.feasible):
            self.feasible = grown(self.feasible, max(n, 2 * len(self.feasible)))
        elif n < self._size:
            self.feasible[n : self._size] = False
            self._excluded_rows = frozenset(row for row in self._excluded_rows if row < n)
            self._recount()
            self._usage_dirty_rows, self._dirty_rows = _below(n, self._usage_dirty_rows), _below(n, self._dirty_rows)
            self._feasibility_changed_rows = self._feasibility_changed_rows[self._feasibility_changed_rows < n]
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
