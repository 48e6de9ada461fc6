"""Pods by importance that follow the cluster are those of a new sort, whenever they are read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints
from pyscheduler.api.pod import Pod
from pyscheduler.core.state import ClusterState, pods_by_importance
from pyscheduler.core.state.pods_by_importance import ImportanceColumns, PodsByImportance
from tests.properties.profiles import assert_caught, quick
from tests.properties.state_snapshot import UIDS
from tests.properties.state_steps import ALL_STEPS, StateModel, Step, steps

PRIORITIES = (-1, 0, 1, 10, 1 << 31)
STARTS = (7.0, 5.0, 5.0, math.inf)
READ = "look"
STEPS = steps(*ALL_STEPS, READ, READ, longest=40)


class StartedPods(StateModel):
    """A cluster state with pods that have start times, many of them the same."""

    def pod(self, uid: str, kind: int, where: str, deleting: bool) -> Pod:
        pod = super().pod(uid, kind, where, deleting)
        pod.started = STARTS[(UIDS.index(uid) + kind) % len(STARTS)]
        return pod


def listed(state: ClusterState, priority: int) -> list[tuple[str, int, int]]:
    """Return UID, row and signature of the pods below a priority by a sort of all pods."""
    pods = [(pod, node.row) for node in state.rows for pod in node.pods.values()]
    lower = [each for each in pods if each[0].priority < priority and not each[0].deleting]
    lower.sort(key=lambda each: (each[0].priority, -each[0].started))
    return [(pod.uid, row, pod.signature.id) for pod, row in lower]


def followed(pods: PodsByImportance, priority: int) -> list[tuple[str, int, int]]:
    every, kinds = pods.read()
    columns = every.lower(priority)
    signatures = [kinds.signatures[kind].id for kind in columns.kinds.tolist()]
    return list(zip(columns.uids.tolist(), columns.rows.tolist(), signatures, strict=True))


def check_order(script: list[Step]) -> None:
    model = StartedPods()
    pods = PodsByImportance(model.state)
    for step in [*script, (READ, 0, 0, 0)]:
        if step[0] != READ:
            model.do(step)
            continue
        for priority in PRIORITIES:
            assert followed(pods, priority) == listed(model.state, priority)


@quick(200)
@given(STEPS)
def test_followed_order_is_that_of_a_new_sort(script: list[Step]) -> None:
    check_order(script)


@given(steps(*ALL_STEPS, longest=20), steps("place", "remove", "replace", longest=6))
@quick(60)
def test_columns_in_use_do_not_change_with_the_cluster(before: list[Step], later: list[Step]) -> None:
    model = StartedPods()
    for step in before:
        model.do(step)
    pods = PodsByImportance(model.state)
    columns, _ = pods.read()
    uids, rows = columns.uids.tolist(), columns.rows.tolist()
    for step in later:
        model.do(step)
        pods.read()
    assert (columns.uids.tolist(), columns.rows.tolist()) == (uids, rows)


def sort_in_one_node(pods: PodsByImportance, rows: list[int]) -> ImportanceColumns:
    return COLUMNS_OF(pods, rows[:1])


def equal_pairs(ranks: NDArray[np.float64], _: Ints) -> NDArray[np.complex128]:
    return np.zeros(len(ranks), np.complex128)


COLUMNS_OF = PodsByImportance._columns_of
BUGS = [
    pytest.param(PodsByImportance, "_columns_of", sort_in_one_node, id="a changed node is left out"),
    pytest.param(pods_by_importance, "_pairs", equal_pairs, id="equal start times are in the order of their arrival"),
]


@pytest.mark.parametrize(("owner", "name", "bug"), BUGS)
def test_planted_bugs_are_caught(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, bug: object) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check_order, STEPS, AssertionError)
