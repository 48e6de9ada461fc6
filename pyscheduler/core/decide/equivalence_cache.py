"""What a profile thinks of every node for the pods of one template, kept from attempt to attempt.

Such pods follow each other by the thousand; between two of them only a row or two has changed. An EquivalenceCache reads the
state's change logs, forgets just what those rows made stale, and has everything current again. Where a pod has other
labels or claims than the one before, or names other nodes, what plugins said that read those goes as well.
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
from pyscheduler.core.decide.filtering import FITS, FilterColumns, are_few
from pyscheduler.core.decide.invalidation import ATTEMPT, NODE, USAGE, Change, DirtyRows
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.decide.scoring import ScoreColumns
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

_NOWHERE: NDArray[np.bool_] = np.zeros(0, np.bool_)
_NO_ROWS: Rows = np.zeros(0, np.intp)


class EquivalenceCache:
    """The kept answers of one profile for the shapes of one template. After an exception it must be thrown away."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._shape: PodSignature | None = None
        self._state = state
        self._pre_filter = PluginResultCache()
        self._pre_score = PluginResultCache()
        self.filters = FilterColumns(state, profile.filter, profile.evaluations.filter)
        self.scores = ScoreColumns(state, profile.score, profile.evaluations.score)
        self.feasible = _NOWHERE
        self.feasible_count = 0
        """How many rows are feasible."""
        self._excluded_rows: frozenset[int] = frozenset()
        """Rows that fit, and are not feasible all the same: they are promised to others."""
        self.with_nominated_pods: dict[str, tuple[Hashable, Status | None]] = {}
        """What was said of nodes with their nominated pods, and what that rests on; by node name."""
        self._size = 0
        self._nodes_version = -1
        self._dependency_version = -1
        self._node_mark = -1
        self._usage_mark = -1
        self._signature_changed = False
        """Whether what active plugins said was of a pod with other labels, claims or named nodes."""
        self._dirty_rows: DirtyRows | None = None
        """Rows to be scored anew; None for all."""
        self._flipped_rows: Rows = _NO_ROWS
        """Rows that may fit where they did not, or the other way round, and to which nothing else has happened."""
        self._feasible_changed = False
        self._usage_dirty_rows: DirtyRows | None = None
        """Rows whose scores are stale by pods that have come or gone, where only `_refresh_incrementally` knows of it yet."""
        self._fitting_rows: Rows | slice = slice(0, 0)
        """The rows that fit: the same array while the same do."""

    @property
    def bytes(self) -> int:
        """Memory of all columns."""
        return self.filters.bytes + self.scores.bytes + self.feasible.nbytes

    @property
    def _is_small(self) -> bool:
        """Whether the cluster has so few nodes that the plain form answers for all of them."""
        return are_few(self._state.rows)

    def begin(self, signature: PodSignature) -> PluginResultCache:
        """The PreFilter answers that still hold; a changed node object voids what plugins said before any node."""
        if self._shape is not signature:
            self._switch_signature(signature)
        if self._nodes_version != self._state.nodes_version:
            self._nodes_version = self._state.nodes_version
            self._pre_filter, self._pre_score = PluginResultCache(), PluginResultCache()
            self.with_nominated_pods.clear()
        dependency_version = self._state.dependency_version
        if self._dependency_version != dependency_version:
            self._dependency_version = dependency_version
            self._pre_filter.invalidate_skips()
            self._pre_score.invalidate_skips()
        return self._pre_filter

    def _switch_signature(self, signature: PodSignature) -> None:
        """The next pod has other labels or claims, or names other nodes."""
        last, self._shape = self._shape, signature
        if last is None:
            return  # nobody has said anything yet
        readers = self._dependent_plugins(last, signature)
        self._pre_filter.invalidate(readers)
        self._pre_score.invalidate(readers)
        if self.filters.invalidate_plugins(readers):
            self.with_nominated_pods.clear()
            self._signature_changed = True
        if self.scores.invalidate_plugins(readers):
            self._dirty_rows = None

    def _dependent_plugins(self, last: PodSignature, signature: PodSignature) -> frozenset[str]:
        """The plugins that may say another thing of this signature than of the one before."""
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
        """Bring `feasible` up to date, before `exclude_reserved`. PluginFailed if a plugin raises."""
        self._resize(len(self._state.rows))
        if self._refresh_incrementally(cycle, pod, skipped):
            return
        stale = self._invalidate_changed(skipped)
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
            if np.count_nonzero(fits != self.feasible[stale]):
                self.feasible[stale] = fits
                self._recount()

    def exclude_reserved(self, rows: AbstractSet[int]) -> int:
        """Let some rows that fit not count, and those of the last time again; how many nodes are left."""
        if rows != self._excluded_rows:
            turned, self._excluded_rows = self._excluded_rows ^ rows, frozenset(rows)
            for row in sorted(turned):
                self._set_feasible(row, self.fits(row))
        return self.feasible_count

    def fits(self, row: int) -> bool:
        """Whether the filters let the pod in, be the node promised to others or not."""
        return self.filters.first.item(row) == FITS

    def pre_score(self, cycle: Cycle, pod: Pod) -> None:
        """Run PreScore, before `refresh_scores`. PluginFailed if a plugin raises."""
        if self._feasible_changed:
            everyone = self.feasible_count == self._size and not self._is_small
            self._fitting_rows = slice(0, self._size) if everyone else np.flatnonzero(self.feasible)
        fitting, profile = self._fitting_rows, self._profile

        def table() -> NodeTable:
            return self._state.table(None if isinstance(fitting, slice) else fitting)

        asked = profile.evaluations.pre_score
        skipped = run_pre_score(profile.pre_score, cycle, pod, table, self._pre_score, asked)
        if self.scores.activate(skipped):
            self._dirty_rows, self._feasible_changed = None, True

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> None:
        """Bring the totals of all feasible nodes up to date. PluginFailed if a plugin raises."""
        fitting = self._fitting_rows
        followed, self._usage_dirty_rows = self._usage_dirty_rows, None
        self.scores.invalidate(ATTEMPT, [])
        if followed is not None:
            nothing_else = self._dirty_rows is not None and not len(self._dirty_rows) and not self._feasible_changed
            if nothing_else and self.scores.refresh_rows(cycle, pod, followed, fitting):
                return
            if self.scores.invalidate(USAGE, followed):
                self._dirty_rows = None
            self._mark_dirty(followed)
        turned, self._flipped_rows = self._flipped_rows, _NO_ROWS
        if self._dirty_rows is not None and len(turned):
            self._mark_dirty(self.scores.flip_rows(turned, self.feasible))
        everything = list(range(self._size)) if self._is_small else slice(0, self._size)
        due = everything if self._dirty_rows is None else self._dirty_rows
        self.scores.refresh(cycle, pod, due, self.feasible, fitting, self._feasible_changed)
        self._dirty_rows, self._feasible_changed = [], False

    def _refresh_incrementally(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> bool:
        """What is true of most attempts: pods have come or gone since, and where they did the pod fits as it did.

        Then nothing is to be forgotten and computed again; the rows in question are noted for scoring.
        """
        state = self._state
        if self._signature_changed or state.node_log.mark != self._node_mark or not self.filters.is_skipping(skipped):
            return False
        if not self.filters.is_stable and not self.filters.is_unchanged(cycle):
            return False
        touched = state.usage_log.since(self._usage_mark)
        if touched is None or len(touched) > self._size:
            return False
        rows = self._existing_rows(touched)
        if self._excluded_rows and not self._excluded_rows.isdisjoint(rows):
            return False
        if self.feasible_count < self._size and not self.filters.was_feasible(rows):
            return False
        if not self.filters.still_fits(cycle, pod, rows):
            return False
        self._usage_mark = state.usage_log.mark
        if len(touched):
            self._usage_dirty_rows = rows if self._usage_dirty_rows is None else _union(self._usage_dirty_rows, rows)
        return True

    def _filter_all(self, cycle: Cycle, pod: Pod) -> None:
        if self.filters.refresh(cycle, pod, slice(0, self._size)):
            if self.feasible_count == self._size:
                return
            fits = np.ones(self._size, np.bool_)
        else:
            fits = self.filters.first[: self._size] == FITS
        fits[list(self._excluded_rows)] = False
        flipped = np.flatnonzero(fits != self.feasible[: self._size])
        if len(flipped):
            self.feasible[: self._size] = fits
            self._recount()
            self._mark_flipped(flipped)

    def _mark_flipped(self, rows: Rows) -> None:
        """Rows fit that did not, or the other way round, and nothing else has happened to them."""
        if are_few(rows):
            self._mark_dirty(rows.tolist())
            return
        self._flipped_rows = np.concatenate((self._flipped_rows, rows))
        if len(self._flipped_rows) > self._size:
            self._flipped_rows, self._dirty_rows = _NO_ROWS, None

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

    def _invalidate_changed(self, skipped: frozenset[str]) -> DirtyRows | None:
        """Forget what changes have made stale: the rows to be answered anew, None for all of them.

        They are also to be scored anew, together with those that a rejected attempt has left unscored.
        """
        state = self._state
        nodes, usage = state.node_log.since(self._node_mark), state.usage_log.since(self._usage_mark)
        first_time = self._node_mark < 0
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        others_asked = self.filters.activate(skipped)
        if others_asked:
            self.with_nominated_pods.clear()
        beyond, self._signature_changed = others_asked or self._signature_changed, False
        if first_time or nodes is None or usage is None or self.filters.has_too_many_statuses:
            self.filters.invalidate_all()
            self.scores.invalidate_all()
            self._dirty_rows = None
            return None
        stale: DirtyRows = []
        for change, touched in ((NODE, nodes), (USAGE, usage)):
            if len(touched):  # even if only by a row that is no more
                rows = self._existing_rows(touched)
                beyond |= self._invalidate(change, rows)
                stale = _union(stale, rows)
        beyond |= self.filters.invalidate(ATTEMPT, [])
        self._mark_dirty(stale)
        return None if beyond else stale

    def _invalidate(self, change: Change, rows: DirtyRows) -> bool:
        """Drop what the change makes stale; whether the filters are stale beyond those rows."""
        if self.scores.invalidate(change, rows):
            self._dirty_rows = None
        return self.filters.invalidate(change, rows)

    def _mark_dirty(self, rows: DirtyRows) -> None:
        if self._dirty_rows is not None:
            self._dirty_rows = _union(self._dirty_rows, rows)
            if len(self._dirty_rows) > self._size:
                self._dirty_rows = None

    def _existing_rows(self, touched: Rows) -> DirtyRows:
        """Those of the rows that there still are."""
        if are_few(touched):
            rows = touched.tolist()
            return [row for row in (sorted(set(rows)) if len(rows) > 1 else rows) if row < self._size]
        beyond = touched[touched.argmax()] >= self._size
        return touched[touched < self._size] if beyond else touched

    def _resize(self, n: int) -> None:
        """Follow the number of nodes."""
        if n == self._size:
            return
        self._feasible_changed = True
        if n > len(self.feasible):
            self.feasible = grown(self.feasible, max(n, 2 * len(self.feasible)))
        elif n < self._size:
            self.feasible[n : self._size] = False
            self._excluded_rows = frozenset(row for row in self._excluded_rows if row < n)
            self._recount()
            self._usage_dirty_rows, self._dirty_rows = _below(n, self._usage_dirty_rows), _below(n, self._dirty_rows)
            self._flipped_rows = self._flipped_rows[self._flipped_rows < n]
        self.filters.resize(n)
        self.scores.resize(n)
        self._size = n


def _below(n: int, rows: DirtyRows | None) -> DirtyRows | None:
    if rows is None or not isinstance(rows, list):
        return rows if rows is None else rows[rows < n]
    return [row for row in rows if row < n]


def _union(some: DirtyRows, others: DirtyRows) -> DirtyRows:
    """Rows of either; a list only while they are few."""
    if not len(some) or not len(others):
        return others if not len(some) else some
    if isinstance(some, list) and isinstance(others, list):
        rows = sorted({*some, *others})
        if are_few(rows):
            return rows
        return np.array(rows, np.intp)
    return np.concatenate((np.asarray(some, np.intp), np.asarray(others, np.intp)))
