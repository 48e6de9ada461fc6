"""Node order: round-robin over zones, and when the list is rebuilt. Expectations derived from node_tree.go by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node_order import NodeOrder, zone_of
from pyscheduler.testing import node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def order(**zones: str) -> NodeOrder:
    nodes = NodeOrder()
    for name, zone in zones.items():
        nodes.put(name, {ZONE: zone})
    return nodes


def test_zones_alternate_in_the_order_of_their_first_nodes() -> None:
    nodes = order(n1="b", n2="b", n3="b", n4="a", n5="c", n6="a")
    assert nodes.names() == ["n1", "n4", "n5", "n2", "n6", "n3"]


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
def test_deprecated_region_and_zone_labels_take_precedence(labels: dict[str, str], zone: tuple[str, str]) -> None:
    assert zone_of(labels) == zone


def test_zone_that_was_empty_is_last_when_it_gets_a_node_again() -> None:
    nodes = order(n1="a", n2="b", n3="b")
    nodes.remove("n1")
    assert nodes.names() == ["n2", "n3"]
    nodes.put("n1", {ZONE: "a"})
    assert nodes.names() == ["n2", "n1", "n3"]


def test_change_of_zone_takes_effect_when_a_node_is_added_or_removed() -> None:
    nodes = order(n1="a", n2="a", n3="b")
    assert nodes.names() == ["n1", "n3", "n2"]
    nodes.put("n1", {ZONE: "b"})
    assert nodes.names() == ["n1", "n3", "n2"]
    nodes.put("n4", {ZONE: "b"})
    assert nodes.names() == ["n2", "n3", "n1", "n4"]


def test_labels_other_than_zones_do_not_change_the_order() -> None:
    nodes = order(n1="a", n2="a")
    nodes.put("n1", {ZONE: "a", "more": "labels"})
    nodes.put("n3", {ZONE: "a"})
    assert nodes.names() == ["n1", "n2", "n3"]


def test_node_removed_and_added_between_two_reads_keeps_its_position() -> None:
    nodes = order(n1="a", n2="a", n3="a")
    assert nodes.names() == ["n1", "n2", "n3"]
    nodes.remove("n1")
    nodes.put("n1", {ZONE: "a"})
    assert nodes.names() == ["n1", "n2", "n3"]
    nodes.remove("n3")
    assert nodes.names() == ["n2", "n1"]


def test_node_added_and_removed_between_two_reads_does_not_rebuild_the_list() -> None:
    nodes = order(n1="a", n2="b")
    nodes.names()
    nodes.put("n3", {ZONE: "a"})
    nodes.put("n1", {ZONE: "b"})
    nodes.remove("n3")
    assert nodes.names() == ["n1", "n2"]


def test_rows_follow_the_moves_of_removals() -> None:
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
    state.set_node(node("n2").label(ZONE, "a").build())  # in the last row now, but at its old position in the list
    assert rows(state) == ["n2", "n3", "n4"]


def rows(state: ClusterState) -> list[str]:
    ordered = state.node_order_rows()
    assert ordered.dtype == np.intp
    return [state.rows[row].name for row in ordered]
