"""A group that preempts has the same victims as if all units were listed, and dry runs removed all pods of each
beginning of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given

from pyscheduler.api import PodGroupKey
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import preemption
from pyscheduler.core.pod_groups.eviction_order import EvictionOrder
from pyscheduler.core.pod_groups.eviction_units import eviction_units
from pyscheduler.core.pod_groups.removal_order import PutBackBound, RoomBesideMembers
from tests.properties.batch_model import CHANGES, BatchCluster, cases, jobs
from tests.properties.batch_model import Case as BatchCase
from tests.properties.pod_group_preemption import CASES, CASES_OF_DIFFERENT_MEMBERS, Case, Outcome
from tests.properties.profiles import assert_caught, quick

MANY = 1 << 40


@contextmanager
def plain_form() -> Iterator[None]:
    """List all units, remove all pods of a beginning in each dry run, and put back each unit by a dry run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "eviction_order", listed_units)
        patch.setattr(preemption, "depends_on_other_nodes", lambda _: True)
        patch.setattr(PutBackBound, "without", lambda *_: MANY)
        yield


def listed_units(context: Context, preemptor: PodGroupKey, priority: int) -> Steps[EvictionOrder]:
    return EvictionOrder(context.state, (yield from eviction_units(context, preemptor, priority)))


def check_victims(case: Case) -> None:
    outcome = Outcome(case)
    with plain_form():
        expected = Outcome(case)
    assert (outcome.victims, outcome.bound) == (expected.victims, expected.bound)


def evictions(case: BatchCase) -> list[tuple[float, str]]:
    cluster = BatchCluster(case)
    for number, step in enumerate(case.steps):
        cluster.do(number, step)
    cluster.advance(60)
    return cluster.evictions


def check_victims_with_queues(case: BatchCase) -> None:
    found = evictions(case)
    with plain_form():
        assert found == evictions(case)


def check_victims_of_large_group(case: Case) -> None:
    """Check the victims of a group that is too large for a dry run without each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemption, "_FEW", 0)
        Outcome(case).check(elsewhere=False)


@quick(60)
@given(CASES | CASES_OF_DIFFERENT_MEMBERS)
def test_large_group_evicts_none_with_room_beside_its_members(case: Case) -> None:
    check_victims_of_large_group(case)


@quick(60)
@given(CASES)
def test_victims_are_those_of_the_plain_form(case: Case) -> None:
    check_victims(case)


@quick(20)
@given(cases(jobs() | jobs() | jobs() | CHANGES))
def test_victims_are_those_of_the_plain_form_with_queues(case: BatchCase) -> None:
    check_victims_with_queues(case)


def test_bound_that_is_too_low_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    without = PutBackBound.without
    monkeypatch.setattr(PutBackBound, "without", lambda self, unit: without(self, unit) - 1)
    assert_caught(check_victims, CASES, AssertionError)


def test_victims_with_room_beside_members_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoomBesideMembers, "put_back", lambda *_: False)
    assert_caught(check_victims_of_large_group, CASES_OF_DIFFERENT_MEMBERS, AssertionError)
