"""In which order the nodes came to be known decides neither which of them fit nor how good they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeInfo, NodeTable, Pod, ScorePlugin, Scores
from pyscheduler.api.nodes import Mask
from pyscheduler.core.state.table import ColumnTable
from tests.properties.evaluation_model import KINDS, Answers, EvaluationWorld, as_decided, kinds_of
from tests.properties.probe_plugins import IN_TREE, LEVELS, Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import NAMES, NODE_KINDS, pod_of
from tests.properties.state_steps import Step, steps

Fleet = list[tuple[str, int]]
Story = tuple[Fleet, Fleet, list[Step], int]
"""The nodes with their kinds in two orders, the pods on them, and the number of the first kind that is tried."""


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    fleet = [(name, draw(st.integers(0, NODE_KINDS - 1))) for name in names]
    return fleet, draw(st.permutations(fleet)), draw(steps("place", "nominate", longest=8)), draw(st.integers(0, 16))


def proof_for(classes: tuple[Class, ...]) -> Callable[[Story], None]:
    def prove(story: Story) -> None:
        one, other, pods, first = story
        kinds = kinds_of(classes)
        for kind in (kinds[(first + i) % len(kinds)] for i in range(len(KINDS))):
            assert _answers(classes, one, pods, kind) == _answers(classes, other, pods, kind)

    return prove


def _answers(classes: tuple[Class, ...], fleet: Fleet, pods: list[Step], kind: int) -> Answers:
    world = EvaluationWorld(classes)
    for name, node_kind in fleet:
        world.do(("node", 0, node_kind, NAMES.index(name)))
    for step in pods:
        world.do(step)
    incoming = pod_of(world.shapes, "x1", kind)
    answers = as_decided(world.decider, world.state, Cycle(0.0, "default-scheduler", "x1"), incoming)
    answers.choice = ""  # among equals it may fall on another
    return answers


@pytest.mark.parametrize("classes", [IN_TREE, LEVELS], ids=["in-tree", "all levels"])
def test_the_order_of_nodes_changes_no_answer(classes: tuple[Class, ...]) -> None:
    quick(60)(given(stories())(proof_for(classes)))()


class Positional(ScorePlugin):
    """Scores nodes by their place in the table."""

    name = "Positional"

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return np.arange(len(nodes))


def test_a_plugin_that_scores_by_place_is_noticed() -> None:
    assert_caught(proof_for((Positional,)), stories(), AssertionError)


def test_a_mask_that_forgets_its_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def among_first(self: ColumnTable, _: object) -> Mask:
        return np.arange(len(self)) < 2

    monkeypatch.setattr(ColumnTable, "matches_requirement", among_first)
    assert_caught(proof_for(IN_TREE), stories(), AssertionError)
