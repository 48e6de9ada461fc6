"""Preemption's columns equal the plain forms: order by importance, violated disruption budgets, losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Candidate, Pod, PodKinds
from pyscheduler.core.state.signatures import PodSignatures
from pyscheduler.intree.preemption.budgets import MOST_BUDGETS, Budgets, _compile
from pyscheduler.intree.preemption.go_sort import go_sort
from pyscheduler.intree.preemption.losses import OFFSET, best, least, loss, losses_of
from pyscheduler.intree.preemption.victims import by_importance
from pyscheduler.testing import pod
from tests.properties.profiles import quick

EXAMPLES = 100
ALLOWED = [-(1 << 70), -1, 0, 1, 2, 1 << 70]
SIGNATURES = PodSignatures()
TIMES = ["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]


@st.composite
def pods(draw: st.DrawFn, most: int) -> list[Pod]:
    """Generate the pods of a node."""
    found = []
    for i in range(draw(st.integers(0, most))):
        built = pod(f"p{i}").namespace(draw(st.sampled_from("ab"))).priority(draw(st.sampled_from([0, 1, -OFFSET])))
        built = built.label("app", draw(st.sampled_from("xy"))).label("tier", draw(st.sampled_from("xy")))
        start = draw(st.sampled_from(TIMES))
        found.append((built.started(start) if start else built).build(SIGNATURES))
    return found


@quick(EXAMPLES)
@given(pods(30))
def test_order_by_importance_is_that_of_gos_sort(unsorted: list[Pod]) -> None:
    # A pod that has not started counts as starting when it is read: each later than the one before.
    ranked = [
        (-each.priority, each.started, i if each.started == math.inf else 0, each) for i, each in enumerate(unsorted)
    ]
    go_sort(ranked, lambda a, b: a[:3] < b[:3])
    assert by_importance(unsorted) == [each for *_, each in ranked]


@st.composite
def budgets(draw: st.DrawFn) -> Budgets:
    objects: dict[tuple[str, str], dict[str, Any]] = {}
    for i in range(draw(st.integers(0, 5))):
        labels = {draw(st.sampled_from(["app", "tier"])): draw(st.sampled_from("xy"))}
        disrupted = dict.fromkeys(draw(st.lists(st.sampled_from(["p0", "p1"]), max_size=1)), TIMES[1])
        status = {
            "disruptionsAllowed": draw(st.sampled_from([-(1 << 70), -1, 0, 1, 2, 1 << 70])),
            "disruptedPods": disrupted,
        }
        spec = {"selector": {"matchLabels": labels}}
        objects[draw(st.sampled_from("ab")), f"b{i}"] = {"spec": spec, "status": status}
    found = Budgets(objects)
    found.refresh(1)
    return found


REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": sorted(values)},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.sets(st.sampled_from("xyz"), min_size=1),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier", "zone"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)


@quick(EXAMPLES)
@given(st.lists(st.tuples(st.lists(REQUIREMENTS, min_size=1, max_size=3), st.integers(0, 3)), max_size=40), pods(4))
def test_counted_budgets_are_the_strictest_of_those_that_cover_a_pod(
    drawn: list[tuple[list[dict[str, Any]], int]], on_node: list[Pod]
) -> None:
    objects = {
        ("a", f"b{i:02}"): {
            "spec": {"selector": {"matchExpressions": requirements}},
            "status": {"disruptionsAllowed": allowed},
        }
        for i, (requirements, allowed) in enumerate(drawn)
    }
    found = Budgets(objects)
    found.refresh(1)
    for each in on_node:
        compiled = [budget for _, source in sorted(objects.items()) if (budget := _compile(source)) is not None]
        covering = [budget for budget in compiled if each.namespace == "a" and budget.covers(each)]
        strictest = sorted(covering, key=lambda budget: budget.allowed)[:MOST_BUDGETS]
        expected = [budget for budget in covering if budget in strictest]
        counted = found._covering(each.signature)
        assert [(b.selector, b.allowed) for b in counted] == [(b.selector, b.allowed) for b in expected]


def columns_of(nodes: list[list[Pod]], kinds: PodKinds) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the kinds of the nodes' pods, a column per node."""
    columns = np.full((max(map(len, nodes)), len(nodes)), -1, np.int32)
    for j, on_node in enumerate(nodes):
        columns[: len(on_node), j] = [kinds.number(each) for each in on_node]
    return columns


@quick(EXAMPLES)
@given(st.lists(st.lists(pods(6), min_size=1, max_size=4), min_size=1, max_size=3), budgets())
def test_budget_violations_are_those_of_the_plain_form(batches: list[list[list[Pod]]], budgets: Budgets) -> None:
    kinds = PodKinds()
    for nodes in batches:
        violating = budgets.violations(columns_of(nodes, kinds), kinds, nodes.__getitem__)
        for j, on_node in enumerate(nodes):
            expected = {each.uid for each in budgets.split(on_node)[0]}
            flags = [False] * len(on_node) if violating is None else violating[:, j].tolist()
            assert {each.uid for each, is_violating in zip(on_node, flags, strict=False) if is_violating} == expected
            assert not any(flags[len(on_node) :])


@quick(EXAMPLES)
@given(st.lists(pods(5), min_size=1, max_size=5), st.data())
def test_losses_are_those_of_the_plain_form(nodes: list[list[Pod]], data: st.DataObject) -> None:
    shape = max(map(len, nodes)), len(nodes)
    victims, violating = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    kinds, numbers, start = PodKinds(), np.full(shape, -1, np.int32), np.zeros(shape)
    candidates = {}
    for j, on_node in enumerate(nodes):
        for i, each in enumerate(on_node):
            victims[i, j], violating[i, j] = data.draw(st.booleans()), data.draw(st.booleans())
            numbers[i, j], start[i, j] = kinds.number(each), each.started
        chosen = [each for i, each in enumerate(on_node) if victims[i, j]]
        if chosen:
            candidates[str(j)] = Candidate(tuple(chosen), int((victims[:, j] & violating[:, j]).sum()))
    priorities = np.array([*(signature.priority for signature in kinds.signatures), 0])
    losses = losses_of(numbers, ~victims, violating, start, priorities)
    for j, found in enumerate(losses.tolist()):
        assert found == (list(loss(candidates[str(j)])) if str(j) in candidates else [math.inf] * 5)
    if candidates:
        assert best(candidates) == tuple(str(j) for j in least(losses))
