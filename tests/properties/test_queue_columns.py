"""Queues with many siblings: columns have the shares, the order and the claims that a loop over the queues computes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler_plugins.queues import child_columns, claims
from pyscheduler_plugins.queues import max_min_columns as module
from pyscheduler_plugins.queues.child_columns import ChildColumns
from pyscheduler_plugins.queues.hierarchy import Hierarchy
from pyscheduler_plugins.queues.max_min import Claim, max_min
from pyscheduler_plugins.queues.queue_node import QueueNode
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree
from tests.properties.profiles import assert_caught, quick
from tests.properties.test_queue_shares import AMOUNTS, JOB_CHANGES, RESOURCES, WEIGHTS, hierarchies

EXAMPLES = 150
LIMITS = st.integers(0, 12) | st.integers(0, 2**50) | st.integers(0, 2**70)


@st.composite
def divisions(draw: st.DrawFn) -> tuple[int, list[Claim]]:
    count = draw(st.integers(0, 40))
    weights = draw(st.just(st.just(1)) | st.just(WEIGHTS) | st.just(st.integers(1, 3)))
    drawn = []
    for _ in range(count):
        limit = draw(LIMITS)
        deserved = draw(st.sampled_from([0, 0, 0, limit // 3]))
        guarantee = draw(st.sampled_from([0, 0, 0, deserved // 2, deserved]))
        drawn.append(Claim(draw(weights), limit, guarantee, deserved))
    least = sum(claim.deserved for claim in drawn)
    return draw(st.integers(0, 400) | st.integers(0, 2**54) | st.integers(least, least + 400)), drawn


def check_forms(division: tuple[int, list[Claim]]) -> None:
    capacity, drawn = division
    fields = ([min(getattr(claim, name), module.MAX_AMOUNT) for claim in drawn] for name in Claim.__struct_fields__)
    shares = module.max_min_columns(capacity, module.ClaimColumns(*(np.array(each, np.int64) for each in fields)))
    if shares is None:
        assert capacity >= module.MAX_AMOUNT or sum(claim.deserved for claim in drawn) > capacity
    else:
        assert shares.tolist() == max_min(capacity, drawn)


@quick(EXAMPLES)
@given(divisions())
def test_columns_have_the_shares_of_the_plain_form(division: tuple[int, list[Claim]]) -> None:
    check_forms(division)


def _first_open(level: Any, units: int, shares: Any, least: Any, most: Any) -> Any:
    return (shares < most if units > 0 else shares > least).nonzero()[0][: abs(units)]


def _inexact_sum(amounts: Any) -> int:
    return int(amounts.sum())


HUGE = 2**61, [Claim(65_535, 2**70)] * 40


def test_sums_and_products_may_exceed_64_bits() -> None:
    check_forms(HUGE)


def test_planted_overflow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "exact_sum", _inexact_sum)
    with pytest.raises(AssertionError):
        check_forms(HUGE)


def test_planted_rounding_to_the_first_shares_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Level, "_moved", _first_open)
    assert_caught(check_forms, divisions(), AssertionError, examples=2000)


# -- the tree ------------------------------------------------------------------------------------------------------

NAMES = [f"q{i}" for i in range(8)]
HELD = st.tuples(st.sampled_from(NAMES), st.booleans())
OPERATIONS = st.lists(JOB_CHANGES | HELD | AMOUNTS, max_size=10)
Story = tuple[Hierarchy, Hierarchy, list[Any], frozenset[str]]
STORIES = st.tuples(
    hierarchies(), hierarchies(), OPERATIONS, st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=5)
)


def claimed(tree: QueueTree, node: QueueNode, resource: str) -> int:
    """Return what a queue has a claim to, by definition: nothing if all below it that have an unmet share are held."""

    def unmet(each: QueueNode) -> int:
        return tree.deserved(each.queue.name).get(resource, 0) - each.allocated.get(resource, 0)

    def is_held(each: QueueNode) -> bool:
        below = [child for child in each.children if unmet(child) > 0]
        return all(map(is_held, below)) if below else each.is_held

    return 0 if unmet(node) <= 0 or is_held(node) else unmet(node)


def left_by_claims(tree: QueueTree, queue: str, resource: str) -> int:
    """Return what a queue may allocate, by definition."""
    path = [tree._nodes[name] for name in tree.path(queue)][::-1]
    room = tree.capacity().get(resource, 0) - path[0].allocated.get(resource, 0)
    for parent, child in pairwise(path):
        own = tree.deserved(child.queue.name).get(resource, 0) - child.allocated.get(resource, 0)
        others = sum(claimed(tree, each, resource) for each in parent.children if each is not child)
        room = max(0, own, room - others)
    return room


def check_tree(story: Story) -> None:
    """After each operation, a tree with columns for all queues decides as one without them."""
    hierarchy, other, operations, ready = story
    with patch.object(child_columns, "MANY", 1):
        columns = QueueTree(hierarchy)
    plain = QueueTree(hierarchy)
    for operation in [{"cpu": 20, "nvidia.com/gpu": 7}, *operations, other, {"cpu": 12}, *operations]:
        for tree in (columns, plain):
            with patch.object(child_columns, "MANY", 1 if tree is columns else 1000):
                _apply(tree, operation)
        for name in reversed(list(plain)):
            assert {r: n for r, n in columns.deserved(name).items() if n} == {
                r: n for r, n in plain.deserved(name).items() if n
            }
            assert columns.order_key(name) == plain.order_key(name)
            for resource in RESOURCES if name != "root" else ():
                expected = left_by_claims(plain, name, resource)
                assert max(0, columns.left_by_claims(name, resource)) == expected
                assert max(0, plain.left_by_claims(name, resource)) == expected
        assert columns.next_queue(ready) == plain.next_queue(ready)
        assert columns.next_queue(ready, len) == plain.next_queue(ready, len)


def _apply(tree: QueueTree, operation: Any) -> None:
    match operation:
        case (job, queue, allocated, pending):
            tree.set_usage(job, f"q{queue}", JobUsage(allocated, pending))
        case (queue, is_held):
            tree.set_held_back(queue, is_held=is_held)
        case Hierarchy():
            tree.set_queues(operation)
        case _:
            tree.set_capacity(operation)


@quick(EXAMPLES // 2)
@given(STORIES)
def test_tree_with_columns_decides_as_one_without(story: Story) -> None:
    check_tree(story)


def _ignore(*_: Any, **__: Any) -> None:
    pass


def _never(*_: Any) -> bool:
    return False


def _compute_once(columns: Any, capacity: Any) -> Any:
    if not hasattr(columns, "first_order"):
        columns.first_order = _computed_order(columns, capacity)
    return columns.first_order


_computed_order = ChildColumns._computed_order
PLANTED_IN_TREE: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "claims are not read again": (ChildColumns, "claim_changed", _ignore),
    "allocated amounts stay as they were": (ChildColumns, "set_allocated", _ignore),
    "order is not computed again": (ChildColumns, "_computed_order", _compute_once),
    "held queues keep their claim": (ChildColumns, "set_held", _ignore),
    "parents of held queues keep their claim": (claims, "is_held_back", _never),
}


@pytest.mark.parametrize("bug_name", PLANTED_IN_TREE)
def test_planted_bug_in_the_columns_is_found(bug_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, bug = PLANTED_IN_TREE[bug_name]
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check_tree, STORIES, AssertionError, examples=1000)
