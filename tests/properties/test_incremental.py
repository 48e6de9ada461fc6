"""Cached results equal those of an evaluation without caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, Domains, NodeEquivalence, Pod, Reads
from pyscheduler.core.framework import profile
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache import invalidation, node_classes, row_scores
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.invalidation import Change, Scope
from pyscheduler.core.result_cache.node_classes import NodeClasses, NodeClassTable
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.result_cache.row_filters import RowFilter, RowFilters
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.row_scores import RowScores, TopScores
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.core.scheduling import filtered_nodes
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.topologies import Topologies
from pyscheduler.intree import InterPodAffinity, NodeResourcesFit, PodTopologySpread
from tests.properties.evaluation_model import KINDS, EvaluationWorld
from tests.properties.probe_plugins import (
    IN_TREE,
    LEVELS,
    Class,
    External,
    NameReader,
    OddDays,
    PodLimit,
    TeamCpu,
    TeamFilter,
    TeamPreference,
    TeamRank,
    TeamScore,
    TeamShare,
    ZoneLimit,
    ZoneOfDay,
)
from tests.properties.profiles import assert_caught, quick
from tests.properties.state_steps import ALL_STEPS, Step, a_step, scripts, steps

Story = tuple[list[Step], list[list[Step]]]
Plant = Callable[[pytest.MonkeyPatch], None]


RARE = ("mark", "mark", "drop_last", "drop_last", "change_external", "trial", "nominate", "denominate")
ATTEMPTS = st.lists(a_step("attempt"), min_size=1, max_size=3)
FLEET: list[Step] = [("many", 0, 0, 0), *(("place", i, KINDS[i % 3], i % 5) for i in range(8))]


def stories(*what: str) -> st.SearchStrategy[Story]:
    """Generate stories with changes of these kinds."""
    rounds = st.tuples(steps(*what, longest=3), ATTEMPTS).map(lambda both: both[0] + both[1])
    return st.tuples(st.sampled_from([FLEET, FLEET, []]), scripts(rounds, longest=16))


STORIES = stories(*ALL_STEPS, *RARE)
"""Few changes between attempts, so that one change cannot hide that another was missed."""


def _two_kinds(drawn: tuple[Story, int]) -> Story:
    (fleet, rounds), kind = drawn
    return _limit_kinds(fleet, kind), [_limit_kinds(steps, kind) for steps in rounds]


def _limit_kinds(steps: list[Step], kind: int) -> list[Step]:
    pods = ("attempt", "place", "replace", "nominate")
    return [(what, number, kind + k % 2 if what in pods else k, where) for what, number, k, where in steps]


def _of_two_kinds(some: st.SearchStrategy[Story]) -> st.SearchStrategy[Story]:
    return st.tuples(some, st.integers(0, 47)).map(_two_kinds)


TWO_KINDS = _of_two_kinds(stories("place", "remove", "mark"))
"""Pods of two kinds only, so that most follow one of the same signature and little changed in between."""


def _with_nominated_pods(story: Story) -> Story:
    return [*FLEET, *(("nominate", i, 0, i) for i in range(3))], story[1]


NOMINATED = _of_two_kinds(stories("place", "remove", "mark", "nominate")).map(_with_nominated_pods)
"""Three nodes with nominated pods from the beginning."""
DAYS = stories("change_external")
"""Only the external value changes, which decides if nodes are filtered by class or by row, and which zones are open."""
WITH_OBJECTS = stories(*ALL_STEPS, *RARE, "object", "object")
BY_CLASS: tuple[Class, ...] = (NodeResourcesFit, PodTopologySpread, InterPodAffinity)
"""Plugins without normalized scores by row: the rows of rejected classes keep their totals."""
NORMALIZED: tuple[Class, ...] = (*BY_CLASS, PodLimit)
"""With normalized scores by row, which are those of the feasible nodes only."""
BY_CLASS_OR_ROW: tuple[Class, ...] = (NodeResourcesFit, ZoneOfDay, PodTopologySpread, InterPodAffinity)
"""With a plugin that is evaluated by class in some attempts only."""
PROFILES = {
    "all levels": LEVELS,
    "by class or row": BY_CLASS_OR_ROW,
    "by class": BY_CLASS,
    "by class and normalized": NORMALIZED,
    **{cls.name: (cls,) for cls in LEVELS},
}


def property_for(classes: tuple[Class, ...], outcomes: Counter[str] | None = None) -> Callable[[Story], None]:
    """Return the property for these plugins; their results are counted in `outcomes`."""

    def check(story: Story) -> None:
        world = EvaluationWorld(classes)
        run(world, story)
        if outcomes is not None:
            outcomes.update(world.outcomes)

    return check


def run(world: EvaluationWorld, story: Story) -> None:
    fleet, rounds = story
    for step in (*fleet, *chain.from_iterable(rounds)):
        world.do(step)


MIN_OUTCOMES = 10
REJECTING = """
    DynamicResources InterPodAffinity NodeAffinity NodeDeclaredFeatures NodePorts NodeResourcesFit NodeUnschedulable
    NodeVolumeLimits PodTopologySpread TaintToleration VolumeBinding VolumeRestrictions VolumeZone
"""
SCORING = """
    ImageLocality InterPodAffinity NodeAffinity NodeResourcesBalancedAllocation NodeResourcesFit PodTopologySpread
    TaintToleration
"""
"""Plugins that must reject and score differently often enough in the stories to be tested by them."""


def test_in_tree_results_equal_uncached_ones_and_every_plugin_matters() -> None:
    outcomes: Counter[str] = Counter()
    quick(100)(given(WITH_OBJECTS)(property_for(IN_TREE, outcomes)))()
    expected = [f"no {plugin}" for plugin in REJECTING.split()] + [f"score {plugin}" for plugin in SCORING.split()]
    assert not {what: outcomes[what] for what in expected if outcomes[what] < MIN_OUTCOMES}


@pytest.mark.parametrize("classes", PROFILES.values(), ids=PROFILES)
def test_cached_results_equal_uncached_ones(classes: tuple[Class, ...]) -> None:
    quick(40)(given(STORIES)(property_for(classes)))()


def test_cached_results_equal_uncached_ones_for_recurring_signatures() -> None:
    quick(100)(given(TWO_KINDS)(property_for(IN_TREE)))()


def test_cached_results_equal_uncached_ones_with_nominated_pods() -> None:
    quick(60)(given(NOMINATED)(property_for((NodeResourcesFit, PodLimit))))()


def test_cached_results_equal_uncached_ones_if_every_node_is_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_classes, "MAX_CLASSES", 0)
    quick(60)(given(STORIES)(property_for(IN_TREE)))()


# -- planted bugs --------------------------------------------------------------------------------------------------


def _scope(change: Change, reads: Reads, planted: Scope) -> Plant:
    """Plant a wrong entry in the table of invalidation scopes."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(invalidation._SCOPES[change], reads, planted)
        patch.setattr(invalidation, "_scopes", invalidation._scopes.__wrapped__)

    return plant


def _ignore_reads_identity(patch: pytest.MonkeyPatch) -> None:
    scopes = invalidation._scopes.__wrapped__
    patch.setattr(invalidation, "_scopes", lambda reads, _: scopes(reads, False))


def _never_renew_span(patch: pytest.MonkeyPatch) -> None:
    renormalize: Any = ScoreColumn.renormalize

    def once(self: ScoreColumn, *rest: Any) -> bool:
        if self._span is None:
            return bool(renormalize(self, *rest))
        return False

    patch.setattr(ScoreColumn, "renormalize", once)


def _keep_infeasible_in_normalization(patch: pytest.MonkeyPatch) -> None:
    refresh: Any = RowScores.refresh
    patch.setattr(RowScores, "refresh", lambda self, *rest: refresh(self, *rest[:-1], False))


def _run_pre_filter_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EquivalenceCache, "begin", lambda self, *_: self._pre_filter)


def _keep_pre_filter_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TeamShare, "pre_reads_nodes", False)


def _ignore_cache_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumn, "check_key", lambda self, _: self.all_stale)


def _ignore_changed_raw_scores(patch: pytest.MonkeyPatch) -> None:
    score_rows = ScoreColumn.score_rows
    patch.setattr(ScoreColumn, "score_rows", lambda *args: score_rows(*args) and False)


def _ignore_filter_cache_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowFilters, "_basis", lambda *_: 0)


def _cache_pre_filter_of_keyed_plugins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(profile, "is_keyed", lambda _: False)


def _leave_out_row_filters(patch: pytest.MonkeyPatch) -> None:
    left_out = property(lambda self: self._optional, lambda *_: None)
    patch.setattr(ClassResults, "replaced_row_filters", left_out, raising=False)


def _keep_codes_of_other_filters(patch: pytest.MonkeyPatch) -> None:
    use = ClassResults._set_filters

    def keep(self: ClassResults, filters: Sequence[Any]) -> None:
        codes = self.codes
        use(self, filters)
        self.codes = codes

    patch.setattr(ClassResults, "_set_filters", keep)


def _match_no_requirement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClassTable, "matches_requirement", lambda self, _: np.zeros(len(self), np.bool_))


def _keep_topologies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topologies, "drop_changed", lambda *_: None)


def _keep_axes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_update_nodes", lambda self: len(self.of) == len(self._state))


def _keep_rows_after(planted: Change) -> Plant:
    refresh_row = RowFilters.refresh_row

    def refresh(self: RowFilters, cycle: Cycle, pod: Pod, row: int, readers: Sequence[RowFilter]) -> bool:
        change = Change.USAGE if readers is self._usage_readers else Change.NODE
        return self.fits(row) if change is planted else refresh_row(self, cycle, pod, row, readers)

    return lambda patch: patch.setattr(RowFilters, "refresh_row", refresh)


def _ignore_removal_of_last_row(patch: pytest.MonkeyPatch) -> None:
    remove_node = ClusterState.remove_node

    def remove(self: ClusterState, name: str) -> Any:
        before = remove_node(self, name)
        log = self.node_log
        if before is not None and log._rows[log.mark - log._base - 1] == len(self.rows):
            log.mark -= 1
        return before

    patch.setattr(ClusterState, "remove_node", remove)


def _count_terminating_pods(patch: pytest.MonkeyPatch) -> None:
    def replace(self: ClusterState, pod: Pod) -> None:
        node = self._node_of[pod.uid]
        if node.pods[pod.uid].signature is pod.signature:
            node.pods[pod.uid] = pod
        else:
            self.place(pod, node.name)

    patch.setattr(ClusterState, "replace", replace)


def _ignore_changed_skips(patch: pytest.MonkeyPatch) -> None:
    activate = RowScores.activate
    patch.setattr(RowScores, "activate", lambda self, skipped: self.skipped is None and activate(self, skipped))


def _keep_skips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate_readers", lambda *_: None)


def _ignore_labels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Profile, "readers_of_difference", lambda *_: frozenset())


def _ignore_labels_in(part: type[Any]) -> Plant:
    return lambda patch: patch.setattr(part, "invalidate_plugins", lambda *_: False)


def _ignore_labels_in_pre_filter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate", lambda *_: None)


def _keep_scores_of_infeasible_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_scores, "_unscored", lambda *_: [])


def _keep_classes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_update_counts", lambda *_: True)


def _ignore_changed_equivalence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeClasses, "_covers", lambda self, *_: bool(self._equivalences))


def _number_by_the_first_axis(patch: pytest.MonkeyPatch) -> None:
    add_axes = NodeClasses._add_axes
    patch.setattr(NodeClasses, "_add_axes", lambda self, *rest: add_axes(self, *rest)[:1])


def _score_rejected_classes(patch: pytest.MonkeyPatch) -> None:
    score = ClassResults.score

    def of_all(self: ClassResults, *rest: Any) -> None:
        codes, self.codes = self.codes, None
        score(self, *rest)
        self.codes = codes

    patch.setattr(ClassResults, "score", of_all)


def _normalize_with_rejected_classes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowScores, "depend_on_feasibility", False)


def _keep_excluded_rows(patch: pytest.MonkeyPatch) -> None:
    exclude = RowResults.exclude
    patch.setattr(RowResults, "exclude", lambda self, rows: exclude(self, self.excluded if rows is None else rows))


def _report_last_rejection(patch: pytest.MonkeyPatch) -> None:
    places = {plugin.name: -i for i, plugin in enumerate(IN_TREE)}
    patch.setattr(Profile, "filter_places", places)


def _ignore_topologies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeEquivalence, "topologies", ())


def skip_top_score_updates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopScores, "update", lambda *_: None)


def _take_domains_for_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Domains, "is_one_per_node", True)


def _forget_changed_nodes(patch: pytest.MonkeyPatch) -> None:
    evaluate: Any = filtered_nodes._rejected_by_nodes
    patch.setattr(
        filtered_nodes, "_rejected_by_nodes", lambda *args: {} if isinstance(args[4], list) else evaluate(*args)
    )


def _ignore_nominations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nominator, "all_competing_pods_version", lambda *_: 0)


@pytest.mark.parametrize("plant", [_forget_changed_nodes, _ignore_nominations])
def test_property_catches_stale_results_with_nominated_pods(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for((NodeResourcesFit, PodLimit)), NOMINATED, AssertionError)


@pytest.mark.parametrize(
    ("plant", "plugin"),
    [
        (_ignore_labels, TeamFilter),
        (_ignore_labels_in(RowFilters), TeamFilter),
        (_ignore_labels_in(RowScores), TeamFilter),
        (_ignore_labels_in(RowScores), TeamPreference),
        (_ignore_labels_in_pre_filter, TeamCpu),
        (_scope(Change.USAGE, Reads.DOMAINS, Scope.ROWS), ZoneLimit),
        (_scope(Change.USAGE, Reads.OWN_NODE_AND_PODS, Scope.NOWHERE), PodLimit),
        (_scope(Change.NODE, Reads.ALL_NODES, Scope.ROWS), TeamShare),
        (_scope(Change.NODE, Reads.OWN_NODE, Scope.NOWHERE), TeamCpu),
        (_ignore_reads_identity, NameReader),
        (_never_renew_span, PodLimit),
        (_keep_scores_of_infeasible_rows, PodLimit),
        (_keep_infeasible_in_normalization, PodLimit),
        (_run_pre_filter_once, TeamShare),
        (_keep_pre_filter_results, TeamShare),
        (_ignore_cache_key, TeamRank),
        (_ignore_filter_cache_key, OddDays),
        (_cache_pre_filter_of_keyed_plugins, OddDays),
        (_ignore_changed_raw_scores, TeamCpu),
        (_keep_rows_after(Change.NODE), TeamCpu),
        (_keep_topologies, PodTopologySpread),
        (_keep_axes, TeamScore),
        (_ignore_removal_of_last_row, TeamShare),
        (_count_terminating_pods, PodLimit),
        (_ignore_changed_skips, External),
        (_keep_skips, InterPodAffinity),
        (_keep_classes, TeamScore),
        (_ignore_changed_equivalence, TeamScore),
        (_number_by_the_first_axis, TeamScore),
        (_ignore_topologies, TeamScore),
        (skip_top_score_updates, PodLimit),
    ],
)
def test_property_catches_stale_results(plant: Plant, plugin: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for((plugin,)), STORIES, AssertionError, PluginFailed)


@pytest.mark.parametrize(
    ("plant", "classes"),
    [
        (_keep_rows_after(Change.USAGE), IN_TREE),
        (_ignore_labels, IN_TREE),
        (_keep_classes, IN_TREE),
        (_ignore_topologies, IN_TREE),
        (_take_domains_for_nodes, IN_TREE),
        (_score_rejected_classes, BY_CLASS),
        (_report_last_rejection, IN_TREE),
    ],
)
def test_property_catches_wrong_shortcuts(
    plant: Plant, classes: tuple[Class, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(property_for(classes), TWO_KINDS, AssertionError, PluginFailed, ValueError)


@pytest.mark.parametrize(
    "plant",
    [_ignore_filter_cache_key, _leave_out_row_filters, _keep_codes_of_other_filters, _match_no_requirement],
)
def test_property_catches_results_of_other_days(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for((ZoneOfDay,)), DAYS, AssertionError)


@pytest.mark.parametrize("plant", [_normalize_with_rejected_classes, _keep_excluded_rows])
def test_property_catches_wrongly_excluded_rows(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for(NORMALIZED), STORIES, AssertionError, PluginFailed)
