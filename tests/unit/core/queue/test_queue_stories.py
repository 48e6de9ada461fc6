"""The way of a pod through the tiers, told from outside, in virtual time."""

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


def test_pods_are_tried_by_priority_then_time() -> None:
    world = QueueFixture()
    world.add("first", pod("vip").priority(10).build())
    world.now += 1
    world.add("second")
    assert world.pop_all() == ["vip", "first", "second"]


def test_a_popped_pod_counts_its_attempts_from_its_first_one() -> None:
    world = QueueFixture()
    world.add("p")
    first = world.take()
    world.now += 7
    world.fail(first)
    world.pass_to(200)
    again = world.take()
    assert (again.attempts, again.initial_attempt, again.timestamp) == (2, 100.0, 107.0)


def test_a_rejected_pod_waits_for_its_event_then_backs_off_then_is_tried() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Affinity")
    assert world.counts() == (0, 0, 1, 0)
    assert [world.move(event) for event in (POD_DELETED, NODE_LABELLED, NODE_ADDED)] == [0, 0, 1]
    assert (world.counts(), world.queue.next_wake()) == ((0, 1, 0, 0), 100.0 + EARLY_POP_DELAY)
    assert world.queue.next_wake(popping=False) == 102.0
    world.add("other")
    assert world.queue.next_wake() == 102.0
    assert world.pop() == "other"
    world.pass_to(101.9)
    assert world.counts() == (0, 1, 0, 0)
    world.pass_to(102.0)
    assert (world.counts(), world.queue.next_wake()) == ((1, 0, 0, 0), None)
    assert world.report.incoming == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "UnschedulablePodAdd"),
        ("active", "BackoffComplete"),
    ]


def test_an_event_after_the_backoff_makes_the_pod_active_at_once() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Affinity")
    world.pass_to(102)
    world.move(ClusterEvent("Node", Action.ADD, label="Custom"))
    assert world.report.incoming[-1] == ("active", "Custom")


def test_with_nothing_active_a_rejected_pod_is_tried_before_its_backoff_ends() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Affinity")
    world.move(NODE_ADDED)
    world.add("active")
    assert world.pop_all() == ["active"]
    world.rest()
    assert world.pop_all() == ["p"]
    assert world.report.incoming[-1] == ("active", "PopFromBackoffQ")


def test_a_pod_that_met_an_error_sits_its_backoff_out() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail()
    assert world.counts() == (0, 1, 0, 0)
    assert world.pop() is None
    world.pass_to(102)
    assert world.pop() == "p"


def test_after_five_minutes_a_pod_is_tried_again_whatever_rejected_it() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Affinity")
    world.pass_to(419)
    assert (world.counts(), world.queue.next_wake()) == ((0, 0, 1, 0), 420.0)
    world.pass_to(420)
    assert world.report.incoming[-1] == ("active", "UnschedulableTimeout")
    queued = world.take()
    assert queued.flushed
    world.fail(queued, "Affinity")
    assert not queued.flushed


def test_a_pod_that_has_waited_exactly_five_minutes_is_left_to_the_next_look() -> None:
    world = QueueFixture()
    world.now = 120.0
    world.add("p")
    world.try_and_fail("Affinity")
    world.pass_to(420)
    assert world.counts() == (0, 0, 1, 0)
    world.pass_to(450)
    assert world.counts() == (1, 0, 0, 0)


def test_the_flush_also_gives_pods_in_flight_another_try() -> None:
    world = QueueFixture()
    world.add("old", "new")
    world.try_and_fail("Affinity")
    in_flight = world.take()
    world.pass_to(450)
    world.fail(in_flight, "Affinity")
    assert world.counts() == (1, 1, 0, 0)


def test_time_between_two_flushes_is_thirty_seconds_however_often_it_ticks() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Fit")
    for tenth in range(1000, 4200):
        world.now = tenth / 10
        world.tick()
        assert world.counts() == (0, 0, 1, 0)
    world.now = 420.0
    world.tick()
    assert world.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize("tier", ["active", "backoff"])
def test_an_update_of_an_active_or_waiting_pod_keeps_its_tier(tier: str) -> None:
    world = QueueFixture()
    world.add("p")
    if tier == "backoff":
        world.try_and_fail("Affinity")
        world.move(NODE_ADDED)
    new = pod("p").label("x").build()
    world.queue.update(pod("p").build(), new, [LABELLED], world.now)
    assert (world.queue.pending_counts()[tier], world.queue.ready) == (1, tier == "active")
    world.rest()
    assert world.take().pod is new


def test_an_update_wakes_a_rejected_pod_if_its_rejector_cares() -> None:
    world = QueueFixture()
    world.add("p")
    world.try_and_fail("Gate")
    old, new = pod("p").build(), pod("p").label("x").build()
    world.queue.update(old, new, [ClusterEvent("UnschedulablePod", Action.UPDATE)], world.now)
    assert world.counts() == (0, 0, 1, 0)
    world.queue.update(old, new, [LABELLED], world.now)
    assert world.counts() == (0, 1, 0, 0)
    assert world.report.incoming[-1] == ("backoff", "UnschedulablePodUpdatePodLabel")


def test_an_update_of_an_unknown_pod_brings_it_in() -> None:
    world = QueueFixture()
    world.queue.update(pod("p").build(), pod("p").build(), [LABELLED], world.now)
    assert world.report.incoming == [("active", "UnschedulablePodUpdate")]


def test_a_pod_is_never_in_two_places() -> None:
    world = QueueFixture()
    world.add("p", "p")
    queued = world.take()
    world.add("p")
    assert world.pop() is None
    world.fail(queued, "Fit")
    world.add("p")
    world.fail(queued)
    assert (world.counts(), queued.error_count) == ((0, 0, 1, 0), 0)


@pytest.mark.parametrize("rejected_by", [None, [], ["Fit"]], ids=["active", "backoff", "unschedulable"])
def test_a_deleted_pod_is_gone_from_every_tier(rejected_by: list[str] | None) -> None:
    world = QueueFixture()
    world.add("p")
    if rejected_by is not None:
        world.try_and_fail(*rejected_by)
    world.queue.delete("p")
    world.queue.delete("p")
    assert (len(world.queue), "p" in world.queue, world.queue.get("p")) == (0, False, None)
    assert world.queue.next_wake() is None
    world.pass_to(1000)
    assert world.pop() is None


def test_activation_overrides_backoff_and_rejection_and_ignores_strangers() -> None:
    world = QueueFixture()
    world.add("error", "rejected")
    error, rejected = world.take(), world.take()
    world.fail(error)
    world.fail(rejected, "Fit")
    world.queue.activate([rejected.pod, pod("stranger").build(), error.pod], world.now)
    assert world.counts() == (2, 0, 0, 0)
    assert world.report.incoming[-2:] == [("active", "ForceActivate")] * 2


def test_a_move_can_be_narrowed_to_some_pods() -> None:
    world = QueueFixture()
    world.add(pod("low").priority(1).build(), pod("high").priority(9).build())
    world.try_and_fail("Fit")
    world.try_and_fail("Fit")
    assert world.move(POD_DELETED, only=lambda pod: pod.priority <= 5) == 1
    world.rest()
    assert world.pop_all() == ["low"]


def test_an_event_looks_only_at_pods_whose_rejectors_registered_for_it() -> None:
    asked: list[str] = []

    def hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.SKIP

    world = QueueFixture(
        events_to_register=(
            ("Fit", ClusterEventWithHint("Pod", Action.DELETE, hint)),
            ("Affinity", ClusterEventWithHint("Node", Action.ADD, hint)),
        )
    )
    looked_at: list[str] = []
    world.add("a", "b", "c")
    for rejectors in (["Fit"], ["Affinity"], ["Fit", "Affinity"]):
        world.try_and_fail(*rejectors)
    world.move(NODE_ADDED, only=lambda pod: not looked_at.append(pod.name))  # type: ignore[func-returns-value]
    assert (looked_at, asked) == (["b", "c"], ["b", "c"])


def test_profiles_wake_their_own_pods() -> None:
    other = QueueProfile(PrioritySort(), (), (("Affinity", ClusterEventWithHint("Node", Action.UPDATE_NODE_LABEL)),))
    world = QueueFixture(others={"other": other})
    world.add("ours", pod("theirs").scheduler("other").build())
    world.try_and_fail("Affinity")
    world.try_and_fail("Affinity")
    world.rest()
    assert (world.move(NODE_LABELLED), world.pop()) == (1, "theirs")
    assert (world.move(NODE_ADDED), world.pop()) == (1, "ours")


def test_an_idle_queue_asks_for_no_tick() -> None:
    world = QueueFixture(INTERESTS, backoff=Backoff(2, 20))
    assert world.queue.next_wake() is None
    world.add("p")
    assert world.queue.next_wake() is None


def test_the_dump_tells_where_each_pod_is_and_why() -> None:
    world = QueueFixture()
    world.add(pod("stuck").priority(2).build(), pod("flying").priority(1).build(), "waiting")
    world.try_and_fail("Fit", pending=("Affinity",))
    world.take()
    world.now = 103.5
    world.try_and_fail()
    world.add("new")
    entries = {entry.pod: entry for entry in world.queue.dump()}
    assert [(key, entry.tier) for key, entry in entries.items()] == [
        ("default/new", Tier.ACTIVE),
        ("default/waiting", Tier.BACKOFF),
        ("default/stuck", Tier.UNSCHEDULABLE),
        ("default/flying", Tier.IN_FLIGHT),
    ]
    stuck, waiting = entries["default/stuck"], entries["default/waiting"]
    assert (stuck.rejectors, stuck.priority, stuck.attempts, stuck.since) == (("Affinity", "Fit"), 2, 1, 100.0)
    assert (waiting.until, waiting.rejectors, stuck.until) == (105.0, (), None)
    assert [queued.pod.name for queued in world.queue.pending()] == ["new", "waiting", "stuck"]
    assert (world.queue.in_flight("flying"), world.queue.in_flight("new")) == (True, False)
