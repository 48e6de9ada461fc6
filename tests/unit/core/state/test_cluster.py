"""Cluster state: rows, columns and change logs after nodes and pods were added and removed."""

from __future__ import annotations

import pytest

from pyscheduler.api import Requirement
from pyscheduler.api.quantity import MAX_INT64, QuantityError
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import node, pod


def cluster(*names: str) -> ClusterState:
    state = ClusterState()
    for name in names:
        state.set_node(node(name).build())
    return state


def test_rows_stay_compact_when_a_node_is_removed() -> None:
    state = cluster("a", "b", "c")
    state.remove_node("a")
    assert state.table().names == ["c", "b"]
    assert [state.rows[i].row for i in range(2)] == [0, 1]


def test_requests_move_with_the_row_of_their_node() -> None:
    state = cluster("a", "b")
    state.place(pod("p").requests(cpu="1").build(), "b")
    state.remove_node("a")
    assert state.table().requested("cpu").tolist() == [1000]


def test_pods_of_a_missing_node_count_once_it_is_added() -> None:
    state = ClusterState()
    state.place(pod("p").requests(cpu="1").build(), "late")
    assert len(state) == 0
    state.set_node(node("late").build())
    assert state.table().requested("cpu").tolist() == [1000]


def test_pods_of_a_node_still_count_after_it_is_removed_and_added_again() -> None:
    state = cluster("a")
    state.place(pod("p").requests(cpu="1").build(), "a")
    state.remove_node("a")
    state.set_node(node("a").build())
    assert state.table().requested("cpu").tolist() == [1000]


def test_placing_a_pod_on_another_node_moves_it() -> None:
    state = cluster("a", "b")
    moved = pod("p").requests(cpu="1").build()
    state.place(moved, "a")
    state.place(moved, "b")
    assert state.table().requested("cpu").tolist() == [0, 1000]


def test_invalid_node_update_changes_nothing() -> None:
    state = cluster("a")
    with pytest.raises(QuantityError):
        state.set_node(node("a", cpu="lots").build())
    assert state.table().allocatable("cpu").tolist() == [4000]


def test_amounts_beyond_int64_are_capped_in_the_columns() -> None:
    state = cluster("a")
    for name in ("p", "q"):
        state.place(pod(name).requests(memory=str(MAX_INT64)).build(), "a")
    assert state.table().requested("memory").tolist() == [MAX_INT64]
    state.remove("p")
    state.remove("q")
    assert state.table().requested("memory").tolist() == [0]


def test_allocatable_is_zero_after_a_node_loses_the_resource() -> None:
    state = ClusterState()
    state.set_node(node("a").has("example.com/gpu", "2").build())
    state.set_node(node("a").build())
    assert state.table().allocatable("example.com/gpu").tolist() == [0]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("disk", "In", ("ssd",)), [True, False, False]),
        (Requirement("disk", "NotIn", ("ssd",)), [False, True, True]),
        (Requirement("disk", "Exists"), [True, True, False]),
        (Requirement("disk", "DoesNotExist"), [False, False, True]),
        (Requirement("gen", "Gt", ("3",)), [False, True, False]),
    ],
)
def test_label_requirements_match_all_nodes_at_once(requirement: Requirement, expected: list[bool]) -> None:
    state = ClusterState()
    state.set_node(node("a").label("disk", "ssd").label("gen", "3").build())
    state.set_node(node("b").label("disk", "hdd").label("gen", "4").build())
    state.set_node(node("c").build())
    assert state.table().matches_requirement(requirement).tolist() == expected


def test_label_column_follows_node_updates() -> None:
    state, is_ssd = cluster("a"), Requirement("disk", "In", ("ssd",))
    assert state.table().matches_requirement(is_ssd).tolist() == [False]
    state.set_node(node("a").label("disk", "ssd").build())
    assert state.table().matches_requirement(is_ssd).tolist() == [True]


def test_port_is_used_until_its_last_pod_is_removed() -> None:
    state = cluster("a")
    for name in ("p", "q"):
        state.place(pod(name).host_port(80).build(), "a")
    state.remove("p")
    assert state.table().by_ports(len).tolist() == [1]
    state.remove("q")
    assert state.table().by_ports(len).tolist() == [0]


def test_nodes_are_counted_by_image() -> None:
    state = ClusterState()
    state.set_node(node("a").image("app:1", 10).build())
    state.set_node(node("b").image("app:1", 10).build())
    assert state.table().nodes_with_image("app:1") == 2
    state.remove_node("a")
    assert state.table().nodes_with_image("app:1") == 1
    state.set_node(node("b").build())
    assert state.table().nodes_with_image("app:1") == 0


def test_change_logs_have_the_changed_rows() -> None:
    state = cluster("a", "b")
    nodes, usage = state.node_log.mark, state.usage_log.mark
    state.place(pod("p").build(), "b")
    state.set_node(node("a").label("x", "y").build())
    changes = [(log.since(mark), row) for log, mark, row in ((state.node_log, nodes, 0), (state.usage_log, usage, 1))]
    assert all(rows is not None and rows.tolist() == [row] for rows, row in changes)


def test_dry_runs_are_undone_and_may_be_nested() -> None:
    state = cluster("a", "b")
    placed, added, inner = (pod(name).requests(cpu="1").build() for name in ("placed", "added", "inner"))
    state.place(placed, "a")
    with state.dry_run():
        state.place(added, "a")
        state.remove("placed")
        with state.dry_run():
            state.place(inner, "b")
        assert state.table().requested("cpu").tolist() == [1000, 0]
        state.place(added, "b")
    assert state.table().requested("cpu").tolist() == [1000, 0]
    assert state.node_of("placed") is state.info("a")
    assert state.node_of("added") is None


def test_dry_run_that_raises_is_undone() -> None:
    state = cluster("a")
    added = pod("added").requests(cpu="1").build()

    def try_and_fail() -> None:
        with state.dry_run():
            state.place(added, "a")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        try_and_fail()
    assert state.table().requested("cpu").tolist() == [0]


def test_table_drops_cached_columns_above_the_limit() -> None:
    state = cluster("n1")
    for i in range(300):
        state.place(pod(f"p{i}").request(f"example.com/{i}", "1").build(), "n1")
        assert state.table().requested(f"example.com/{i}").tolist() == [1]
        state.remove(f"p{i}")
    assert len(state.table()._read) <= 64
