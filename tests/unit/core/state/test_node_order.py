"""The node tree: zones by turns, and when the list is made anew. Worked by hand from kube-scheduler's node_tree.go."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node_order import NodeOrder, zone_of
from pyscheduler.testing import node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def order(**zones: str) -> NodeOrder:
    made = NodeOrder()
    for name, zone in zones.items():
        made.put(name, {ZONE: zone})
    return made


def test_zones_take_turns_in_the_order_in_which_they_were_first_seen() -> None:
    made = order(n1="b", n2="b", n3="b", n4="a", n5="c", n6="a")
    assert made.names() == ["n1", "n4", "n5", "n2", "n6", "n3"]


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ("", "")),
        ({ZONE: "z", REGION: "r"}, ("r", "z")),
        ({ZONE: "z", OLD_ZONE: "old"}, ("", "old")),
        ({ZONE: "z", OLD_ZONE: ""}, ("", "")),
        ({REGION: "r", OLD_REGION: "old", ZONE: "z"}, ("old", "z")),
    ],
)
def test_a_zone_is_named_by_region_and_zone_the_deprecated_labels_first(
    labels: dict[str, str], zone: tuple[str, str]
) -> None:
    assert zone_of(labels) == zone


def test_a_zone_that_was_emptied_comes_back_at_the_end() -> None:
    made = order(n1="a", n2="b", n3="b")
    made.remove("n1")
    assert made.names() == ["n2", "n3"]
    made.put("n1", {ZONE: "a"})
    assert made.names() == ["n2", "n1", "n3"]


def test_another_zone_counts_only_once_some_node_comes_or_goes() -> None:
    made = order(n1="a", n2="a", n3="b")
    assert made.names() == ["n1", "n3", "n2"]
    made.put("n1", {ZONE: "b"})
    assert made.names() == ["n1", "n3", "n2"]
    made.put("n4", {ZONE: "b"})
    assert made.names() == ["n2", "n3", "n1", "n4"]


def test_other_labels_change_nothing() -> None:
    made = order(n1="a", n2="a")
    made.put("n1", {ZONE: "a", "more": "labels"})
    made.put("n3", {ZONE: "a"})
    assert made.names() == ["n1", "n2", "n3"]


def test_a_node_that_went_and_came_back_between_two_looks_keeps_its_place() -> None:
    made = order(n1="a", n2="a", n3="a")
    assert made.names() == ["n1", "n2", "n3"]
    made.remove("n1")
    made.put("n1", {ZONE: "a"})
    assert made.names() == ["n1", "n2", "n3"]
    made.remove("n3")
    assert made.names() == ["n2", "n1"]


def test_a_node_that_came_and_went_between_two_looks_leaves_no_trace() -> None:
    made = order(n1="a", n2="b")
    made.names()
    made.put("n3", {ZONE: "a"})
    made.put("n1", {ZONE: "b"})
    made.remove("n3")
    assert made.names() == ["n1", "n2"]


def test_rows_follow_the_state_though_removals_move_them() -> None:
    state = ClusterState()
    for name, zone in {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}.items():
        state.set_node(node(name).label(ZONE, zone).build())
    assert rows(state) == ["n1", "n3", "n2", "n4"]
    state.remove_node("n1")  # n4 takes its row
    assert rows(state) == ["n2", "n3", "n4"]
    state.remove_node("n3")
    state.set_node(node("n3").label(ZONE, "b").build())
    assert rows(state) == ["n2", "n3", "n4"]
    state.remove_node("n2")
    state.set_node(node("n2").label(ZONE, "a").build())  # in the last row now, though the list is as it was
    assert rows(state) == ["n2", "n3", "n4"]


def rows(state: ClusterState) -> list[str]:
    found = state.order.rows(state)
    assert found.dtype == np.intp
    return [state.rows[row].name for row in found]
