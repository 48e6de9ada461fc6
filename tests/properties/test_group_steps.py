"""The search for victims, for nodes of trees and for reservations has the outcome of one call, however short its steps.

Nothing of a dry run is left if an event arrives between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core import machine
from pyscheduler.core.context import Context, SuspendedAttempt
from pyscheduler.core.invariants import validate
from pyscheduler.core.pod_groups import steps
from pyscheduler.core.state.cluster import ClusterState
from tests.properties.batch_model import CHANGES, BatchCluster, cases, jobs
from tests.properties.batch_model import Case as BatchCase
from tests.properties.pod_group_preemption import CASES, Case, Outcome
from tests.properties.pod_group_trees import TREES, Tree, outcome_of
from tests.properties.profiles import assert_caught, quick
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, Manifest, gang, node, pod

T = TypeVar("T")
UNLIMITED = 1 << 30


@contextmanager
def step_size(size: int) -> Iterator[None]:
    """Pause after that many members or records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "MEMBERS_PER_STEP", size)
        patch.setattr(steps, "RECORDS_PER_STEP", size)
        yield


def outcomes(run: Callable[[], T]) -> tuple[T, T, T]:
    """Return what happens with the shortest steps, with short ones, and in one call."""
    found = []
    for size in (1, 3, UNLIMITED):
        with step_size(size):
            found.append(run())
    return found[0], found[1], found[2]


def check_preemption(case: Case) -> None:
    def run() -> tuple[set[str], set[str]]:
        outcome = Outcome(case)
        return outcome.victims, outcome.bound

    shortest, short, one_call = outcomes(run)
    assert shortest == short == one_call


def check_queues(case: BatchCase) -> None:
    def run() -> tuple[object, object]:
        cluster = BatchCluster(case)
        for number, step in enumerate(case.steps):
            cluster.do(number, step)
        cluster.advance(60)
        return cluster.evictions, cluster.bindings

    shortest, short, one_call = outcomes(run)
    assert shortest == short == one_call


def check_tree(tree: Tree) -> None:
    shortest, short, one_call = outcomes(lambda: outcome_of(tree))
    assert shortest == short == one_call


@quick(40)
@given(CASES)
def test_victims_are_those_of_one_call(case: Case) -> None:
    check_preemption(case)


@quick(15)
@given(cases(jobs() | jobs() | jobs() | CHANGES))
def test_evictions_of_queues_are_those_of_one_call(case: BatchCase) -> None:
    check_queues(case)


@quick(40)
@given(TREES)
def test_trees_are_placed_as_in_one_call(tree: Tree) -> None:
    check_tree(tree)


def preempting_group(sizes: list[int], high: list[int]) -> list[Manifest]:
    """Return full nodes, and a group of high priority."""
    nodes = [node(f"n{i}", 3) for i in range(len(sizes))]
    running = [
        pod(f"low{i}", size) | {"spec": pod("", size)["spec"] | {"nodeName": f"n{i}"}} for i, size in enumerate(sizes)
    ]
    group = gang("high", len(high), [pod(f"high{i}", size, priority=10) for i, size in enumerate(high)], VOLCANO)
    return [*nodes, *running, *group.manifests]


def check_interruptions(case: tuple[list[int], list[int], list[int]]) -> None:
    """Let an event arrive after some of the pauses; the state is as if there had been no attempt."""
    sizes, high, pauses = case
    with step_size(1):
        cluster = Cluster()
        cluster.apply_all(*preempting_group(sizes, high))
        for i, pause in enumerate(pauses):
            for _ in range(pause):
                cluster._execute(cluster.machine.cycle(cluster.now) or [])
                validate(cluster.machine.context)
            cluster.apply(node(f"small{i}", "1m"))
            state = cluster.machine.context.state
            assert not state.is_dry_run
            validate(cluster.machine.context)
        cluster.advance(60)
    with step_size(UNLIMITED):
        undisturbed = Cluster()
        undisturbed.submit(*preempting_group(sizes, high))
        undisturbed.advance(60)
    assert cluster.members("high") == undisturbed.members("high")
    assert len(cluster.evictions) == len(undisturbed.evictions)


_SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


INTERRUPTED = st.tuples(_SIZES, _SIZES, st.lists(st.integers(1, 25), max_size=4))


@quick(30)
@given(INTERRUPTED)
def test_event_between_two_steps_ends_the_dry_run(case: tuple[list[int], list[int], list[int]]) -> None:
    check_interruptions(case)


def test_attempt_that_is_not_closed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_mark(_: Context, attempt: SuspendedAttempt, __: float) -> None:
        attempt.is_stale = True

    monkeypatch.setattr(machine, "interrupt", only_mark)
    assert_caught(check_interruptions, INTERRUPTED, AssertionError)


def test_roll_back_that_loses_a_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    roll_back = ClusterState._roll_back

    def lose_third(self: ClusterState, begin: int, most: int) -> bool:
        if most == 3 and len(self._undo) > begin:
            self._undo.pop()
        return roll_back(self, begin, most)

    monkeypatch.setattr(ClusterState, "_roll_back", lose_third)
    assert_caught(check_preemption, CASES, AssertionError, KeyError)
