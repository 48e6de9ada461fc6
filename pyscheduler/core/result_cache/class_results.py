"""Results of the plugins that are evaluated by class of equivalent nodes.

Such results change on many nodes as soon as any pod is added or removed. The plugins run on a table with one entry for
each class, again if their cache keys changed. `ClassTotals` combines what they reject and score with the rows' other
results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Ints, Mask, NodeTable
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import Rejection, Status
from pyscheduler.api.plugin import FilterPlugin, Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.api.topology import NodeEquivalence
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Profile, Weighted
from pyscheduler.core.framework.score_plugins import rescale, run_normalize, run_score_on_table
from pyscheduler.core.result_cache.class_totals import ClassTotals
from pyscheduler.core.result_cache.node_classes import NodeClasses, PluginEquivalences
from pyscheduler.core.result_cache.row_filters import run_filter_on_table
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, extremes, put


class ClassResults:
    """Filter and Score results by class of equivalent nodes, those of the last attempt."""

    def __init__(self, profile: Profile, state: ClusterState, classes: NodeClasses | None = None) -> None:
        self._profile = profile
        self._state = state
        self._classes = NodeClasses(state) if classes is None else classes
        self.active_filters: Sequence[FilterPlugin] = profile.class_filters
        """The plugins that PreFilter did not skip."""
        self._optional = frozenset(plugin.name for plugin in {*profile.class_filters} & {*profile.row_filters})
        """Names of the plugins that are evaluated by row in attempts without an equivalence."""
        self.filters: Sequence[FilterPlugin] = ()
        """The plugins that are evaluated by class in this attempt."""
        self.replaced_row_filters: frozenset[str] = frozenset()
        """Names of the plugins in `filters` that are evaluated by row in other attempts."""
        self.scores: Sequence[Weighted] = profile.class_scores
        """The plugins that PreScore did not skip."""
        self._filter_equivalences: PluginEquivalences = ()
        self.codes: Ints | None = None
        """By class, which may have no nodes: 0 if the pod fits, else one plus the index of the rejection.

        None if no class is rejected.
        """
        self._table: NodeTable | None = None
        """Class table of the codes."""
        self._last_filter_key: Hashable | None = None
        """Cache key of the codes; None if there is none."""
        self._last_score_key: Hashable | None = None
        """Cache key of `_sums`; None if there is none."""
        self.rejects_rows = False
        """True if some row is feasible but for its class, as of `count_feasible`."""
        self._rejections: list[tuple[str, Rejection]] = []
        self._sums: Scores = np.zeros(0, np.int64)
        """By class: the sum of the weighted scores, REJECTED where the pod does not fit."""
        self._totals = ClassTotals()

    def copy_without(self, plugins: frozenset[str]) -> ClassResults:
        """Return an instance without results for a group that all plugins but these sign alike.

        It has the same classes if that is so for the plugins that determine them.
        """
        profile = self._profile
        readers = [*profile.class_filters, *(each.plugin for each in profile.class_scores)]
        are_same = plugins.isdisjoint([plugin.name for plugin in readers])
        return ClassResults(profile, self._state, self._classes.copy() if are_same else None)

    @property
    def bytes(self) -> int:
        """Memory of the class numbers in bytes."""
        return self._classes.of.nbytes + self._totals.bytes

    def skip_scores(self, skipped: frozenset[str]) -> None:
        """Leave out the plugins that PreScore skipped."""
        self.scores = [weighted for weighted in self._profile.class_scores if weighted.plugin.name not in skipped]
        self._last_score_key = None

    # -- filter ------------------------------------------------------------------------------------------------------

    def skip_filters(self, skipped: frozenset[str]) -> None:
        """Leave out the plugins that PreFilter skipped."""
        self.active_filters = [plugin for plugin in self._profile.class_filters if plugin.name not in skipped]
        self._set_filters(())

    def select_filters(self, cycle: Cycle) -> None:
        """Select the filters to evaluate by class in this attempt.

        PluginFailed if the `filter_equivalence` of a plugin raises.
        """
        self.rejects_rows = False
        found = [(each, _equivalence(each, "Filter", each.filter_equivalence, cycle)) for each in self.active_filters]
        # If another one needs every node, results by class are not cached, but those by row are.
        needs_all = any(equivalence is None and each.name not in self._optional for each, equivalence in found)
        selected = [
            (each, equivalence)
            for each, equivalence in found
            if each.name not in self._optional or not (needs_all or equivalence is None)
        ]
        self._filter_equivalences, filters = selected, [each for each, _ in selected]
        if filters != self.filters:
            self._set_filters(filters)

    def _set_filters(self, filters: Sequence[FilterPlugin]) -> None:
        self.filters, self.codes, self._last_filter_key, self.rejects_rows = filters, None, None, False
        self.replaced_row_filters = self._optional.intersection([each.name for each in filters])

    def filter(self, cycle: Cycle, pod: Pod) -> None:
        """Run the Filter plugins on every class. PluginFailed if one raises."""
        self._classes.refresh(self._filter_equivalences, "Filter")
        key = self._filter_key(cycle)
        if key is None or key != self._last_filter_key or self._table is not self._classes.table:
            self._last_filter_key = None  # until all have run, in case one raises
            self._run_filters(cycle, pod)
            self._last_filter_key = key

    def _filter_key(self, cycle: Cycle) -> Hashable | None:
        """Return the cache key of the Filter results; None if the plugins have to run."""
        if self._classes.is_by_row:
            return None
        keys = _cache_keys("Filter", [(each, each.filter_cache_key) for each in self.filters], cycle)
        return None if keys is None else (*self._filter_equivalences, *keys)

    def _run_filters(self, cycle: Cycle, pod: Pod) -> None:
        classes, codes = self._classes, None
        self._table, self._rejections = classes.table, []
        for plugin in self.filters:
            self._profile.evaluations.filter[plugin.name].n += classes.size
            verdicts = run_filter_on_table(plugin, cycle, pod, classes.table)
            if not verdicts.rejections:
                continue
            more = verdicts.codes.astype(np.int64)
            if codes is None:
                codes = more
            else:  # the first plugin's rejection wins
                more[more > 0] += len(self._rejections)
                codes = np.where(codes > 0, codes, more)
            self._rejections += [(plugin.name, rejection) for rejection in verdicts.rejections]
        self.codes = codes if codes is not None and np.count_nonzero(codes) else None

    def count_feasible(self, rows: RowResults) -> int:
        """Return the number of feasible rows, those of rejected classes left out."""
        if self.codes is None:
            return rows.feasible_count
        self._totals.follow(self._classes, rows, self.codes)
        count = self._totals.feasible_count
        self.rejects_rows = count < rows.feasible_count
        return count

    def feasible_rows(self, rows: RowResults) -> Rows | slice:
        """Return the feasible rows, those of rejected classes left out; the same object until others are."""
        return self._totals.feasible_rows(self._classes, rows) if self.rejects_rows else rows.fitting_rows

    def fits(self, row: int) -> bool:
        """Return True if the pod fits the class of the row."""
        return self.codes is None or not self.codes.item(self._classes.of.item(row))

    def fitting(self) -> Mask | None:
        """Return the mask of the rows with classes that the pod fits; None if it fits all."""
        return None if self.codes is None else (self.codes == 0).take(self._classes.of)

    def status(self, row: int) -> Status | None:
        """Return the status of the row's class; None if the pod fits."""
        code = 0 if self.codes is None else self.codes.item(self._classes.of.item(row))
        return Status.of(*self._rejections[code - 1]) if code else None

    def statuses(self) -> tuple[list[Status], Ints] | None:
        """Return the statuses of rejected classes, and for each row the index of its status, -1 where the pod fits.

        None if the pod fits all classes.
        """
        if self.codes is None:
            return None
        return [Status.of(*each) for each in self._rejections], self.codes.take(self._classes.of) - 1

    # -- score -------------------------------------------------------------------------------------------------------

    def score(self, cycle: Cycle, pod: Pod, rows: RowResults) -> None:
        """Run the Score plugins on the classes with feasible rows and add their scores to the totals of the rows.

        PluginFailed if a plugin raises.
        """
        classes, totals = self._classes, self._totals
        equivalences = [
            (each.plugin, _equivalence(each.plugin, "Score", each.plugin.score_equivalence, cycle))
            for each in self.scores
        ]
        if equivalences:
            classes.refresh([*self._filter_equivalences, *equivalences] if self.filters else equivalences, "Score")
            if self.filters and self._table is not classes.table:
                self._run_filters(cycle, pod)
        totals.follow(classes, rows, self.codes)
        sums = self._run_scores(cycle, pod, equivalences) if equivalences else totals.rejected_sums
        totals.refresh(classes, rows, sums)

    def _run_scores(self, cycle: Cycle, pod: Pod, equivalences: PluginEquivalences) -> Ints:
        """Return the sum of the weighted scores of each class, REJECTED where the pod does not fit."""
        scored = self._totals.scored
        key = self._score_key(cycle, scored, equivalences)
        if key is None or key != self._last_score_key:
            self._last_score_key = None  # until all have run, in case one raises
            sums = self._totals.rejected_sums.copy()
            final = [self._final_scores(each, cycle, pod, scored) * each.weight for each in self.scores]
            put(sums, scored, sum(final[1:], final[0]))
            self._sums = sums
            self._last_score_key = key
        return self._sums

    def _score_key(self, cycle: Cycle, scored: Rows, equivalences: PluginEquivalences) -> Hashable | None:
        """Return the cache key of the scores; None if the plugins have to run."""
        classes = self._classes
        if classes.is_by_row:
            return None
        keys = _cache_keys("Score", [(each.plugin, each.plugin.score_cache_key) for each in self.scores], cycle)
        # The table is compared by identity.
        return None if keys is None else (classes.table, scored.tobytes(), *equivalences, *keys)

    def _final_scores(self, weighted: Weighted, cycle: Cycle, pod: Pod, scored: Rows) -> Scores:
        """Return the normalised scores of the scored classes."""
        plugin, table = weighted.plugin, self._classes.table
        self._profile.evaluations.score[plugin.name].n += len(table)
        raw, normalizer = run_score_on_table(plugin, cycle, pod, table).take(scored), plugin.normalizer
        if normalizer is not None and cycle.call_observer is None:
            span = call_guarded(plugin.name, "NormalizeScore", normalizer.span_between, *extremes(raw, None))
            if span is not None:
                return rescale(plugin, normalizer, raw, span)
        return run_normalize(plugin, cycle, pod, raw)

    def pick(self, random_bits: Callable[[], int]) -> int:
        """Return one of the best rows: element `random_bits()` modulo their number, in row order."""
        return self._totals.pick(random_bits)

    @property
    def totals(self) -> Scores:
        """The sums of all scores by row, negative where a row is not feasible."""
        return self._totals.by_row


def _cache_keys(
    point: str, methods: Sequence[tuple[Plugin, Callable[[Cycle], Hashable | None]]], cycle: Cycle
) -> list[Hashable] | None:
    """Return the cache keys of the plugins, None if one has none. PluginFailed if one raises or cannot be hashed."""
    keys = []
    for plugin, method in methods:
        try:
            key = method(cycle)
            hash(key)
        except BaseException as error:
            raise_plugin_failed(plugin.name, point, error)
        if key is None:
            return None
        keys.append(key)
    return keys


def _equivalence(
    plugin: Plugin, point: str, method: Callable[[Cycle], NodeEquivalence | None], cycle: Cycle
) -> NodeEquivalence | None:
    """Return which nodes get equal results. PluginFailed if the plugin raises or returns anything else."""
    try:
        equivalence = method(cycle)
        if equivalence is not None and not isinstance(equivalence, NodeEquivalence):
            raise InvalidReturnValue(method, equivalence, "NodeEquivalence or None")
        return equivalence
    except BaseException as error:
        raise_plugin_failed(plugin.name, point, error)
