"""The order in which nodes were added changes neither feasibility nor scores."""

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
"""The nodes with their kinds in two orders, the pods on them, and the index of the first incoming kind."""


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    fleet = [(name, draw(st.integers(0, NODE_KINDS - 1))) for name in names]
    return fleet, draw(st.permutations(fleet)), draw(steps("place", "nominate", longest=8)), draw(st.integers(0, 16))


def property_for(classes: tuple[Class, ...]) -> Callable[[Story], None]:
    def check(story: Story) -> None:
        first_order, second_order, pods, first = story
        kinds = kinds_of(classes)
        for kind in (kinds[(first + i) % len(kinds)] for i in range(len(KINDS))):
            assert _answers(classes, first_order, pods, kind) == _answers(classes, second_order, pods, kind)

    return check


def _answers(classes: tuple[Class, ...], fleet: Fleet, pods: list[Step], kind: int) -> Answers:
    model = EvaluationWorld(classes)
    for name, node_kind in fleet:
        model.do(("node", 0, node_kind, NAMES.index(name)))
    for step in pods:
        model.do(step)
    incoming = pod_of(model.shapes, "x1", kind)
    answers = as_decided(model.runtime, model.state, Cycle(0.0, "default-scheduler", "x1"), incoming)
    answers.choice = ""  # ties may be broken differently
    return answers


@pytest.mark.parametrize("classes", [IN_TREE, LEVELS], ids=["in-tree", "all levels"])
def test_results_do_not_depend_on_node_order(classes: tuple[Class, ...]) -> None:
    quick(60)(given(stories())(property_for(classes)))()


class Positional(ScorePlugin):
    """Score nodes by their index in the table."""

    name = "Positional"

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return np.arange(len(nodes))


def test_property_catches_scores_by_index() -> None:
    assert_caught(property_for((Positional,)), stories(), AssertionError)


def test_property_catches_mask_of_wrong_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_two(self: ColumnTable, _: object) -> Mask:
        return np.arange(len(self)) < 2

    monkeypatch.setattr(ColumnTable, "matches_requirement", first_two)
    assert_caught(property_for(IN_TREE), stories(), AssertionError)
