"""The arrays under the state: they grow as rows come, ask each distinct value once, and forget what nobody uses."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import Requirement
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.columns import CategoricalColumn, IntColumn
from pyscheduler.testing import node, pod

ALL = slice(0, 1000)


def test_numbers_grow_and_rows_never_written_are_zero() -> None:
    numbers = IntColumn()
    numbers.set(700, 5)
    assert numbers.read(slice(0, 1000), 1000).tolist() == [0] * 700 + [5] + [0] * 299


def test_nobody_can_write_into_what_is_read() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    for column in (state.table().allocatable("cpu"), state.table().allocatable("none"), state.table().pod_counts):
        with pytest.raises(ValueError, match="read-only"):
            column += 1


@pytest.mark.parametrize(("amount", "kept"), [(MAX_INT64, MAX_INT64), (MAX_INT64 + 1, MAX_INT64), (10**40, MAX_INT64)])
def test_numbers_stop_at_the_largest_of_64_bits(amount: int, kept: int) -> None:
    numbers = IntColumn()
    numbers.set(0, amount)
    assert numbers.read(slice(0, 1), 1).tolist() == [kept]


def test_each_distinct_value_is_asked_once() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("")
    for row in range(1000):
        column.set(row, "ab"[row % 2])
    asked: list[str] = []

    def answer(value: str) -> int:
        asked.append(value)
        return len(asked)

    told = column.gather(answer, ALL, 1000).tolist()
    assert sorted(asked) in (["a", "b"], ["", "a", "b"])
    assert (len(set(told)), told[::2] == [told[0]] * 500) == (2, True)


def test_few_rows_ask_only_for_their_own_values() -> None:
    column: CategoricalColumn[int] = CategoricalColumn(0)
    for row in range(100):
        column.set(row, row)
    asked: list[int] = []

    def answer(value: int) -> int:
        asked.append(value)
        return 2 * value

    assert column.gather(answer, np.array([3, 5, 3]), 100).tolist() == [6, 10, 6]
    assert asked == [3, 5]


def test_one_of_some_values_in_any_order() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("")
    for row, value in enumerate("abcab"):
        column.set(row, value)
    assert column.among(("b", "never seen", "c"), slice(0, 5), 5).tolist() == [False, True, True, False, True]
    assert column.among(("never seen",), slice(0, 5), 5).tolist() == [False] * 5
    assert column.among((), slice(0, 5), 5).tolist() == [False] * 5


def test_values_that_no_row_has_any_more_are_forgotten() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("default")
    column.set(1, "stays")
    for i in range(10_000):
        column.set(0, f"value {i}")
    assert column.distinct < 2_000
    assert [column.get(row) for row in range(3)] == ["value 9999", "stays", "default"]
    assert column.among(("stays",), slice(0, 3), 3).tolist() == [False, True, False]


def test_reports_of_images_do_not_pile_up() -> None:
    state = ClusterState()
    for i in range(5_000):
        state.set_node(node("a").image(f"app:{i}", 10).build())
    assert state.columns.images.distinct < 2_000
    assert state.table().by_images(lambda images: len(images)).tolist() == [1]
    assert state.table().by_images(lambda images: images.get("app:4999", 0)).tolist() == [10]


def test_asking_for_strange_resources_costs_nothing() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    for i in range(1_000):
        assert state.table().allocatable(f"example.com/{i}").tolist() == [0]
        assert state.table().requested(f"example.com/{i}").tolist() == [0]
        assert state.table().non_zero_requested(f"example.com/{i}").tolist() == [0]
    assert state.columns.resources < 20


def test_pods_that_brought_strange_resources_leave_nothing_behind() -> None:
    state = ClusterState()
    state.set_node(node("a").has("example.com/real", "3").build())
    for i in range(2_000):
        state.place(pod("p").request(f"example.com/{i}", "1").build(), "a")
    assert state.columns.resources < 1_000
    assert state.table().requested("example.com/1999").tolist() == [1]
    assert state.table().allocatable("example.com/real").tolist() == [3]


def test_columns_are_looked_through_only_each_time_their_number_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[IntColumn] = []

    def look(numbers: IntColumn) -> bool:
        looked.append(numbers)
        return True

    monkeypatch.setattr(IntColumn, "is_needed", property(look))
    state, built = ClusterState(), node("a")
    built.manifest["status"]["allocatable"].update({f"example.com/{i}": "1" for i in range(3_000)})
    state.set_node(built.build())
    assert len(looked) == 256 + 512 + 1_024 + 2_048
    assert state.table().allocatable("example.com/2999").tolist() == [1]


def test_labels_that_no_node_has_share_one_column() -> None:
    state = ClusterState()
    state.set_node(node("a").label("real", "yes").build())
    for i in range(2_000):
        assert state.table().matches_requirement(Requirement(f"strange-{i}", "Exists")).tolist() == [False]
        assert state.table().topology(f"strange-{i}") is state.table().topology("strange")
    assert not state.columns.labels
    state.set_node(node("a").label("strange", "no more").build())
    assert state.table().matches_requirement(Requirement("strange", "Exists")).tolist() == [True]
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [False]
    state.remove_node("a")
    state.set_node(node("b").label("real", "yes").build())
    assert state.table().matches_requirement(Requirement("strange", "Exists")).tolist() == [False]
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [True]


def test_asking_for_many_labels_does_not_pile_up() -> None:
    state = ClusterState()
    labels = {"real": "yes", **{f"strange-{i}": "" for i in range(2_000)}}
    state.set_node(node("a")._with("metadata.labels", labels).build())
    for i in range(2_000):
        assert state.table().matches_requirement(Requirement(f"strange-{i}", "Exists")).tolist() == [True]
    assert len(state.columns.labels) < 1_000
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [True]


def test_a_heartbeat_makes_nothing_stale() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    mark, version = state.node_log.mark, state.nodes_version
    beat = node("a")._with("metadata.resourceVersion", "2").build()
    state.set_node(beat)
    assert (state.node_log.mark, state.nodes_version) == (mark, version)
    assert state.rows[0].node is beat
    state.set_node(node("a").label("new", "yes").build())
    assert state.nodes_version > version
