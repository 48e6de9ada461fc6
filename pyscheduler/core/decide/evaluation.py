"""What a profile thinks of every node for one pod shape, kept from attempt to attempt.

Pods of one shape follow each other by the thousand; between two of them only a row or two has changed. An Evaluation
reads the state's change logs, forgets just what those rows made stale, and has everything current again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.outcome import SKIP
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.filtering import FilterColumns, are_few
from pyscheduler.core.decide.prefilter import KeptAnswers
from pyscheduler.core.decide.scoring import INFEASIBLE, ScoreColumns
from pyscheduler.core.decide.staleness import Change
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.framework.profile import Profile, is_kept
from pyscheduler.core.state.cluster import ClusterState

Rows = NDArray[np.intp]


class Evaluation:
    """The kept answers of one profile for one shape. After an exception it must be thrown away."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self._pre_filter = KeptAnswers()
        self._pre_score = KeptAnswers()
        self.filters = FilterColumns(state, profile.filter)
        self.scores = ScoreColumns(state, profile.score)
        self.feasible: NDArray[np.bool_] = np.zeros(len(state), np.bool_)
        self._size = 0
        self._nodes_version = -1
        self._node_mark = -1
        self._usage_mark = -1
        self._unscored: set[int] | None = set()
        self._refit = False

    @property
    def bytes(self) -> int:
        """Memory of all columns."""
        return self.filters.bytes + self.scores.bytes + self.feasible.nbytes

    def begin(self) -> KeptAnswers:
        """The PreFilter answers that still hold; a changed node object voids what plugins said before any node."""
        if self._nodes_version != self._state.nodes_version:
            self._nodes_version = self._state.nodes_version
            self._pre_filter, self._pre_score = KeptAnswers(), KeptAnswers()
        return self._pre_filter

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: set[str]) -> int:
        """Bring `feasible` up to date; how many nodes fit. PluginFailed if a plugin raises."""
        self._fit(len(self._state))
        stale = self._stale(skipped)
        if stale is not None and are_few(stale):
            for row in stale:
                fits = self.filters.settle_row(cycle, pod, row)
                if fits != self.feasible[row]:
                    self.feasible[row] = fits
                    self._refit = True
        else:
            rows = self._rows(stale)
            self.filters.settle(cycle, pod, rows)
            fit = self.filters.first[rows] == 0
            self._refit |= bool((fit != self.feasible[rows]).any())
            self.feasible[rows] = fit
        return int(np.count_nonzero(self.feasible))

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> None:
        """Bring the totals of all feasible nodes up to date. PluginFailed if a plugin raises."""
        if self.scores.activate(self._run_pre_score(cycle, pod)):
            self._unscored, self._refit = None, True
        due, self._unscored = self._unscored, set()
        if due is not None and are_few(due):
            self.scores.settle_few(cycle, pod, due, self.feasible, self._refit)
        else:
            self.scores.settle(cycle, pod, self._rows(due), self.feasible, self._refit)
        self._refit = False

    def _stale(self, skipped: set[str]) -> set[int] | None:
        """Forget what changes have made stale: the rows to be answered anew, None for all of them.

        They are also to be scored anew, together with those that a rejected attempt has left unscored.
        """
        state = self._state
        nodes, usage = state.node_log.since(self._node_mark), state.usage_log.since(self._usage_mark)
        first_time = self._node_mark < 0
        self._node_mark, self._usage_mark = state.node_log.mark, state.usage_log.mark
        beyond = self.filters.activate(skipped)
        if first_time or nodes is None or usage is None or self.filters.crowded:
            self.filters.forget_all()
            self.scores.forget_all()
            self._unscored = None
            return None
        for change, touched in ((Change.NODE, nodes), (Change.USAGE, usage)):
            if touched:  # even if only by a row that is no more
                rows = {row for row in touched if row < self._size}
                beyond |= self.filters.forget(change, rows)
                beyond |= self.scores.forget(change, rows)
        beyond |= self.filters.forget(Change.ATTEMPT, ())
        beyond |= self.scores.forget(Change.ATTEMPT, ())
        stale = {row for row in nodes | usage if row < self._size}
        if beyond or self._unscored is None:
            self._unscored = None
            return None if beyond else stale
        self._unscored |= stale
        return stale

    def _rows(self, rows: set[int] | None) -> Rows | slice:
        # A slice spares copying every column once for each question.
        return slice(0, self._size) if rows is None else np.fromiter(sorted(rows), np.intp, len(rows))

    def _fit(self, n: int) -> None:
        """Follow the number of nodes."""
        if n > len(self.feasible):
            bigger = np.zeros(max(n, 2 * len(self.feasible)), np.bool_)
            bigger[: len(self.feasible)] = self.feasible
            self.feasible = bigger
            self.filters.fit(n)
            self.scores.fit(n)
        elif n < self._size:
            self._refit |= bool(self.feasible[n : self._size].any())
            self.feasible[n : self._size] = False
            self.scores.total[n : self._size] = INFEASIBLE
            if self._unscored is not None:
                self._unscored = {row for row in self._unscored if row < n}
        self._size = n

    def _run_pre_score(self, cycle: Cycle, pod: Pod) -> set[str]:
        """Ask the PreScore plugins, those whose answer is kept once; who is to be left out of scoring."""
        kept = self._pre_score
        skipped = set(kept.skipped)
        table = self._state.table(np.flatnonzero(self.feasible))
        for plugin in self._profile.pre_score:
            if plugin.name in kept.asked:
                if plugin.name in kept.states:
                    cycle.adopt(kept.states[plugin.name])
                continue
            before = cycle.state()
            try:
                answer = plugin.pre_score(cycle, pod, table)
            except Exception as error:
                raise PluginFailed(plugin.name, "PreScore", error) from error
            if answer is SKIP:
                skipped.add(plugin.name)
            if is_kept(plugin):
                kept.keep(plugin, cycle, before, answer is SKIP)
        return skipped
