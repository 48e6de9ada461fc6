"""Subgroups: which of them have their minimum, and what a group lacks."""

from __future__ import annotations

import pytest

from pyscheduler.api import PodGroup, PodGroupKey
from pyscheduler.core.pod_groups import subgroups


def key(name: str) -> PodGroupKey:
    return PodGroupKey("default", name)


def tree(needed: int, *minimums: int, min_count: int = 0) -> PodGroup:
    """Return a group with the subgroups `a`, `b` and so on."""
    parts = tuple(PodGroup(key(name), least) for name, least in zip("abc", minimums, strict=False))
    return PodGroup(key("root"), min_count, subgroups=parts, min_subgroups=needed)


@pytest.mark.parametrize(
    ("group", "pods", "expected"),
    [
        pytest.param(tree(2, 2, 1), {"a": 2, "b": 1}, "", id="all"),
        pytest.param(tree(2, 2, 1), {"a": 2}, "1 of the 2 groups", id="one has no pods"),
        pytest.param(tree(2, 2, 1), {"a": 1, "b": 5}, "1 of the 2 groups", id="surplus of another does not count"),
        pytest.param(tree(3, 1, 1), {"a": 1, "b": 1}, "2 of the 3 groups", id="one does not exist"),
        pytest.param(tree(1, 2, 2), {"b": 2}, "", id="any suffices"),
        pytest.param(tree(0, 2, min_count=3), {"a": 2}, "2 of the 3 pods", id="pods of the whole group"),
        pytest.param(tree(1, 2, min_count=3), {"a": 2, "root": 1}, "", id="pods of no subgroup"),
    ],
)
def test_shortage_of_a_tree(group: PodGroup, pods: dict[str, int], expected: str) -> None:
    counts = {key(name): count for name, count in pods.items()}
    assert subgroups.shortage(group, counts) == expected
    assert subgroups.has_minimum(group, counts) is not bool(expected)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({"a": 2, "b": 3}, "", id="none"),
        pytest.param({"a": 2, "b": 1}, "default/b has only 1 of the 3 pods", id="one with pods"),
        pytest.param({"b": 1}, "default/b has only 1 of the 3 pods", id="one with pods is before one without"),
        pytest.param({}, "default/a has only 0 of the 2 pods", id="none has pods"),
    ],
)
def test_first_incomplete_subgroup(pods: dict[str, int], expected: str) -> None:
    counts = {key(name): count for name, count in pods.items()}
    assert subgroups.first_incomplete(tree(2, 2, 3), counts) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param({"a": 2, "b": 3}, True, id="surplus"),
        pytest.param({"a": 1, "b": 4}, False, id="a part of the minimum"),
        pytest.param({"b": 4}, True, id="a whole subgroup"),
        pytest.param({}, True, id="all"),
    ],
)
def test_subgroups_keep_their_minimum_or_lose_all_pods(after: dict[str, int], expected: bool) -> None:
    before = {key("a"): 2, key("b"): 4}
    counts = {key(name): count for name, count in after.items()}
    assert subgroups.keeps_subgroups(tree(1, 2, 3), before, counts) is expected
