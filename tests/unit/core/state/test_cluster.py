"""The live state: what its rows, columns and logs say after nodes and pods come and go."""

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


def test_rows_stay_compact_when_a_node_goes() -> None:
    state = cluster("a", "b", "c")
    state.remove_node("a")
    assert state.table().names == ["c", "b"]
    assert [state.rows[i].row for i in range(2)] == [0, 1]


def test_a_moved_row_takes_its_pods_along() -> None:
    state = cluster("a", "b")
    state.place(pod("p").requests(cpu="1").build(), "b")
    state.remove_node("a")
    assert state.table().requested("cpu").tolist() == [1000]


def test_pods_of_a_node_that_is_not_known_yet_count_when_it_appears() -> None:
    state = ClusterState()
    state.place(pod("p").requests(cpu="1").build(), "late")
    assert len(state) == 0
    state.set_node(node("late").build())
    assert state.table().requested("cpu").tolist() == [1000]


def test_pods_of_a_node_that_went_and_came_back_still_count() -> None:
    state = cluster("a")
    state.place(pod("p").requests(cpu="1").build(), "a")
    state.remove_node("a")
    state.set_node(node("a").build())
    assert state.table().requested("cpu").tolist() == [1000]


def test_placing_a_placed_pod_moves_it() -> None:
    state = cluster("a", "b")
    moved = pod("p").requests(cpu="1").build()
    state.place(moved, "a")
    state.place(moved, "b")
    assert state.table().requested("cpu").tolist() == [0, 1000]


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    state = cluster("a")
    with pytest.raises(QuantityError):
        state.set_node(node("a", cpu="lots").build())
    assert state.table().allocatable("cpu").tolist() == [4000]


def test_amounts_beyond_64_bits_are_kept_at_the_largest_number() -> None:
    state = cluster("a")
    for name in ("p", "q"):
        state.place(pod(name).requests(memory=str(MAX_INT64)).build(), "a")
    assert state.table().requested("memory").tolist() == [MAX_INT64]
    state.remove("p")
    state.remove("q")
    assert state.table().requested("memory").tolist() == [0]


def test_a_resource_that_a_node_loses_is_gone_from_its_column() -> None:
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
def test_labels_answer_for_all_nodes(requirement: Requirement, expected: list[bool]) -> None:
    state = ClusterState()
    state.set_node(node("a").label("disk", "ssd").label("gen", "3").build())
    state.set_node(node("b").label("disk", "hdd").label("gen", "4").build())
    state.set_node(node("c").build())
    assert state.table().matches_requirement(requirement).tolist() == expected


def test_a_label_column_follows_its_nodes() -> None:
    state, is_ssd = cluster("a"), Requirement("disk", "In", ("ssd",))
    assert state.table().matches_requirement(is_ssd).tolist() == [False]
    state.set_node(node("a").label("disk", "ssd").build())
    assert state.table().matches_requirement(is_ssd).tolist() == [True]


def test_used_ports_are_counted_until_the_last_user_is_gone() -> None:
    state = cluster("a")
    for name in ("p", "q"):
        state.place(pod(name).host_port(80).build(), "a")
    state.remove("p")
    assert state.table().by_ports(len).tolist() == [1]
    state.remove("q")
    assert state.table().by_ports(len).tolist() == [0]


def test_images_are_counted_over_the_cluster() -> None:
    state = ClusterState()
    state.set_node(node("a").image("app:1", 10).build())
    state.set_node(node("b").image("app:1", 10).build())
    assert state.table().nodes_with_image("app:1") == 2
    state.remove_node("a")
    assert state.table().nodes_with_image("app:1") == 1
    state.set_node(node("b").build())
    assert state.table().nodes_with_image("app:1") == 0


def test_the_logs_tell_which_rows_changed() -> None:
    state = cluster("a", "b")
    nodes, usage = state.node_log.mark, state.usage_log.mark
    state.place(pod("p").build(), "b")
    state.set_node(node("a").label("x", "y").build())
    told = [(log.since(mark), row) for log, mark, row in ((state.node_log, nodes, 0), (state.usage_log, usage, 1))]
    assert all(rows is not None and rows.tolist() == [row] for rows, row in told)


def test_a_trial_is_undone_and_trials_nest() -> None:
    state = cluster("a", "b")
    stays, guest, inner = (pod(name).requests(cpu="1").build() for name in ("stays", "guest", "inner"))
    state.place(stays, "a")
    with state.dry_run():
        state.place(guest, "a")
        state.remove("stays")
        with state.dry_run():
            state.place(inner, "b")
        assert state.table().requested("cpu").tolist() == [1000, 0]
        state.place(guest, "b")
    assert state.table().requested("cpu").tolist() == [1000, 0]
    assert state.node_of("stays") is state.info("a")
    assert state.node_of("guest") is None


def test_a_trial_that_raises_is_undone_too() -> None:
    state = cluster("a")
    guest = pod("guest").requests(cpu="1").build()

    def try_and_fail() -> None:
        with state.dry_run():
            state.place(guest, "a")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        try_and_fail()
    assert state.table().requested("cpu").tolist() == [0]


def test_a_table_lets_go_of_columns_that_nobody_reads_any_more() -> None:
    state = cluster("n1")
    for i in range(300):
        state.place(pod(f"p{i}").request(f"example.com/{i}", "1").build(), "n1")
        assert state.table().requested(f"example.com/{i}").tolist() == [1]
        state.remove(f"p{i}")
    assert len(state.table()._read) <= 64
