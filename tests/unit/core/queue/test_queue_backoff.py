"""How long pods back off, and in which order they come back: whole seconds, rejections apart from errors."""

from __future__ import annotations

import pytest

from pyscheduler.api import QueuedPod
from pyscheduler.core.queue.backoff import EARLY_POP_DELAY, EARLY_POP_PAUSE, Backoff, BackoffQueue
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
def test_the_wait_doubles_up_to_the_maximum_and_errors_count_apart(
    rejections: int, errors: int, seconds: float
) -> None:
    assert Backoff().seconds(queued(rejections=rejections, errors=errors)) == seconds


def test_initial_and_maximum_are_the_users() -> None:
    assert [Backoff(3, 7).seconds(queued(rejections=n)) for n in (1, 2, 3)] == [3, 6, 7]
    assert Backoff(5, 2).seconds(queued(rejections=1)) == 2


@pytest.mark.parametrize(
    ("failed_at", "free_at"),
    [(10.0, 12.0), (10.001, 12.0), (10.999, 12.0)],
    ids=["on the second", "after it", "before it"],
)
def test_a_pod_waits_more_than_its_backoff_and_at_most_a_second_more(failed_at: float, free_at: float) -> None:
    waiting = queued(rejections=1, at=failed_at)
    assert Backoff().holds(waiting, free_at - 0.001)
    assert not Backoff().holds(waiting, free_at)


def test_a_pod_that_was_never_tried_does_not_back_off_even_at_time_zero() -> None:
    assert not Backoff().holds(queued(), 0.0)


def test_a_maximum_of_zero_switches_backing_off_off() -> None:
    world = QueueFixture(backoff=Backoff(1, 0))
    world.add("p")
    world.try_and_fail("Affinity")
    world.move(NODE_ADDED)
    assert world.counts() == (1, 0, 0, 0)


def test_pods_of_one_second_leave_together_in_queue_order() -> None:
    backoff = BackoffQueue(PrioritySort(), Report())
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


def test_only_rejected_pods_are_taken_early() -> None:
    backoff = BackoffQueue(PrioritySort(), Report())
    backoff.add(queued("error", errors=1))
    backoff.add(queued("rejected", rejections=3))
    early = backoff.pop_early(now=5.0)
    assert early is not None
    assert early.pod.name == "rejected"
    assert backoff.pop_early(now=5.0) is None
    assert (len(backoff), backoff.next_early()) == (1, None)


def test_a_pod_rests_a_moment_before_it_is_taken_early() -> None:
    backoff = BackoffQueue(PrioritySort(), Report())
    backoff.add(queued(rejections=1, at=7.0))
    assert backoff.next_early() == 7.0 + EARLY_POP_DELAY
    assert backoff.pop_early(now=7.0) is None
    assert backoff.pop_early(now=7.0 + EARLY_POP_DELAY) is not None


def test_an_attempt_in_vain_ends_the_early_ones_for_a_moment_or_until_somebody_is_woken() -> None:
    """A cluster is full, and many wait: of all that a leaving pod wakes one finds room, and one more is tried."""
    world = QueueFixture()
    world.pass_to(world.now)
    world.add(*(f"p{i}" for i in range(6)))
    for _ in range(6):
        world.try_and_fail("Fit")
    world.move(POD_DELETED)
    world.rest()
    for fits, fails in ("p0", "p1"), ("p2", "p3"):
        world.move(POD_DELETED)
        found = world.take()
        world.queue.done(found.pod.uid)
        assert (found.pod.name, world.try_and_fail("Fit")) == (fits, fails)
        assert (world.pop(), world.queue.next_wake()) == (None, world.now + EARLY_POP_PAUSE)
    world.now += EARLY_POP_PAUSE
    assert world.pop() == "p4"


def test_a_pod_that_its_own_change_wakes_is_not_held_up_by_one_that_failed() -> None:
    world = QueueFixture()
    world.add("changed", "other")
    world.try_and_fail("Gate")
    world.rest()
    world.try_and_fail("Fit")
    world.queue.update(pod("changed").build(), pod("changed").label("x").build(), [LABELLED], world.now)
    assert world.pop() == "changed"


@pytest.mark.parametrize("kind", ["rejected", "error"])
def test_a_pod_is_found_replaced_and_removed_by_uid(kind: str) -> None:
    backoff = BackoffQueue(PrioritySort(), Report())
    backoff.add(queued("rejected", rejections=1))
    backoff.add(queued("error", errors=1))
    assert backoff.replace(pod(kind).label("x").build())
    found = backoff.get(kind)
    assert found is not None
    assert found.pod.labels == {"x": ""}
    assert backoff.remove(kind) is found
    assert kind not in backoff
    assert backoff.remove(kind) is None
    assert not backoff.replace(found.pod)


def test_an_error_after_rejections_starts_its_own_count_and_a_rejection_ends_it() -> None:
    world = QueueFixture()
    world.add("p")
    waits = []
    for rejectors in ((), (), ("Fit",), ()):
        failed_at = world.now
        pending = world.take()
        world.move(NODE_ADDED)
        world.fail(pending, *rejectors)
        waits.append(pending.backoff_expiry - failed_at)
        world.queue.activate([pending.pod], world.now)
        world.pass_to(world.now + 1)
    assert waits == [1, 2, 1, 1]


def _released(backoff: BackoffQueue, now: float) -> list[str]:
    names = []
    while (queued := backoff.release(now)) is not None:
        names.append(queued.pod.name)
    return names
