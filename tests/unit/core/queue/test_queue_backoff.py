"""Backoff durations and the order in which pods leave the backoff queue."""

from __future__ import annotations

import pytest

from pyscheduler.api import QueuedPod
from pyscheduler.core.queue.backoff import (
    EARLY_POP_DELAY,
    EARLY_POP_PAUSE,
    RETRIED_PODS,
    Backoff,
    BackoffQueue,
    RetryBudget,
)
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import LABELLED, NODE_ADDED, POD_DELETED, PrioritySort, QueueFixture, Report


def queued(name: str = "p", rejections: int = 0, errors: int = 0, at: float = 0.0, priority: int = 0) -> QueuedPod:
    waiting = QueuedPod(pod(name).priority(priority).build(), at, unschedulable_count=rejections, error_count=errors)
    waiting.unschedulable_plugins = frozenset() if errors else frozenset({"Fit"})
    waiting.backoff_expiry = Backoff().expiry(waiting)
    return waiting


@pytest.mark.parametrize(
    ("rejections", "errors", "seconds"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (2, 0, 2),
        (3, 0, 4),
        (4, 0, 8),
        (5, 0, 10),
        (6, 0, 10),
        (10_000, 0, 10),
        (5, 1, 1),
        (1, 3, 4),
    ],
)
def test_backoff_doubles_up_to_the_maximum_and_counts_errors_separately(
    rejections: int, errors: int, seconds: float
) -> None:
    assert Backoff().seconds(queued(rejections=rejections, errors=errors)) == seconds


def test_initial_and_maximum_backoff_are_configurable() -> None:
    assert [Backoff(3, 7).seconds(queued(rejections=n)) for n in (1, 2, 3)] == [3, 6, 7]
    assert Backoff(5, 2).seconds(queued(rejections=1)) == 2


@pytest.mark.parametrize(
    ("failed_at", "free_at"),
    [(10.0, 12.0), (10.001, 12.0), (10.999, 12.0)],
    ids=["on the second", "after it", "before it"],
)
def test_backoff_ends_with_the_next_whole_second(failed_at: float, free_at: float) -> None:
    waiting = queued(rejections=1, at=failed_at)
    assert Backoff().is_backing_off(waiting, free_at - 0.001)
    assert not Backoff().is_backing_off(waiting, free_at)


def test_pod_without_attempts_does_not_back_off_even_at_time_zero() -> None:
    assert not Backoff().is_backing_off(queued(), 0.0)


def test_maximum_of_zero_disables_backoff() -> None:
    fixture = QueueFixture(backoff=Backoff(1, 0))
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.move(NODE_ADDED)
    assert fixture.counts() == (1, 0, 0, 0)


def test_pods_with_the_same_expiry_second_leave_together_in_queue_order() -> None:
    backoff = BackoffQueue(PrioritySort(), Report(), {})
    for each in (
        queued("low", 1, at=7.1),
        queued("next", 1, at=8.0, priority=9),
        queued("high", 1, at=7.9, priority=5),
    ):
        backoff.add(each)
    assert backoff.next_release() == 9.0
    assert _released(backoff, 8.99) == []
    assert _released(backoff, 9.0) == ["high", "low"]
    assert backoff.next_release() == 10.0
    assert _released(backoff, 10.5) == ["next"]
    assert backoff.next_release() is None


def test_only_rejected_pods_are_popped_early() -> None:
    backoff = BackoffQueue(PrioritySort(), Report(), {})
    backoff.add(queued("error", errors=1))
    backoff.add(queued("rejected", rejections=3))
    early = backoff.pop_early(now=5.0)
    assert early is not None
    assert early.pod.name == "rejected"
    assert backoff.pop_early(now=5.0) is None
    assert (len(backoff), backoff.next_early()) == (1, None)


def test_pod_is_popped_early_only_after_the_delay() -> None:
    backoff = BackoffQueue(PrioritySort(), Report(), {})
    backoff.add(queued(rejections=1, at=7.0))
    assert backoff.next_early() == 7.0 + EARLY_POP_DELAY
    assert backoff.pop_early(now=7.0) is None
    assert backoff.pop_early(now=7.0 + EARLY_POP_DELAY) is not None


def test_failed_attempt_pauses_early_pops_until_the_next_event_or_the_end_of_the_pause() -> None:
    """In a full cluster with many pending pods, each deleted pod causes one successful and one failed attempt."""
    fixture = QueueFixture()
    fixture.pass_to(fixture.now)
    fixture.add(*(f"p{i}" for i in range(6)))
    for _ in range(6):
        fixture.try_and_fail("Fit")
    fixture.move(POD_DELETED)
    fixture.rest()
    for fits, fails in ("p0", "p1"), ("p2", "p3"):
        fixture.move(POD_DELETED)
        popped = fixture.take()
        fixture.queue.done(popped.pod.uid)
        assert (popped.pod.name, fixture.try_and_fail("Fit")) == (fits, fails)
        assert (fixture.pop(), fixture.queue.next_wake()) == (None, fixture.now + EARLY_POP_PAUSE)
    fixture.now += EARLY_POP_PAUSE
    assert fixture.pop() == "p4"


def test_pod_requeued_by_its_own_update_ends_the_pause_of_early_pops() -> None:
    fixture = QueueFixture()
    fixture.add("changed", "other")
    fixture.try_and_fail("Gate")
    fixture.rest()
    fixture.try_and_fail("Fit")
    fixture.queue.update(pod("changed").build(), pod("changed").label("x").build(), [LABELLED], fixture.now)
    assert fixture.pop() == "changed"


@pytest.mark.parametrize("kind", ["rejected", "error"])
def test_pod_is_returned_replaced_and_removed_by_uid(kind: str) -> None:
    index: TierIndex = {}
    backoff = BackoffQueue(PrioritySort(), Report(), index)
    backoff.add(queued("rejected", rejections=1))
    backoff.add(queued("error", errors=1))
    tier = index[kind]
    tier.replace(pod(kind).label("x").build())
    found = tier.get(kind)
    assert found is not None
    assert found.pod.labels == {"x": ""}
    assert tier.remove(kind) is found
    assert kind not in index
    assert tier.get(kind) is None
    assert len(backoff) == 1


def test_errors_are_counted_from_one_after_each_rejection() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    waits = []
    for rejectors in ((), (), ("Fit",), ()):
        failed_at = fixture.now
        pending = fixture.take()
        fixture.move(NODE_ADDED)
        fixture.fail(pending, *rejectors)
        waits.append(pending.backoff_expiry - failed_at)
        fixture.queue.activate([pending.pod], fixture.now)
        fixture.pass_to(fixture.now + 1)
    assert waits == [1, 2, 1, 1]


def test_retries_without_backoff_are_limited_by_the_pods_of_their_attempts() -> None:
    budget, half = RetryBudget(), int(RETRIED_PODS) // 2
    assert [budget.take(half, 100.0) for _ in range(3)] == [True, True, False]
    assert budget.take(int(RETRIED_PODS), 101.0), "all tokens are back after a second"
    assert budget.take(half * 4, 101.5), "a large group needs only one token"
    assert not budget.take(1, 103.0), "but the next attempt waits for all of them"
    assert budget.take(1, 103.1)


def _released(backoff: BackoffQueue, now: float) -> list[str]:
    names = []
    while (batch := backoff.expired(now)) is not None:
        while (queued := batch.pop()) is not None:
            names.append(queued.pod.name)
    return names
