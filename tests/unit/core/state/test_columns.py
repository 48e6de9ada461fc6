"""Columns: growth, one function call per distinct value, and removal of unused values and columns."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import Requirement
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.columns import CategoricalColumn, IntColumn
from pyscheduler.testing import node, pod

ALL = slice(0, 1000)


def test_int_column_grows_and_rows_never_set_are_zero() -> None:
    numbers = IntColumn()
    numbers.set(700, 5)
    assert numbers.read(slice(0, 1000), 1000).tolist() == [0] * 700 + [5] + [0] * 299


def test_columns_read_by_plugins_are_read_only() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    for column in (state.table().allocatable("cpu"), state.table().allocatable("none"), state.table().pod_counts):
        with pytest.raises(ValueError, match="read-only"):
            column += 1


@pytest.mark.parametrize(
    ("amount", "stored"), [(MAX_INT64, MAX_INT64), (MAX_INT64 + 1, MAX_INT64), (10**40, MAX_INT64)]
)
def test_amounts_are_capped_at_the_maximum_of_int64(amount: int, stored: int) -> None:
    numbers = IntColumn()
    numbers.set(0, amount)
    assert numbers.read(slice(0, 1), 1).tolist() == [stored]


def test_gather_calls_the_function_once_per_distinct_value() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("")
    for row in range(1000):
        column.set(row, "ab"[row % 2])
    calls: list[str] = []

    def number(value: str) -> int:
        calls.append(value)
        return len(calls)

    results = column.gather(number, ALL, 1000).tolist()
    assert sorted(calls) in (["a", "b"], ["", "a", "b"])
    assert (len(set(results)), results[::2] == [results[0]] * 500) == (2, True)


def test_gather_for_few_rows_calls_the_function_only_for_their_values() -> None:
    column: CategoricalColumn[int] = CategoricalColumn(0)
    for row in range(100):
        column.set(row, row)
    calls: list[int] = []

    def double(value: int) -> int:
        calls.append(value)
        return 2 * value

    assert column.gather(double, np.array([3, 5, 3]), 100).tolist() == [6, 10, 6]
    assert calls == [3, 5]


def test_among_matches_rows_with_any_of_the_values() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("")
    for row, value in enumerate("abcab"):
        column.set(row, value)
    assert column.among(("b", "unknown", "c"), slice(0, 5), 5).tolist() == [False, True, True, False, True]
    assert column.among(("unknown",), slice(0, 5), 5).tolist() == [False] * 5
    assert column.among((), slice(0, 5), 5).tolist() == [False] * 5


def test_unused_values_are_dropped() -> None:
    column: CategoricalColumn[str] = CategoricalColumn("default")
    column.set(1, "used")
    for i in range(10_000):
        column.set(0, f"value {i}")
    assert column.distinct < 2_000
    assert [column.get(row) for row in range(3)] == ["value 9999", "used", "default"]
    assert column.among(("used",), slice(0, 3), 3).tolist() == [False, True, False]


def test_only_images_in_use_are_looked_for() -> None:
    state = ClusterState()
    for i in range(5_000):
        state.set_node(node("a").image(f"app:{i}", 10).build())
    assert state.table().has_image("app:4999").tolist() == [True]
    assert state.table().has_image("app:0").tolist() == [False]
    state.set_node(node("a").image("app:0", 10).build())
    assert state.table().has_image("app:4999").tolist() == [False]
    assert state.table().has_image("app:0").tolist() == [True]


def test_version_of_image_names_changes_with_the_set_of_names_only() -> None:
    state = ClusterState()
    state.set_node(node("a").image("app:1", 10).image("app:2", 10).build())
    version = state.image_names_version
    state.set_node(node("a").image("app:1", 20).image("app:2", 10).build())
    state.set_node(node("b").image("app:2", 10).build())
    assert state.image_names_version == version, "no name is new"
    state.set_node(node("a").image("app:2", 10).build())
    assert state.image_names_version != version, "app:1 is gone"


def test_reading_unknown_resources_adds_no_columns() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    for i in range(1_000):
        assert state.table().allocatable(f"example.com/{i}").tolist() == [0]
        assert state.table().requested(f"example.com/{i}").tolist() == [0]
        assert state.table().non_zero_requested(f"example.com/{i}").tolist() == [0]
    assert state.columns.resources < 20


def test_columns_of_resources_without_pods_are_dropped() -> None:
    state = ClusterState()
    state.set_node(node("a").has("example.com/real", "3").build())
    for i in range(2_000):
        state.place(pod("p").request(f"example.com/{i}", "1").build(), "a")
    assert state.columns.resources < 1_000
    assert state.table().requested("example.com/1999").tolist() == [1]
    assert state.table().allocatable("example.com/real").tolist() == [3]


def test_unused_columns_are_checked_only_when_their_number_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[IntColumn] = []

    def check(numbers: IntColumn) -> bool:
        checked.append(numbers)
        return True

    monkeypatch.setattr(IntColumn, "is_needed", property(check))
    state, built = ClusterState(), node("a")
    built.manifest["status"]["allocatable"].update({f"example.com/{i}": "1" for i in range(3_000)})
    state.set_node(built.build())
    assert len(checked) == 256 + 512 + 1_024 + 2_048
    assert state.table().allocatable("example.com/2999").tolist() == [1]


def test_labels_that_no_node_has_share_one_column() -> None:
    state = ClusterState()
    usual = {*state.columns.labels}
    state.set_node(node("a").label("real", "yes").build())
    for i in range(2_000):
        assert state.table().matches_requirement(Requirement(f"unknown-{i}", "Exists")).tolist() == [False]
        assert state.table().topology(f"unknown-{i}") is state.table().topology("unknown")
    assert state.columns.labels.keys() == usual
    state.set_node(node("a").label("unknown", "value").build())
    assert state.table().matches_requirement(Requirement("unknown", "Exists")).tolist() == [True]
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [False]
    state.remove_node("a")
    state.set_node(node("b").label("real", "yes").build())
    assert state.table().matches_requirement(Requirement("unknown", "Exists")).tolist() == [False]
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [True]


def test_number_of_label_columns_is_limited() -> None:
    state = ClusterState()
    labels = {"real": "yes", **{f"unknown-{i}": "" for i in range(2_000)}}
    state.set_node(node("a")._with("metadata.labels", labels).build())
    for i in range(2_000):
        assert state.table().matches_requirement(Requirement(f"unknown-{i}", "Exists")).tolist() == [True]
    assert len(state.columns.labels) < 1_000
    assert state.table().matches_requirement(Requirement("real", "Exists")).tolist() == [True]


def test_heartbeat_changes_no_row_and_no_version() -> None:
    state = ClusterState()
    state.set_node(node("a").build())
    mark, version = state.node_log.mark, state.nodes_version
    heartbeat = node("a")._with("metadata.resourceVersion", "2").build()
    state.set_node(heartbeat)
    assert (state.node_log.mark, state.nodes_version) == (mark, version)
    assert state.rows[0].node == heartbeat
    state.set_node(node("a").label("new", "yes").build())
    assert state.nodes_version > version
