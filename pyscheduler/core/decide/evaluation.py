"""What a profile thinks of every node for the pods of one template, kept from attempt to attempt.

Such pods follow each other by the thousand; between two of them only a row or two has changed. An Evaluation reads the
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
from pyscheduler.api.pod import Pod, PodShape
from pyscheduler.core.decide.filtering import FITS, FilterColumns, are_few
from pyscheduler.core.decide.kept_answers import KeptAnswers, run_pre_score
from pyscheduler.core.decide.scoring import ScoreColumns
from pyscheduler.core.decide.staleness import ATTEMPT, NODE, USAGE, Change, Touched
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.columns import grown
from pyscheduler.kernels import Rows

_NOWHERE: NDArray[np.bool_] = np.zeros(0, np.bool_)
_NO_ROWS: Rows = np.zeros(0, np.intp)


class Evaluation:
    """The kept answers of one profile for the shapes of one template. After an exception it must be thrown away."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._shape: PodShape | None = None
        self._state = state
        self._pre_filter = KeptAnswers()
        self._pre_score = KeptAnswers()
        self.filters = FilterColumns(state, profile.filter, profile.evaluations.filter)
        self.scores = ScoreColumns(state, profile.score, profile.evaluations.score)
        self.feasible = _NOWHERE
        self.fitting = 0
        """How many rows are feasible."""
        self._withheld: frozenset[int] = frozenset()
        """Rows that fit, and are not feasible all the same: they are promised to others."""
        self.beside: dict[str, tuple[Hashable, Status | None]] = {}
        """What was said of nodes with their nominated pods, and what that rests on; by node name."""
        self._size = 0
        self._nodes_version = -1
        self._surroundings = -1
        self._node_mark = -1
        self._usage_mark = -1
        self._turned = False
        """Whether what active plugins said was of a pod with other labels, claims or named nodes."""
        self._due: Touched | None = None
        """Rows to be scored anew; None for all."""
        self._turned_rows: Rows = _NO_ROWS
        """Rows that may fit where they did not, or the other way round, and to which nothing else has happened."""
        self._refit = False
        self._followed: Touched | None = None
        """Rows whose scores are stale by pods that have come or gone, where only `_follows` knows of it yet."""
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

    def begin(self, shape: PodShape) -> KeptAnswers:
        """The PreFilter answers that still hold; a changed node object voids what plugins said before any node."""
        if self._shape is not shape:
            self._turn_to(shape)
        if self._nodes_version != self._state.nodes_version:
            self._nodes_version = self._state.nodes_version
            self._pre_filter, self._pre_score = KeptAnswers(), KeptAnswers()
            self.beside.clear()
        surroundings = self._state.surroundings
        if self._surroundings != surroundings:
            self._surroundings = surroundings
            self._pre_filter.renew()
            self._pre_score.renew()
        return self._pre_filter

    def _turn_to(self, shape: PodShape) -> None:
        """The next pod has other labels or claims, or names other nodes."""
        last, self._shape = self._shape, shape
        if last is None:
            return  # nobody has said anything yet
        readers = self._readers(last, shape)
        self._pre_filter.forget(readers)
        self._pre_score.forget(readers)
        if self.filters.forget_those_of(readers):
            self.beside.clear()
            self._turned = True
        if self.scores.forget_those_of(readers):
            self._due = None

    def _readers(self, last: PodShape, shape: PodShape) -> frozenset[str]:
        """The plugins that may say another thing of this shape than of the one before."""
        profile = self._profile
        readers: frozenset[str] = frozenset()
        if last.labels != shape.labels or last.annotations != shape.annotations:
            readers = profile.label_readers
        if last.spec is shape.spec:
            return readers
        if last.spec.volumes != shape.spec.volumes:
            readers |= profile.claim_readers
        return readers if last.spec.affinity == shape.spec.affinity else readers | profile.named_node_readers

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Bring `feasible` up to date, before `withhold`. PluginFailed if a plugin raises."""
        self._fit(len(self._state.rows))
        if self._follows(cycle, pod, skipped):
            return
        stale = self._stale(skipped)
        if stale is None and self._is_small:
            stale = list(range(self._size))
        if stale is None:
            self._filter_all(cycle, pod)
        elif isinstance(stale, list):
            for row in stale:
                self._now(row, self.filters.settle_row(cycle, pod, row))
        else:
            self.filters.settle(cycle, pod, stale)
            fits = self.filters.first[stale] == FITS
            if self._withheld:
                fits &= ~np.isin(stale, list(self._withheld))
            if np.count_nonzero(fits != self.feasible[stale]):
                self.feasible[stale] = fits
                self._recount()

    def withhold(self, rows: AbstractSet[int]) -> int:
        """Let some rows that fit not count, and those of the last time again; how many nodes are left."""
        if rows != self._withheld:
            turned, self._withheld = self._withheld ^ rows, frozenset(rows)
            for row in sorted(turned):
                self._now(row, self.fits(row))
        return self.fitting

    def fits(self, row: int) -> bool:
        """Whether the filters let the pod in, be the node promised to others or not."""
        return self.filters.first.item(row) == FITS

    def pre_score(self, cycle: Cycle, pod: Pod) -> None:
        """Run PreScore, before `refresh_scores`. PluginFailed if a plugin raises."""
        if self._refit:
            everyone = self.fitting == self._size and not self._is_small
            self._fitting_rows = slice(0, self._size) if everyone else np.flatnonzero(self.feasible)
        fitting, profile = self._fitting_rows, self._profile

        def table() -> NodeTable:
            return self._state.table(None if isinstance(fitting, slice) else fitting)

        asked = profile.evaluations.pre_score
        skipped = run_pre_score(profile.pre_score, cycle, pod, table, self._pre_score, asked)
        if self.scores.activate(skipped):
            self._due, self._refit = None, True

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> None:
        """Bring the totals of all feasible nodes up to date. PluginFailed if a plugin raises."""
        fitting = self._fitting_rows
        followed, self._followed = self._followed, None
        self.scores.forget(ATTEMPT, [])
        if followed is not None:
            nothing_else = self._due is not None and not len(self._due) and not self._refit
            if nothing_else and self.scores.follow(cycle, pod, followed, fitting):
                return
            if self.scores.forget(USAGE, followed):
                self._due = None
            self._also_due(followed)
        turned, self._turned_rows = self._turned_rows, _NO_ROWS
        if self._due is not None and len(turned):
            self._also_due(self.scores.turn(turned, self.feasible))
        everything = list(range(self._size)) if self._is_small else slice(0, self._size)
        due = everything if self._due is None else self._due
        self.scores.settle(cycle, pod, due, self.feasible, fitting, self._refit)
        self._due, self._refit = [], False

    def _follows(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> bool:
        """What is true of most attempts: pods have come or gone since, and where they did the pod fits as it did.

        Then nothing is to be forgotten and computed again; the rows in question are noted for scoring.
        """
        state = self._state
        if self._turned or state.node_log.mark != self._node_mark or not self.filters.leaves_out(skipped):
            return False
        if not self.filters.rest and not self.filters.unmoved(cycle):
            return False
        touched = state.usage_log.since(self._usage_mark)
        if touched is None or len(touched) > self._size:
            return False
        rows = self._known(touched)
        if self._withheld and not self._withheld.isdisjoint(rows):
            return False
        if self.fitting < self._size and not self.filters.fitted(rows):
            return False
        if not self.filters.still_fit(cycle, pod, rows):
            return False
        self._usage_mark = state.usage_log.mark
        if len(touched):
            self._followed = rows if self._followed is None else _both(self._followed, rows)
        return True

    def _filter_all(self, cycle: Cycle, pod: Pod) -> None:
        if self.filters.settle(cycle, pod, slice(0, self._size)):
            if self.fitting == self._size:
                return
            fits = np.ones(self._size, np.bool_)
        else:
            fits = self.filters.first[: self._size] == FITS
        fits[list(self._withheld)] = False
        flipped = np.flatnonzero(fits != self.feasible[: self._size])
        if len(flipped):
            self.feasible[: self._size] = fits
            self._recount()
            self._turn(flipped)

    def _turn(self, rows: Rows) -> None:
        """Rows fit that did not, or the other way round, and nothing else has happened to them."""
        if are_few(rows):
            self._also_due(rows.tolist())
            return
        self._turned_rows = np.concatenate((self._turned_rows, rows))
        if len(self._turned_rows) > self._size:
            self._turned_rows, self._due = _NO_ROWS, None

    def _now(self, row: int, fits: bool) -> None:
        fits = fits and row not in self._withheld
        if fits != self.feasible[row]:
            self.feasible[row] = fits
            self.fitting += 1 if fits else -1
            self._refit = True
            self._also_due([row])

    def _recount(self) -> None:
        self.fitting = int(np.count_nonzero(self.feasible))
        self._refit = True

    def _stale(self, skipped: frozenset[str]) -> Touched | None:
        """Forget what changes have made stale: the rows to be answered anew, None for all of them.

        They are also to be scored anew, together with those that a rejected attempt has left unscored.
        """
        state = self._state
        nodes, usage = state.node_log.since(self._node_mark), state.usage_log.since(self._usage_mark)
        first_time = self._node_mark < 0
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        others_asked = self.filters.activate(skipped)
        if others_asked:
            self.beside.clear()
        beyond, self._turned = others_asked or self._turned, False
        if first_time or nodes is None or usage is None or self.filters.crowded:
            self.filters.forget_all()
            self.scores.forget_all()
            self._due = None
            return None
        stale: Touched = []
        for change, touched in ((NODE, nodes), (USAGE, usage)):
            if len(touched):  # even if only by a row that is no more
                rows = self._known(touched)
                beyond |= self._forget(change, rows)
                stale = _both(stale, rows)
        beyond |= self.filters.forget(ATTEMPT, [])
        self._also_due(stale)
        return None if beyond else stale

    def _forget(self, change: Change, rows: Touched) -> bool:
        """Drop what the change makes stale; whether the filters are stale beyond those rows."""
        if self.scores.forget(change, rows):
            self._due = None
        return self.filters.forget(change, rows)

    def _also_due(self, rows: Touched) -> None:
        if self._due is not None:
            self._due = _both(self._due, rows)
            if len(self._due) > self._size:
                self._due = None

    def _known(self, touched: Rows) -> Touched:
        """Those of the rows that there still are."""
        if are_few(touched):
            rows = touched.tolist()
            return [row for row in (sorted(set(rows)) if len(rows) > 1 else rows) if row < self._size]
        beyond = touched[touched.argmax()] >= self._size
        return touched[touched < self._size] if beyond else touched

    def _fit(self, n: int) -> None:
        """Follow the number of nodes."""
        if n == self._size:
            return
        self._refit = True
        if n > len(self.feasible):
            self.feasible = grown(self.feasible, max(n, 2 * len(self.feasible)))
        elif n < self._size:
            self.feasible[n : self._size] = False
            self._withheld = frozenset(row for row in self._withheld if row < n)
            self._recount()
            self._followed, self._due = _below(n, self._followed), _below(n, self._due)
            self._turned_rows = self._turned_rows[self._turned_rows < n]
        self.filters.fit(n)
        self.scores.fit(n)
        self._size = n


def _below(n: int, rows: Touched | None) -> Touched | None:
    if rows is None or not isinstance(rows, list):
        return rows if rows is None else rows[rows < n]
    return [row for row in rows if row < n]


def _both(some: Touched, others: Touched) -> Touched:
    """Rows of either; a list only while they are few."""
    if not len(some) or not len(others):
        return others if not len(some) else some
    if isinstance(some, list) and isinstance(others, list):
        rows = sorted({*some, *others})
        if are_few(rows):
            return rows
        return np.array(rows, np.intp)
    return np.concatenate((np.asarray(some, np.intp), np.asarray(others, np.intp)))
