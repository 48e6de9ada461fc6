"""Events that happen while a pod is being tried: kept as long as somebody may need them, and no longer."""

from __future__ import annotations

from pyscheduler.api import Action, ClusterEvent, QueuedPod
from pyscheduler.core.queue.inflight import MOST_EVENTS, InFlight
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NODE_ADDED, POD_DELETED, QueueFixture


def start(flights: InFlight, name: str) -> None:
    flights.start(QueuedPod(pod(name).build(), 0.0))


def event(number: int) -> ClusterEvent:
    return ClusterEvent("Node", Action.ADD, label=str(number))


def seen(flights: InFlight, uid: str) -> list[str] | None:
    events = flights.events_since_start(uid)
    return None if events is None else [each.label for each in events]


def test_each_pod_sees_what_happened_since_it_was_popped() -> None:
    flights = InFlight()
    flights.record(event(0))
    start(flights, "a")
    flights.record(event(1))
    start(flights, "b")
    flights.record(event(2))
    assert (seen(flights, "a"), seen(flights, "b"), seen(flights, "c")) == (["1", "2"], ["2"], None)


def test_events_go_with_the_oldest_pod_that_needs_them() -> None:
    flights = InFlight()
    for number, name in enumerate("abc"):
        start(flights, name)
        flights.record(event(number))
    flights.done("b")
    assert flights.recorded == 3
    flights.done("a")
    assert (flights.recorded, seen(flights, "c")) == (1, ["2"])
    start(flights, "d")
    flights.record(event(3))
    assert (seen(flights, "c"), seen(flights, "d")) == (["2", "3"], ["3"])
    flights.done("c")
    flights.done("d")
    flights.done("d")
    flights.record(event(4))
    assert flights.recorded == 0


def test_of_a_long_wait_not_all_events_are_kept_and_who_has_missed_some_is_told_so() -> None:
    flights = InFlight()
    start(flights, "early")
    for number in range(MOST_EVENTS):
        flights.record(event(number))
    start(flights, "late")
    flights.record(event(-1))
    assert (flights.recorded, seen(flights, "early"), seen(flights, "late")) == (MOST_EVENTS // 2 + 1, None, ["-1"])
    flights.done("early")
    assert (flights.recorded, seen(flights, "late")) == (1, ["-1"])
    flights.done("late")
    start(flights, "later")
    assert (flights.recorded, seen(flights, "later")) == (0, [])


def test_who_has_missed_events_is_tried_again_after_its_backoff() -> None:
    world = QueueFixture()
    world.add("p")
    pending = world.take()
    for _ in range(MOST_EVENTS + 1):
        world.move(POD_DELETED)
    world.fail(pending, "Affinity")
    assert world.counts() == (0, 1, 0, 0)


def test_an_event_during_the_attempt_wakes_the_pod_when_it_comes_back() -> None:
    world = QueueFixture()
    world.add("p")
    pending = world.take()
    world.move(NODE_ADDED)
    world.fail(pending, "Affinity")
    assert world.counts() == (0, 1, 0, 0)


def test_an_event_before_the_attempt_or_for_another_plugin_does_not() -> None:
    world = QueueFixture()
    world.add("p")
    world.move(NODE_ADDED)
    pending = world.take()
    world.move(POD_DELETED)
    world.fail(pending, "Affinity")
    assert world.counts() == (0, 0, 1, 0)


def test_an_event_that_a_pending_plugin_awaits_makes_it_active_at_once() -> None:
    world = QueueFixture()
    world.add("p")
    pending = world.take()
    world.move(POD_DELETED)
    world.move(NODE_ADDED)
    world.fail(pending, "Fit", pending=("Affinity",))
    assert world.counts() == (1, 0, 0, 0)


def test_a_pod_that_failed_after_done_has_missed_events_and_backs_off() -> None:
    world = QueueFixture()
    world.add("p")
    pending = world.take()
    world.queue.done("p")
    world.fail(pending, "Affinity")
    assert world.counts() == (0, 1, 0, 0)


def test_its_own_update_during_the_attempt_is_replayed_on_the_new_version() -> None:
    world = QueueFixture()
    world.add("p")
    pending = world.take()
    old, new = pending.pod, pod("p").label("x").build()
    labelled = ClusterEvent("UnschedulablePod", Action.UPDATE_POD_LABEL, old, new)
    world.queue.update(old, new, [labelled], world.now)
    assert world.counts() == (0, 0, 0, 0)
    world.queue.add_unschedulable(pending, new, {"Gate"}, set(), world.now)
    assert world.counts() == (0, 1, 0, 0)
    world.rest()
    assert world.take().pod is new


def test_an_activation_during_the_attempt_is_for_that_pod_only() -> None:
    world = QueueFixture()
    world.add("a", "b")
    a, b = world.take(), world.take()
    world.queue.activate([a.pod], world.now)
    world.fail(a, "Fit")
    world.fail(b, "Fit")
    assert world.counts() == (0, 1, 1, 0)
    world.rest()
    assert world.pop() == "a"


def test_what_is_kept_is_counted_by_label() -> None:
    flights = InFlight()
    start(flights, "a")
    for number in (1, 2, 1):
        flights.record(event(number))
    assert flights.counts() == {"PodPopped": 1, "1": 2, "2": 1}
    flights.done("a")
    assert flights.counts() == {"PodPopped": 0}
