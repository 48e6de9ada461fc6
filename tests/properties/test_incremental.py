"""Answers that are kept from attempt to attempt are those that would be given if everybody were asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Domains, NodeEquivalence, Pod, Reads
from pyscheduler.core.decide import invalidation
from pyscheduler.core.decide.equivalence_cache import EquivalenceCache
from pyscheduler.core.decide.filtering import FilterColumn, FilterColumns
from pyscheduler.core.decide.invalidation import Change, Scope
from pyscheduler.core.decide.node_equivalence import NodeEquivalenceClasses, _Axis
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache
from pyscheduler.core.decide.pod_dependent_scores import PodDependentScores
from pyscheduler.core.decide.score_column import ScoreColumn
from pyscheduler.core.decide.scoring import INFEASIBLE, ScoreColumns
from pyscheduler.core.decide.top_scores import TopScores
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import InterPodAffinity
from tests.properties.evaluation_model import KINDS, EvaluationWorld
from tests.properties.probe_plugins import (
    IN_TREE,
    LEVELS,
    Census,
    Class,
    Colours,
    Crowd,
    Mates,
    Model,
    Namesake,
    Taste,
    Weather,
    Zones,
)
from tests.properties.profiles import assert_caught, quick
from tests.properties.state_steps import ALL_STEPS, Step, a_step, scripts, steps

Story = tuple[list[Step], list[list[Step]]]
Plant = Callable[[pytest.MonkeyPatch], None]


RARE = ("mark", "mark", "drop_last", "drop_last", "weather", "trial", "nominate", "denominate")
ATTEMPTS = st.lists(a_step("attempt"), min_size=1, max_size=3)
FLEET: list[Step] = [("many", 0, 0, 0), *(("place", i, KINDS[i % 3], i % 5) for i in range(8))]


def stories(*what: str) -> st.SearchStrategy[Story]:
    """Stories in which such changes happen."""
    rounds = st.tuples(steps(*what, longest=3), ATTEMPTS).map(lambda both: both[0] + both[1])
    return st.tuples(st.sampled_from([FLEET, FLEET, []]), scripts(rounds, longest=16))


STORIES = stories(*ALL_STEPS, *RARE)
"""Few changes between attempts: a change that nobody notices would else hide behind one that everybody does."""


def _narrowed(drawn: tuple[Story, int]) -> Story:
    (fleet, rounds), kind = drawn
    return _of_two(fleet, kind), [_of_two(steps, kind) for steps in rounds]


def _of_two(steps: list[Step], kind: int) -> list[Step]:
    pods = ("attempt", "place", "replace", "nominate")
    return [(what, who, kind + k % 2 if what in pods else k, where) for what, who, k, where in steps]


OF_TWO_KINDS = st.tuples(stories("place", "remove", "mark"), st.integers(0, 47)).map(_narrowed)
"""Pods of two kinds only, so that most of them follow one of their signature and little has changed since."""
OF_OBJECTS = stories(*ALL_STEPS, *RARE, "object", "object")
PROFILES = {"all levels": LEVELS, **{cls.name: (cls,) for cls in LEVELS}}


def proof_for(classes: tuple[Class, ...], said: Counter[str] | None = None) -> Callable[[Story], None]:
    """`said` gathers who has said what."""

    def prove(story: Story) -> None:
        fleet, rounds = story
        world = EvaluationWorld(classes)
        for step in (*fleet, *chain.from_iterable(rounds)):
            world.do(step)
        if said is not None:
            said.update(world.said)

    return prove


OFTEN = 10
NO = """
    DynamicResources InterPodAffinity NodeAffinity NodeDeclaredFeatures NodePorts NodeResourcesFit NodeUnschedulable
    NodeVolumeLimits PodTopologySpread TaintToleration VolumeBinding VolumeRestrictions VolumeZone
"""
SCORE = """
    ImageLocality InterPodAffinity NodeAffinity NodeResourcesBalancedAllocation NodeResourcesFit PodTopologySpread
    TaintToleration
"""
"""Who must say no, and tell nodes apart, often enough for the stories to be about them."""


def test_every_plugin_has_its_say_and_kept_answers_are_those_of_asking_again() -> None:
    said: Counter[str] = Counter()
    quick(100)(given(OF_OBJECTS)(proof_for(IN_TREE, said)))()
    wanted = [f"no {plugin}" for plugin in NO.split()] + [f"score {plugin}" for plugin in SCORE.split()]
    assert not {what: said[what] for what in wanted if said[what] < OFTEN}


@pytest.mark.parametrize("classes", PROFILES.values(), ids=PROFILES)
def test_kept_answers_are_those_of_asking_again(classes: tuple[Class, ...]) -> None:
    quick(40)(given(STORIES)(proof_for(classes)))()


def test_so_they_are_for_pods_that_follow_their_like() -> None:
    quick(100)(given(OF_TWO_KINDS)(proof_for(IN_TREE)))()


# -- planted bugs ------------------------------------------------------------------------------------------------


def _scope(change: Change, reads: Reads, planted: Scope) -> Plant:
    """The table of what makes which answers stale, with one entry wrong."""
    return lambda patch: patch.setitem(invalidation._SCOPES[change], reads, planted)


def _identity_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumn, "__init__", _blind(ScoreColumn.__init__))
    patch.setattr(FilterColumn, "__init__", _blind(FilterColumn.__init__))


def _blind(init: Any) -> Any:
    def blind(self: Any, *rest: Any) -> None:
        init(self, *rest)
        self.reach = (*self.reach[: Change.ATTEMPT], Scope.NOWHERE)
        self.is_volatile = self.reach[Change.USAGE] is Scope.EVERYWHERE

    return blind


def _span_is_never_renewed(patch: pytest.MonkeyPatch) -> None:
    renormalize: Any = ScoreColumn.renormalize

    def once(self: ScoreColumn, *rest: Any) -> bool:
        if self.span is None:
            return bool(renormalize(self, *rest))
        self._weighted_by_raw = None
        return False

    patch.setattr(ScoreColumn, "renormalize", once)


def _who_ceased_to_fit_still_counts(patch: pytest.MonkeyPatch) -> None:
    settle: Any = ScoreColumns.refresh
    patch.setattr(ScoreColumns, "refresh", lambda self, *rest: settle(self, *rest[:-1], False))


def _pre_filter_is_asked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EquivalenceCache, "begin", lambda self, *_: self._pre_filter)


def _last_row_goes_silently(patch: pytest.MonkeyPatch) -> None:
    remove_node = ClusterState.remove_node

    def remove(self: ClusterState, name: str) -> Any:
        before = remove_node(self, name)
        log = self.node_log
        if before is not None and log._rows[log.mark - log._base - 1] == len(self.rows):
            log.mark -= 1
        return before

    patch.setattr(ClusterState, "remove_node", remove)


def _marked_pods_count_in_full(patch: pytest.MonkeyPatch) -> None:
    def replace(self: ClusterState, pod: Pod) -> None:
        node = self._node_of[pod.uid]
        if node.pods[pod.uid].signature is pod.signature:
            node.pods[pod.uid] = pod
        else:
            self.place(pod, node.name)

    patch.setattr(ClusterState, "replace", replace)


def _skips_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    activate = ScoreColumns.activate
    patch.setattr(ScoreColumns, "activate", lambda self, skipped: self._skipped is None and activate(self, skipped))


def _who_fitted_fits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FilterColumns, "still_fits", lambda self, cycle, pod, rows: (self.first[rows] == 0).all())


def _surroundings_are_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate_skips", lambda *_: None)


def _labels_are_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EquivalenceCache, "_switch_signature", lambda self, signature: setattr(self, "_shape", signature.id))


def _labels_are_overlooked_in(part: type[Any]) -> Plant:
    return lambda patch: patch.setattr(part, "invalidate_plugins", lambda *_: False)


def _labels_are_overlooked_before_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PluginResultCache, "invalidate", lambda *_: None)


def _drop_goes_before_what_was_current_is_written_down(patch: pytest.MonkeyPatch) -> None:
    drop = ScoreColumn.invalidate_rows

    def early(self: ScoreColumn, rows: Any) -> None:
        only, self._only_fresh_rows = self._only_fresh_rows, None
        drop(self, rows)
        self._only_fresh_rows = only

    patch.setattr(ScoreColumn, "invalidate_rows", early)


def _what_was_current_once_stays_so(patch: pytest.MonkeyPatch) -> None:
    fresh = ScoreColumn.fresh

    def too_many(self: ScoreColumn) -> Any:
        only, self._only_fresh_rows = self._only_fresh_rows, None
        if only is not None and not self.all_stale:
            self._fresh[only] = True
        return fresh(self)

    patch.setattr(ScoreColumn, "fresh", too_many)


def _the_first_to_speak_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        NodeEquivalenceClasses,
        "_choose_representatives",
        _once_while(lambda kinds: kinds.generation, NodeEquivalenceClasses._choose_representatives),
    )


def _who_has_come_or_gone_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeEquivalenceClasses, "_renumber", lambda *_: True)


def _what_kinds_are_told_by_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    follow = NodeEquivalenceClasses.refresh
    patch.setattr(NodeEquivalenceClasses, "refresh", lambda self, told, *rest: follow(self, self._told or told, *rest))


def _kinds_are_worth_what_they_were(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ScoreColumn,
        "score_representatives",
        _once_while(lambda column: len(column.raw), ScoreColumn.score_representatives),
    )


def _what_has_changed_is_added_to_few(patch: pytest.MonkeyPatch) -> None:
    settle_kinds = PodDependentScores._refresh_classes

    def settled(self: PodDependentScores, *rest: Any) -> bool:
        known = self._generation
        return settle_kinds(self, *rest) or known == self._classes.generation

    patch.setattr(PodDependentScores, "_refresh_classes", settled)


def _places_run_over(patch: pytest.MonkeyPatch) -> None:
    reach = _Axis.reach

    def too_short(self: _Axis, column: Any, stride: int) -> int:
        end = reach(self, column, stride)
        self.stride = 1
        return end

    patch.setattr(_Axis, "reach", too_short)


def _of_zones_nothing_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeEquivalence, "topologies", ())


def _who_comes_to_fit_is_taken_to_have_a_total(patch: pytest.MonkeyPatch) -> None:
    turn = ScoreColumns.flip_rows
    patch.setattr(ScoreColumns, "flip_rows", lambda self, *rest: turn(self, *rest)[:0])


def _who_comes_to_fit_is_not_taken_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumns, "flip_rows", lambda self, rows, _: rows[self._row_total[rows] < INFEASIBLE])


def _leaders_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopScores, "update", lambda *_: None)


def _domains_are_taken_to_be_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Domains, "is_one_per_node", True)


def _once_while(state: Callable[[Any], Any], method: Any) -> Any:
    """The method, doing nothing again while that is the same of its object."""
    done: dict[int, tuple[Any, ...]] = {}

    def once(self: Any, *rest: Any) -> Any:
        now = self, state(self)
        if done.get(id(self), ())[:2] != now:
            done[id(self)] = (*now, method(self, *rest))
        return done[id(self)][2]

    return once


@pytest.mark.parametrize(
    ("plant", "seen_by"),
    [
        (_labels_are_overlooked, Colours),
        (_labels_are_overlooked_in(FilterColumns), Colours),
        (_labels_are_overlooked_in(ScoreColumns), Colours),
        (_labels_are_overlooked_in(ScoreColumns), Taste),
        (_labels_are_overlooked_before_nodes, Model),
        (_scope(Change.USAGE, Reads.DOMAINS, Scope.ROWS), Zones),
        (_scope(Change.USAGE, Reads.OWN_NODE_AND_PODS, Scope.NOWHERE), Crowd),
        (_scope(Change.NODE, Reads.ALL_NODES, Scope.ROWS), Census),
        (_scope(Change.NODE, Reads.OWN_NODE, Scope.NOWHERE), Model),
        (_scope(Change.ATTEMPT, Reads.EVERYTHING, Scope.NOWHERE), Weather),
        (_identity_is_overlooked, Namesake),
        (_span_is_never_renewed, Crowd),
        (_drop_goes_before_what_was_current_is_written_down, Crowd),
        (_who_ceased_to_fit_still_counts, Crowd),
        (_pre_filter_is_asked_once, Census),
        (_last_row_goes_silently, Census),
        (_marked_pods_count_in_full, Crowd),
        (_skips_are_not_noticed, Weather),
        (_surroundings_are_overlooked, InterPodAffinity),
        (_the_first_to_speak_goes_on, Mates),
        (_who_has_come_or_gone_is_overlooked, Mates),
        (_what_kinds_are_told_by_is_overlooked, Mates),
        (_kinds_are_worth_what_they_were, Mates),
        (_what_has_changed_is_added_to_few, Mates),
        (_places_run_over, Mates),
        (_of_zones_nothing_is_told, Mates),
        (_leaders_are_not_told, Mates),
    ],
)
def test_an_answer_kept_too_long_is_noticed(plant: Plant, seen_by: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(proof_for((seen_by,)), STORIES, AssertionError, PluginFailed)


@pytest.mark.parametrize(
    ("plant", "classes"),
    [
        (_who_fitted_fits, IN_TREE),
        (_labels_are_overlooked, IN_TREE),
        (_what_was_current_once_stays_so, LEVELS),
        (_who_has_come_or_gone_is_overlooked, IN_TREE),
        (_of_zones_nothing_is_told, IN_TREE),
        (_domains_are_taken_to_be_nodes, IN_TREE),
        (_who_comes_to_fit_is_taken_to_have_a_total, IN_TREE),
        (_who_comes_to_fit_is_not_taken_in, IN_TREE),
    ],
)
def test_a_short_cut_too_many_is_noticed(
    plant: Plant, classes: tuple[Class, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(proof_for(classes), OF_TWO_KINDS, AssertionError, PluginFailed)
