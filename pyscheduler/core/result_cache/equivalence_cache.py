"""Plugin results of one profile for the pods of one signature group, kept between attempts.

PreFilter and PreScore results belong to the group. Results by row are shared with all groups that the plugins evaluated
by row sign alike (`RowResults`); results by class of equivalent nodes are the cache's own (`ClassResults`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.top_scores import TopScores
from pyscheduler.core.state.cluster import ClusterState


class EquivalenceCache:
    """Cached results of one profile for the signatures of one group. After any exception drop it and reset `rows`."""

    def __init__(self, profile: Profile, state: ClusterState, rows: RowResults) -> None:
        """Create a cache without results but those in `rows`, which it may share with others."""
        self._profile = profile
        self._signature: PodSignature | None = None
        self._state = state
        self._pre_filter, self._pre_score = PluginResultCache(), PluginResultCache()
        self.rows = rows
        self._classes = ClassResults(profile, state)
        self._skipped_filters, self._skipped_scores = frozenset[str](), frozenset[str]()
        """Plugins that PreFilter and PreScore skipped."""
        self._excluded: Mask | None = None
        """Rows that pass all filters but are not feasible, because nominated pods need the space."""
        self.best: TopScores | ClassResults = self.rows.scores.top_scores
        """The feasible rows with the best total, after `refresh_scores`."""
        self._are_rejected_excluded = False
        """True if `rows` excludes the rows of rejected classes too."""
        self.with_nominated_pods: dict[str, tuple[Hashable, Status | None]] = {}
        """Filter status of nodes with their nominated pods added, with the versions it depends on; by node name."""
        self._are_all_filtered = False
        """True if the current attempt has filtered all nodes."""
        self._nodes_version = state.nodes_version
        self._objects_version = state.objects_version
        self._templates_version = state.placed.templates_version

    def copy_without(self, plugins: frozenset[str], rows: RowResults) -> EquivalenceCache:
        """Return a cache for a group that all plugins but these sign alike, with the results that hold for it too."""
        twin = EquivalenceCache(self._profile, self._state, rows)
        twin._signature = self._signature
        twin._pre_filter, twin._pre_score = (
            self._pre_filter.copy_without(plugins),
            self._pre_score.copy_without(plugins),
        )
        twin._nodes_version, twin._objects_version = self._nodes_version, self._objects_version
        twin._templates_version = self._templates_version
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the results in bytes, without those by row."""
        return self._classes.bytes

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
        if not pre_filters <= self._pre_filter.skips(group):
            return True
        return not plugins.isdisjoint(self._profile.filter_places.keys() - self._skipped_filters)

    # -- PreFilter -----------------------------------------------------------------------------------------------------

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
        last, self._signature = self._signature, signature
        if last is None:
            return  # no results yet
        readers = self._profile.readers_of_difference(last, signature)
        if readers:
            self._pre_filter.invalidate(readers)
            self._pre_score.invalidate(readers)
        self.with_nominated_pods.clear()

    # -- Filter --------------------------------------------------------------------------------------------------------

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update the results of all nodes; call it before `exclude_rows`. PluginFailed if a plugin raises."""
        if skipped is not self._skipped_filters:
            if skipped != self._skipped_filters:
                self.with_nominated_pods.clear()
                self._classes.skip_filters(skipped)
            self._skipped_filters = skipped
        self.rows.refresh_filters(cycle, pod, skipped)
        if self._classes.filters:
            self._classes.filter(cycle, pod)
        self._are_all_filtered = True

    def exclude_rows(self, rows: Collection[int]) -> int:
        """Let rows count as infeasible although they pass all filters. Return the number of feasible rows."""
        by_row, classes = self.rows, self._classes
        if not rows and classes.codes is None and by_row.excluded is None:
            return by_row.feasible_count
        self._excluded = None
        if rows:
            self._excluded = np.zeros(len(self._state), np.bool_)
            self._excluded[[*rows]] = True
        self._are_rejected_excluded = classes.codes is not None and by_row.scores.depend_on_feasibility
        self._exclude()
        return by_row.feasible_count if self._are_rejected_excluded else classes.count_feasible(by_row)

    def _exclude(self) -> None:
        """Exclude rows from the results by row; those of rejected classes if scores are normalised without them."""
        excluded = self._excluded
        fitting = self._classes.fitting() if self._are_rejected_excluded else None
        if fitting is not None:
            excluded = ~fitting if excluded is None else excluded | ~fitting
        self.rows.exclude(excluded)

    @property
    def feasible(self) -> Mask:
        """Mask of the feasible rows."""
        feasible, fitting = self.rows.feasible[: len(self._state)], self._classes.fitting()
        return feasible if fitting is None else feasible & fitting

    @property
    def is_stable(self) -> bool:
        """True if Filter results change only in rows where something happened."""
        return self.rows.filters.is_stable and not self._classes.filters

    def fits(self, row: int) -> bool:
        """Return True if all filters pass, also where the row is excluded."""
        return self.rows.filters.fits(row) and self._classes.fits(row)

    def status(self, row: int) -> Status | None:
        """Return the Filter status of a row, of the first plugin that rejects it; None if the pod fits."""
        by_row, by_class = self.rows.filters.status(row), self._classes.status(row)
        if by_row is None or by_class is None:
            return by_row or by_class
        places = self._profile.filter_places
        return by_row if places[by_row.plugin] < places[by_class.plugin] else by_class

    def statuses(self) -> tuple[list[Status], NDArray[np.integer]]:
        """Return all Filter statuses and for each row the index of its status; the first is that of feasible rows."""
        statuses, rows = self.rows.filters.statuses, self.rows.filters.first[: len(self._state)]
        by_class = self._classes.statuses()
        if by_class is None:
            return statuses, rows
        more, of_class = by_class
        places = self._profile.filter_places
        # A plugin before or after all others stands for none.
        row_places = np.array([len(places), *(places[each.plugin] for each in statuses[1:])]).take(rows)
        class_places = np.array([*(places[each.plugin] for each in more), len(places) + 1]).take(of_class)
        return [*statuses, *more], np.where(row_places < class_places, rows, of_class + len(statuses))

    def tally(self) -> Counter[Status]:
        """Return the number of nodes per Filter status."""
        if self._classes.codes is None:
            return self.rows.filters.tally(len(self._state))
        tally = Counter[Status]()
        statuses, indexes = self.statuses()
        for status, count in zip(statuses, np.bincount(indexes, minlength=len(statuses)).tolist(), strict=True):
            if count and status.code is not Code.SUCCESS:
                tally[status] += count
        return tally

    # -- PreScore and Score --------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod) -> None:
        """Run PreScore; call it before `refresh_scores`. PluginFailed if a plugin raises."""
        results = self._pre_score
        skipped = results.replay(cycle) if results.outcome is not None else self._run_pre_score(cycle, pod)
        if skipped is not self._skipped_scores:
            if skipped != self._skipped_scores:
                self._classes.skip_scores(skipped)
            self._skipped_scores = skipped

    def _run_pre_score(self, cycle: Cycle, pod: Pod) -> frozenset[str]:
        profile = self._profile
        return run_pre_score(
            profile.pre_score, cycle, pod, self.feasible_table, self._pre_score, profile.evaluations.pre_score
        )

    def feasible_table(self) -> NodeTable:
        """Return the feasible nodes."""
        rows = self._classes.feasible_rows(self.rows)
        return self._state.table(None if isinstance(rows, slice) else rows)

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> None:
        """Update the totals of all feasible nodes. PluginFailed if a plugin raises."""
        rows, classes = self.rows, self._classes
        rows.refresh_scores(cycle, pod, self._skipped_scores)
        if classes.rejects_rows and not self._are_rejected_excluded and rows.scores.depend_on_feasibility:
            self._are_rejected_excluded = True
            self._exclude()
            rows.refresh_scores(cycle, pod, self._skipped_scores)
        self.best = rows.scores.top_scores
        if classes.rejects_rows or classes.scores:
            classes.score(cycle, pod, rows)
            self.best = classes

    @property
    def totals(self) -> Scores:
        """Sum of all weighted scores by row, negative where the row is not feasible."""
        if self.best is self._classes:
            return self._classes.totals
        return self.rows.scores.total[: len(self._state)]
