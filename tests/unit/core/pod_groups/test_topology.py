"""Topology domains are tried in an order that leaves large domains free."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api import PodGroup, PodGroupKey, TopologyConstraint
from pyscheduler.core.pod_groups.topology import candidate_domains
from pyscheduler.testing import Harness, NodeBuilder, node

RACK, BLOCK = TopologyConstraint("rack"), TopologyConstraint("block")
SAME_RACK = TopologyConstraint("rack", required=False)


def in_rack(name: str, rack: str, cpu: int, block: str = "b1") -> NodeBuilder:
    return node(name, cpu=str(cpu)).label("rack", rack).label("block", block)


def domains(
    nodes: Sequence[NodeBuilder],
    *topology: TopologyConstraint,
    members: int = 2,
    needed: int | None = None,
    started: Sequence[str] = (),
) -> list[str]:
    """Return the names of the nodes of each candidate domain."""
    harness = Harness()
    harness.add(*nodes)
    table = harness.machine.context.state.table()
    names = list(table.names)
    requests = [{"cpu": 1000}] * members
    group = PodGroup(PodGroupKey("default", "a"), members, topology=topology)
    rows = [names.index(name) for name in started]
    masks = candidate_domains(table, group, requests, rows, members if needed is None else needed)
    all_nodes = [True] * len(names)
    return [
        " ".join(name for name, isin in zip(names, all_nodes if mask is None else mask, strict=True) if isin)
        for mask in masks
    ]


def test_domain_with_the_least_room_is_first() -> None:
    nodes = [in_rack("n1", "r1", 8), in_rack("n2", "r2", 2), in_rack("n3", "r3", 4)]
    assert domains(nodes, RACK) == ["n2", "n3", "n1"]


def test_domain_without_room_is_left_out() -> None:
    assert domains([in_rack("n1", "r1", 1), in_rack("n2", "r2", 2)], RACK) == ["n2"]


def test_domain_with_room_for_all_is_before_one_with_room_for_the_minimum() -> None:
    assert domains([in_rack("n1", "r1", 1), in_rack("n2", "r2", 4)], RACK, needed=1) == ["n2", "n1"]


def test_a_domain_for_each_node_is_not_tried_for_all_nodes() -> None:
    nodes = [in_rack(f"n{i:03}", f"r{i}", 2 + i) for i in range(100)]
    assert domains(nodes, RACK) == [f"n{i:03}" for i in range(32)]


def test_nodes_without_the_label_are_in_no_domain() -> None:
    assert domains([node("n1", cpu="9"), in_rack("n2", "r2", 2)], RACK) == ["n2"]


def test_preferred_domains_are_before_all_nodes() -> None:
    nodes = [in_rack("n1", "r1", 4), in_rack("n2", "r2", 2)]
    assert domains(nodes, SAME_RACK) == ["n2", "n1", "n1 n2"]


def test_preferred_domains_are_within_required_ones() -> None:
    nodes = [in_rack("n1", "r1", 4), in_rack("n2", "r2", 4), in_rack("n3", "r3", 3, block="b2")]
    assert domains(nodes, BLOCK, SAME_RACK) == ["n3", "n1", "n2", "n3", "n1 n2"]


def test_domain_contains_the_members_that_have_started() -> None:
    nodes = [in_rack("n1", "r1", 8), in_rack("n2", "r2", 4)]
    assert domains(nodes, RACK, started=["n1"]) == ["n1"]
    assert domains(nodes, SAME_RACK, started=["n1"]) == ["n1", "n1 n2"]
    assert domains(nodes, RACK, started=["n1", "n2"]) == []
