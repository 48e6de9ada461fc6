"""Answers that are kept from attempt to attempt are those that would be given if everybody were asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Pod, Reads
from pyscheduler.core.decide import staleness
from pyscheduler.core.decide.evaluation import Evaluation
from pyscheduler.core.decide.filtering import FilterColumn
from pyscheduler.core.decide.scoring import ScoreColumn, ScoreColumns
from pyscheduler.core.decide.staleness import Change, Scope
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.state import ClusterState
from tests.properties.evaluation_world import KINDS, EvaluationWorld
from tests.properties.profiles import assert_caught, quick
from tests.properties.readers import (
    IN_TREE,
    LEVELS,
    Census,
    Class,
    Crowd,
    Model,
    Namesake,
    Weather,
    Zones,
)
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
OF_OBJECTS = stories(*ALL_STEPS, *RARE, "object", "object")
"""Few changes between attempts: a change that nobody notices would else hide behind one that everybody does."""
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


# -- planted bugs ------------------------------------------------------------------------------------------------


def _scope(change: Change, reads: Reads, planted: Scope) -> Plant:
    """The table of what makes which answers stale, with one entry wrong."""
    return lambda patch: patch.setitem(staleness._SCOPES[change], reads, planted)


def _identity_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScoreColumn, "__init__", _blind(ScoreColumn.__init__))
    patch.setattr(FilterColumn, "__init__", _blind(FilterColumn.__init__))


def _blind(init: Any) -> Any:
    def blind(self: Any, *rest: Any) -> None:
        init(self, *rest)
        self.reach = (*self.reach[: Change.ATTEMPT], Scope.NOWHERE)

    return blind


def _span_is_never_renewed(patch: pytest.MonkeyPatch) -> None:
    renormalize = ScoreColumn.renormalize

    def once(self: ScoreColumn, *rest: Any) -> bool:
        return self.span is None and renormalize(self, *rest)

    patch.setattr(ScoreColumn, "renormalize", once)


def _who_ceased_to_fit_still_counts(patch: pytest.MonkeyPatch) -> None:
    for name in ("settle", "settle_few"):
        settle = getattr(ScoreColumns, name)
        patch.setattr(ScoreColumns, name, lambda self, *rest, settle=settle: settle(self, *rest[:-1], False))


def _pre_filter_is_asked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Evaluation, "begin", lambda self: self._pre_filter)


def _last_row_goes_silently(patch: pytest.MonkeyPatch) -> None:
    remove_node = ClusterState.remove_node

    def remove(self: ClusterState, name: str) -> Any:
        before = remove_node(self, name)
        if before is not None and self.node_log._rows[-1] == len(self.rows):
            self.node_log._rows.pop()
        return before

    patch.setattr(ClusterState, "remove_node", remove)


def _marked_pods_count_in_full(patch: pytest.MonkeyPatch) -> None:
    def replace(self: ClusterState, pod: Pod) -> None:
        node = self._node_of[pod.uid]
        if node.pods[pod.uid].shape is pod.shape:
            node.pods[pod.uid] = pod
        else:
            self.place(pod, node.name)

    patch.setattr(ClusterState, "replace", replace)


def _skips_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    activate = ScoreColumns.activate
    patch.setattr(ScoreColumns, "activate", lambda self, skipped: self._skipped is None and activate(self, skipped))


@pytest.mark.parametrize(
    ("plant", "seen_by"),
    [
        (_scope(Change.USAGE, Reads.DOMAINS, Scope.ROWS), Zones),
        (_scope(Change.USAGE, Reads.OWN_ROW, Scope.NOWHERE), Crowd),
        (_scope(Change.NODE, Reads.ALL_NODES, Scope.ROWS), Census),
        (_scope(Change.NODE, Reads.OWN_NODE, Scope.NOWHERE), Model),
        (_scope(Change.ATTEMPT, Reads.EVERYTHING, Scope.NOWHERE), Weather),
        (_identity_is_overlooked, Namesake),
        (_span_is_never_renewed, Crowd),
        (_who_ceased_to_fit_still_counts, Crowd),
        (_pre_filter_is_asked_once, Census),
        (_last_row_goes_silently, Census),
        (_marked_pods_count_in_full, Crowd),
        (_skips_are_not_noticed, Weather),
    ],
)
def test_an_answer_kept_too_long_is_noticed(plant: Plant, seen_by: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(proof_for((seen_by,)), STORIES, AssertionError, PluginFailed)
