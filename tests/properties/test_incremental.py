"""Cached results equal those of an evaluation without caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, DomainFlags, Domains, NodeEquivalence, Pod, Reads, topology
from pyscheduler.core.framework import profile
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.result_cache import filter_columns, invalidation
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.filter_columns import NO_ROWS, FilterColumn, FilterColumns
from pyscheduler.core.result_cache.invalidation import Change, DirtyRows, Scope
from pyscheduler.core.result_cache.node_equivalence import NodeEquivalenceClasses, _Axis
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.result_cache.pod_dependent_scores import PodDependentScores
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.core.result_cache.score_columns import INFEASIBLE, ScoreColumns
from pyscheduler.core.result_cache.top_scores import TopScores
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.columns import CategoricalColumn
from pyscheduler.intree import InterPodAffinity
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


TWO_KINDS = st.tuples(stories("place", "remove", "mark"), st.integers(0, 47)).map(_two_kinds)
"""Pods of two kinds only, so that most follow one of the same signature and little changed in between."""
WITH_OBJECTS = stories(*ALL_STEPS, *RARE, "object", "object")
PROFILES = {"all levels": LEVELS, **{cls.name: (cls,) for cls in LEVELS}}


def property_for(classes: tuple[Class, ...], outcomes: Counter[str] | None = None) -> Callable[[Story], None]:
    """Return the property for these plugins; their results are counted in `outcomes`."""

    def check(story: Story) -> None:
        fleet, rounds = story
        world = EvaluationWorld(classes)
        for step in (*fleet, *chain.from_iterable(rounds)):
            world.do(step)
        if outcomes is not None:
            outcomes.update(world.outcomes)

    return check


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


def test_cached_results_equal_uncached_ones_if_only_nodes_of_changed_domains_are_filtered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _filter_changed_domains(monkeypatch)
    quick(60)(given(STORIES)(property_for(IN_TREE)))()
    quick(60)(given(TWO_KINDS)(property_for(IN_TREE)))()


def _filter_changed_domains(patch: pytest.MonkeyPatch) -> None:
    """Evaluate only nodes of changed domains again, however many they are: in a small cluster a domain is large."""
    patch.setattr(topology, "_MANY", 0)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _scope(change: Change, reads: Reads, planted: Scope) -> Plant:
    """Plant a wrong entry in the table of invalidation scopes."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(invalidation._SCOPES[change], reads, planted)
        patch.setattr(invalidation, "_scopes", invalidation._scopes.__wrapped__)

    return plant


def _ignore_reads_identity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumn, "__init__", _without_identity(ScoreColumn.__init__))
    patch.setattr(FilterColumn, "__init__", _without_identity(FilterColumn.__init__))


def _without_identity(init: Any) -> Any:
    def blind(self: Any, *rest: Any) -> None:
        init(self, *rest)
        self.reach = (*self.reach[: Change.ATTEMPT], Scope.NOWHERE)
        self.is_volatile = self.reach[Change.USAGE] is Scope.EVERYWHERE

    return blind


def _never_renew_span(patch: pytest.MonkeyPatch) -> None:
    renormalize: Any = ScoreColumn.renormalize

    def once(self: ScoreColumn, *rest: Any) -> bool:
        if self.span is None:
            return bool(renormalize(self, *rest))
        self._weighted_by_raw = None
        return False

    patch.setattr(ScoreColumn, "renormalize", once)


def _keep_infeasible_in_normalization(patch: pytest.MonkeyPatch) -> None:
    refresh: Any = ScoreColumns.refresh
    patch.setattr(ScoreColumns, "refresh", lambda self, *rest: refresh(self, *rest[:-1], False))


def _run_pre_filter_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EquivalenceCache, "begin", lambda self, *_: self._pre_filter)


def _keep_pre_filter_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TeamShare, "pre_reads_nodes", False)


def _ignore_cache_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumn, "_is_cache_key_unchanged", lambda *_: True)


def _ignore_changed_raw_scores(patch: pytest.MonkeyPatch) -> None:
    score_few = ScoreColumn._score_few
    patch.setattr(ScoreColumn, "_score_few", lambda *args: score_few(*args) and False)


def _ignore_filter_cache_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filter_columns, "_changed_rows", lambda *_: NO_ROWS)


def _cache_pre_filter_of_keyed_plugins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(profile, "is_keyed", lambda _: False)


def _keep_topologies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CategoricalColumn, "version", property(lambda _: 0, lambda *_: None), raising=False)


def _keep_axes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Axis, "has_same_ids", lambda *_: True)


def _accept_every_changed_node(patch: pytest.MonkeyPatch) -> None:
    still_fits = FilterColumns.still_fits

    def accept(self: FilterColumns, cycle: Cycle, pod: Pod, rows: DirtyRows, change: Change) -> bool:
        return change is Change.NODE or still_fits(self, cycle, pod, rows, change)

    patch.setattr(FilterColumns, "still_fits", accept)


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
    activate = ScoreColumns.activate
    patch.setattr(ScoreColumns, "activate", lambda self, skipped: self.skipped is None and activate(self, skipped))


def _keep_feasible_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FilterColumns, "still_fits", lambda self, cycle, pod, rows, change: (self.first[rows] == 0).all())


def _keep_skips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate_skips", lambda *_: None)


def _ignore_labels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        EquivalenceCache, "_switch_signature", lambda self, signature: setattr(self, "_signature", signature.id)
    )


def _ignore_labels_in(part: type[Any]) -> Plant:
    return lambda patch: patch.setattr(part, "invalidate_plugins", lambda *_: False)


def _ignore_labels_in_pre_filter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate", lambda *_: None)


def _invalidate_before_writing_fresh_rows(patch: pytest.MonkeyPatch) -> None:
    drop = ScoreColumn.invalidate_rows

    def early(self: ScoreColumn, rows: Any) -> None:
        only, self._only_fresh_rows = self._only_fresh_rows, None
        drop(self, rows)
        self._only_fresh_rows = only

    patch.setattr(ScoreColumn, "invalidate_rows", early)


def _keep_fresh_rows(patch: pytest.MonkeyPatch) -> None:
    fresh = ScoreColumn.fresh

    def too_many(self: ScoreColumn) -> Any:
        only, self._only_fresh_rows = self._only_fresh_rows, None
        if only is not None and not self.all_stale:
            if self._fresh is None:
                self._fresh = np.zeros(self._size, np.bool_)
            self._fresh[only] = True
        return fresh(self)

    patch.setattr(ScoreColumn, "fresh", too_many)


def _keep_representatives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        NodeEquivalenceClasses,
        "_choose_representatives",
        _once_while(lambda kinds: kinds.generation, NodeEquivalenceClasses._choose_representatives),
    )


def _skip_renumbering(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeEquivalenceClasses, "_renumber", lambda *_: True)


def _ignore_changed_equivalence(patch: pytest.MonkeyPatch) -> None:
    follow = NodeEquivalenceClasses.refresh
    patch.setattr(
        NodeEquivalenceClasses, "refresh", lambda self, new, *rest: follow(self, self._equivalences or new, *rest)
    )


def _keep_class_scores(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ScoreColumn,
        "score_representatives",
        _once_while(lambda column: len(column.raw), ScoreColumn.score_representatives),
    )


def _update_too_few_totals(patch: pytest.MonkeyPatch) -> None:
    refresh_classes = PodDependentScores._refresh_classes

    def refreshed(self: PodDependentScores, *rest: Any) -> bool:
        generation = self._generation
        return refresh_classes(self, *rest) or generation == self._classes.generation

    patch.setattr(PodDependentScores, "_refresh_classes", refreshed)


def _overlapping_coordinates(patch: pytest.MonkeyPatch) -> None:
    set_range = _Axis.set_range

    def too_short(self: _Axis, column: Any, stride: int) -> int:
        end = set_range(self, column, stride)
        self.stride = 1
        return end

    patch.setattr(_Axis, "set_range", too_short)


def _ignore_topologies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeEquivalence, "topologies", ())


def _assume_totals_of_new_feasible_rows(patch: pytest.MonkeyPatch) -> None:
    turn = ScoreColumns.update_feasibility
    patch.setattr(ScoreColumns, "update_feasibility", lambda self, *rest: turn(self, *rest)[:0])


def _skip_new_feasible_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumns, "update_feasibility", lambda self, rows, _: rows[self._row_total[rows] < INFEASIBLE])


def _skip_top_score_updates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopScores, "update", lambda *_: None)


def _take_domains_for_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Domains, "is_one_per_node", True)


def _miss_nodes_of_changed_domains(patch: pytest.MonkeyPatch) -> None:
    _filter_changed_domains(patch)
    nodes_in = Domains.nodes_in
    patch.setattr(Domains, "nodes_in", lambda self, domains: nodes_in(self, domains)[1:])


def _compare_first_flags_only(patch: pytest.MonkeyPatch) -> None:
    _filter_changed_domains(patch)
    init = DomainFlags.__init__
    patch.setattr(DomainFlags, "__init__", lambda self, flags, *rest: init(self, list(flags)[:1], *rest))


def _once_while(state: Callable[[Any], Any], method: Any) -> Any:
    """Return the method, cached per object while `state` is unchanged."""
    done: dict[int, tuple[Any, ...]] = {}

    def once(self: Any, *rest: Any) -> Any:
        now = self, state(self)
        if done.get(id(self), ())[:2] != now:
            done[id(self)] = (*now, method(self, *rest))
        return done[id(self)][2]

    return once


@pytest.mark.parametrize(
    ("plant", "plugin"),
    [
        (_ignore_labels, TeamFilter),
        (_ignore_labels_in(FilterColumns), TeamFilter),
        (_ignore_labels_in(ScoreColumns), TeamFilter),
        (_ignore_labels_in(ScoreColumns), TeamPreference),
        (_ignore_labels_in_pre_filter, TeamCpu),
        (_scope(Change.USAGE, Reads.DOMAINS, Scope.ROWS), ZoneLimit),
        (_scope(Change.USAGE, Reads.OWN_NODE_AND_PODS, Scope.NOWHERE), PodLimit),
        (_scope(Change.NODE, Reads.ALL_NODES, Scope.ROWS), TeamShare),
        (_scope(Change.NODE, Reads.OWN_NODE, Scope.NOWHERE), TeamCpu),
        (_scope(Change.ATTEMPT, Reads.EVERYTHING, Scope.NOWHERE), External),
        (_ignore_reads_identity, NameReader),
        (_never_renew_span, PodLimit),
        (_invalidate_before_writing_fresh_rows, PodLimit),
        (_keep_infeasible_in_normalization, PodLimit),
        (_run_pre_filter_once, TeamShare),
        (_keep_pre_filter_results, TeamShare),
        (_ignore_cache_key, TeamRank),
        (_ignore_filter_cache_key, OddDays),
        (_cache_pre_filter_of_keyed_plugins, OddDays),
        (_ignore_changed_raw_scores, TeamCpu),
        (_accept_every_changed_node, TeamCpu),
        (_keep_topologies, TeamScore),
        (_keep_axes, TeamScore),
        (_ignore_removal_of_last_row, TeamShare),
        (_count_terminating_pods, PodLimit),
        (_ignore_changed_skips, External),
        (_keep_skips, InterPodAffinity),
        (_keep_representatives, TeamScore),
        (_skip_renumbering, TeamScore),
        (_ignore_changed_equivalence, TeamScore),
        (_keep_class_scores, TeamScore),
        (_update_too_few_totals, TeamScore),
        (_overlapping_coordinates, TeamScore),
        (_ignore_topologies, TeamScore),
        (_skip_top_score_updates, TeamScore),
    ],
)
def test_property_catches_stale_results(plant: Plant, plugin: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for((plugin,)), STORIES, AssertionError, PluginFailed)


@pytest.mark.parametrize(
    ("plant", "classes"),
    [
        (_keep_feasible_rows, IN_TREE),
        (_ignore_labels, IN_TREE),
        (_keep_fresh_rows, LEVELS),
        (_skip_renumbering, IN_TREE),
        (_ignore_topologies, IN_TREE),
        (_take_domains_for_nodes, IN_TREE),
        (_miss_nodes_of_changed_domains, IN_TREE),
        (_compare_first_flags_only, IN_TREE),
        (_assume_totals_of_new_feasible_rows, IN_TREE),
        (_skip_new_feasible_rows, IN_TREE),
    ],
)
def test_property_catches_wrong_shortcuts(
    plant: Plant, classes: tuple[Class, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(property_for(classes), TWO_KINDS, AssertionError, PluginFailed)
