"""Transitions of pods between the tiers of the queue, in virtual time."""

from __future__ import annotations

import pytest

from pyscheduler.api import Action, ClusterEvent, ClusterEventWithHint, Pod, QueueingHint
from pyscheduler.core.queue import Backoff, QueueProfile, Tier
from pyscheduler.core.queue.backoff import EARLY_POP_DELAY
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import (
    INTERESTS,
    LABELLED,
    NODE_ADDED,
    NODE_LABELLED,
    POD_DELETED,
    PrioritySort,
    QueueFixture,
)


def test_pods_are_popped_by_priority_then_time() -> None:
    fixture = QueueFixture()
    fixture.add("first", pod("vip").priority(10).build())
    fixture.now += 1
    fixture.add("second")
    assert fixture.pop_all() == ["vip", "first", "second"]


def test_attempts_are_counted_and_the_initial_attempt_is_kept() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    first = fixture.take()
    fixture.now += 7
    fixture.fail(first)
    fixture.pass_to(200)
    again = fixture.take()
    assert (again.attempts, again.initial_attempt, again.timestamp) == (2, 100.0, 107.0)


def test_rejected_pod_waits_for_its_event_then_backs_off_then_is_active() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    assert fixture.counts() == (0, 0, 1, 0)
    assert [fixture.move(event) for event in (POD_DELETED, NODE_LABELLED, NODE_ADDED)] == [0, 0, 1]
    assert (fixture.counts(), fixture.queue.next_wake()) == ((0, 1, 0, 0), 100.0 + EARLY_POP_DELAY)
    assert fixture.queue.next_wake(popping=False) == 102.0
    fixture.add("other")
    assert fixture.queue.next_wake() == 102.0
    assert fixture.pop() == "other"
    fixture.pass_to(101.9)
    assert fixture.counts() == (0, 1, 0, 0)
    fixture.pass_to(102.0)
    assert (fixture.counts(), fixture.queue.next_wake()) == ((1, 0, 0, 0), None)
    assert fixture.report.incoming == [
        ("active", "UnscheduledPodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "UnscheduledPodAdd"),
        ("active", "BackoffComplete"),
    ]


def test_event_after_the_backoff_makes_the_pod_active_at_once() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.pass_to(102)
    fixture.move(ClusterEvent("Node", Action.ADD, label="Custom"))
    assert fixture.report.incoming[-1] == ("active", "Custom")


def test_rejected_pod_is_popped_before_its_backoff_ends_if_no_pod_is_active() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.move(NODE_ADDED)
    fixture.add("active")
    assert fixture.pop_all() == ["active"]
    fixture.rest()
    assert fixture.pop_all() == ["p"]
    assert fixture.report.incoming[-1] == ("active", "PopFromBackoffQ")


def test_pod_with_an_error_is_not_popped_before_its_backoff_ends() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail()
    assert fixture.counts() == (0, 1, 0, 0)
    assert fixture.pop() is None
    fixture.pass_to(102)
    assert fixture.pop() == "p"


def test_unschedulable_pod_is_retried_after_five_minutes() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.pass_to(419)
    assert (fixture.counts(), fixture.queue.next_wake()) == ((0, 0, 1, 0), 420.0)
    fixture.pass_to(420)
    assert fixture.report.incoming[-1] == ("active", "UnschedulableTimeout")
    queued = fixture.take()
    assert queued.flushed
    fixture.fail(queued, "Affinity")
    assert not queued.flushed


def test_pod_that_has_waited_exactly_five_minutes_is_flushed_at_the_next_check() -> None:
    fixture = QueueFixture()
    fixture.now = 120.0
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.pass_to(420)
    assert fixture.counts() == (0, 0, 1, 0)
    fixture.pass_to(450)
    assert fixture.counts() == (1, 0, 0, 0)


def test_flush_also_retries_pods_in_flight() -> None:
    fixture = QueueFixture()
    fixture.add("old", "new")
    fixture.try_and_fail("Affinity")
    in_flight = fixture.take()
    fixture.pass_to(450)
    fixture.fail(in_flight, "Affinity")
    assert fixture.counts() == (1, 1, 0, 0)


def test_flush_period_does_not_depend_on_the_number_of_ticks() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Fit")
    for tenth in range(1000, 4200):
        fixture.now = tenth / 10
        fixture.tick()
        assert fixture.counts() == (0, 0, 1, 0)
    fixture.now = 420.0
    fixture.tick()
    assert fixture.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize("tier", ["active", "backoff"])
def test_update_of_a_pod_in_active_or_backoff_keeps_its_tier(tier: str) -> None:
    fixture = QueueFixture()
    fixture.add("p")
    if tier == "backoff":
        fixture.try_and_fail("Affinity")
        fixture.move(NODE_ADDED)
    new = pod("p").label("x").build()
    fixture.queue.update(pod("p").build(), new, [LABELLED], fixture.now)
    assert (fixture.queue.pending_counts()[tier], len(fixture.queue.active)) == (1, tier == "active")
    fixture.rest()
    assert fixture.take().pod is new


def test_update_requeues_a_rejected_pod_if_its_rejector_registered_for_it() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.try_and_fail("Gate")
    old, new = pod("p").build(), pod("p").label("x").build()
    fixture.queue.update(old, new, [ClusterEvent("UnscheduledPod", Action.UPDATE)], fixture.now)
    assert fixture.counts() == (0, 0, 1, 0)
    fixture.queue.update(old, new, [LABELLED], fixture.now)
    assert fixture.counts() == (0, 1, 0, 0)
    assert fixture.report.incoming[-1] == ("backoff", "UnscheduledPodUpdatePodLabel")


def test_update_of_an_unknown_pod_adds_it() -> None:
    fixture = QueueFixture()
    fixture.queue.update(pod("p").build(), pod("p").build(), [LABELLED], fixture.now)
    assert fixture.report.incoming == [("active", "UnscheduledPodAdd")]


def test_pod_is_never_in_two_tiers() -> None:
    fixture = QueueFixture()
    fixture.add("p", "p")
    queued = fixture.take()
    fixture.add("p")
    assert fixture.pop() is None
    fixture.fail(queued, "Fit")
    fixture.add("p")
    fixture.fail(queued)
    assert (fixture.counts(), queued.error_count) == ((0, 0, 1, 0), 0)


@pytest.mark.parametrize("rejected_by", [None, [], ["Fit"]], ids=["active", "backoff", "unschedulable"])
def test_deleted_pod_is_removed_from_every_tier(rejected_by: list[str] | None) -> None:
    fixture = QueueFixture()
    fixture.add("p")
    if rejected_by is not None:
        fixture.try_and_fail(*rejected_by)
    fixture.queue.delete("p")
    fixture.queue.delete("p")
    assert (len(fixture.queue), "p" in fixture.queue, fixture.queue.get("p")) == (0, False, None)
    assert fixture.queue.next_wake() is None
    fixture.pass_to(1000)
    assert fixture.pop() is None


def test_activation_overrides_backoff_and_rejection_and_ignores_unknown_pods() -> None:
    fixture = QueueFixture()
    fixture.add("error", "rejected")
    error, rejected = fixture.take(), fixture.take()
    fixture.fail(error)
    fixture.fail(rejected, "Fit")
    fixture.queue.activate([rejected.pod, pod("unknown").build(), error.pod], fixture.now)
    assert fixture.counts() == (2, 0, 0, 0)
    assert fixture.report.incoming[-2:] == [("active", "ForceActivate")] * 2


def test_move_can_be_limited_to_some_pods() -> None:
    fixture = QueueFixture()
    fixture.add(pod("low").priority(1).build(), pod("high").priority(9).build())
    fixture.try_and_fail("Fit")
    fixture.try_and_fail("Fit")
    assert fixture.move(POD_DELETED, only=lambda pod: pod.priority <= 5) == 1
    fixture.rest()
    assert fixture.pop_all() == ["low"]


def test_event_is_evaluated_only_for_pods_with_rejectors_that_registered_for_it() -> None:
    hinted: list[str] = []

    def hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
        hinted.append(pod.name)
        return QueueingHint.SKIP

    fixture = QueueFixture(
        events_to_register=(
            ("Fit", ClusterEventWithHint("Pod", Action.DELETE, hint)),
            ("Affinity", ClusterEventWithHint("Node", Action.ADD, hint)),
        )
    )
    evaluated: list[str] = []
    fixture.add("a", "b", "c")
    for rejectors in (["Fit"], ["Affinity"], ["Fit", "Affinity"]):
        fixture.try_and_fail(*rejectors)
    fixture.move(NODE_ADDED, only=lambda pod: not evaluated.append(pod.name))  # type: ignore[func-returns-value]
    assert (evaluated, hinted) == (["b", "c"], ["b", "c"])


def test_events_requeue_pods_by_the_registrations_of_their_own_profile() -> None:
    other = QueueProfile(PrioritySort(), (), (("Affinity", ClusterEventWithHint("Node", Action.UPDATE_NODE_LABEL)),))
    fixture = QueueFixture(others={"other": other})
    fixture.add("ours", pod("theirs").scheduler("other").build())
    fixture.try_and_fail("Affinity")
    fixture.try_and_fail("Affinity")
    fixture.rest()
    assert (fixture.move(NODE_LABELLED), fixture.pop()) == (1, "theirs")
    assert (fixture.move(NODE_ADDED), fixture.pop()) == (1, "ours")


def test_queue_without_waiting_pods_needs_no_tick() -> None:
    fixture = QueueFixture(INTERESTS, backoff=Backoff(2, 20))
    assert fixture.queue.next_wake() is None
    fixture.add("p")
    assert fixture.queue.next_wake() is None


def test_dump_has_tier_and_rejectors_of_each_pod() -> None:
    fixture = QueueFixture()
    fixture.add(pod("stuck").priority(2).build(), pod("flying").priority(1).build(), "waiting")
    fixture.try_and_fail("Fit", pending=("Affinity",))
    fixture.take()
    fixture.now = 103.5
    fixture.try_and_fail()
    fixture.add("new")
    entries = {entry.pod: entry for entry in fixture.queue.dump()}
    assert [(key, entry.tier) for key, entry in entries.items()] == [
        ("default/new", Tier.ACTIVE),
        ("default/waiting", Tier.BACKOFF),
        ("default/stuck", Tier.UNSCHEDULABLE),
        ("default/flying", Tier.IN_FLIGHT),
    ]
    stuck, waiting = entries["default/stuck"], entries["default/waiting"]
    assert (stuck.rejectors, stuck.priority, stuck.attempts, stuck.since) == (("Affinity", "Fit"), 2, 1, 100.0)
    assert (waiting.until, waiting.rejectors, stuck.until) == (105.0, (), None)
    assert [queued.pod.name for queued in fixture.queue.pending()] == ["new", "waiting", "stuck"]
    assert (fixture.queue.in_flight("flying"), fixture.queue.in_flight("new")) == (True, False)
