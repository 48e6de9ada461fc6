"""Events during an attempt: recorded, replayed and dropped."""

from __future__ import annotations

from pyscheduler.api import Action, ClusterEvent, QueuedPod
from pyscheduler.core.queue.inflight import MOST_EVENTS, InFlight
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NODE_ADDED, POD_DELETED, QueueFixture


def start(in_flight: InFlight, name: str) -> None:
    in_flight.start(QueuedPod(pod(name).build(), 0.0))


def event(number: int) -> ClusterEvent:
    return ClusterEvent("Node", Action.ADD, label=str(number))


def labels_since_start(in_flight: InFlight, uid: str) -> list[str] | None:
    events = in_flight.events_since_start(uid)
    return None if events is None else [each.label for each in events]


def test_each_pod_gets_the_events_since_it_was_popped() -> None:
    in_flight = InFlight()
    in_flight.record(event(0))
    start(in_flight, "a")
    in_flight.record(event(1))
    start(in_flight, "b")
    in_flight.record(event(2))
    assert (
        labels_since_start(in_flight, "a"),
        labels_since_start(in_flight, "b"),
        labels_since_start(in_flight, "c"),
    ) == (["1", "2"], ["2"], None)


def test_events_are_dropped_with_the_oldest_pod_that_needs_them() -> None:
    in_flight = InFlight()
    for number, name in enumerate("abc"):
        start(in_flight, name)
        in_flight.record(event(number))
    in_flight.done("b")
    assert in_flight.recorded == 3
    in_flight.done("a")
    assert (in_flight.recorded, labels_since_start(in_flight, "c")) == (1, ["2"])
    start(in_flight, "d")
    in_flight.record(event(3))
    assert (labels_since_start(in_flight, "c"), labels_since_start(in_flight, "d")) == (["2", "3"], ["3"])
    in_flight.done("c")
    in_flight.done("d")
    in_flight.done("d")
    in_flight.record(event(4))
    assert in_flight.recorded == 0


def test_oldest_events_are_dropped_above_the_limit_and_pods_that_missed_some_get_none() -> None:
    in_flight = InFlight()
    start(in_flight, "early")
    for number in range(MOST_EVENTS):
        in_flight.record(event(number))
    start(in_flight, "late")
    in_flight.record(event(-1))
    assert (in_flight.recorded, labels_since_start(in_flight, "early"), labels_since_start(in_flight, "late")) == (
        MOST_EVENTS // 2 + 1,
        None,
        ["-1"],
    )
    in_flight.done("early")
    assert (in_flight.recorded, labels_since_start(in_flight, "late")) == (1, ["-1"])
    in_flight.done("late")
    start(in_flight, "later")
    assert (in_flight.recorded, labels_since_start(in_flight, "later")) == (0, [])


def test_pod_that_missed_events_is_retried_after_its_backoff() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    pending = fixture.take()
    for _ in range(MOST_EVENTS + 1):
        fixture.move(POD_DELETED)
    fixture.fail(pending, "Affinity")
    assert fixture.counts() == (0, 1, 0, 0)


def test_event_during_the_attempt_requeues_the_pod_after_its_failure() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    pending = fixture.take()
    fixture.move(NODE_ADDED)
    fixture.fail(pending, "Affinity")
    assert fixture.counts() == (0, 1, 0, 0)


def test_event_before_the_attempt_or_for_another_plugin_does_not_requeue_the_pod() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    fixture.move(NODE_ADDED)
    pending = fixture.take()
    fixture.move(POD_DELETED)
    fixture.fail(pending, "Affinity")
    assert fixture.counts() == (0, 0, 1, 0)


def test_event_of_a_pending_plugin_makes_the_pod_active_at_once() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    pending = fixture.take()
    fixture.move(POD_DELETED)
    fixture.move(NODE_ADDED)
    fixture.fail(pending, "Fit", pending=("Affinity",))
    assert fixture.counts() == (1, 0, 0, 0)


def test_pod_that_fails_after_done_backs_off() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    pending = fixture.take()
    fixture.queue.done("p")
    fixture.fail(pending, "Affinity")
    assert fixture.counts() == (0, 1, 0, 0)


def test_update_of_the_pod_during_the_attempt_is_replayed_on_its_new_version() -> None:
    fixture = QueueFixture()
    fixture.add("p")
    pending = fixture.take()
    old, new = pending.pod, pod("p").label("x").build()
    labelled = ClusterEvent("UnscheduledPod", Action.UPDATE_POD_LABEL, old, new)
    fixture.queue.update(old, new, [labelled], fixture.now)
    assert fixture.counts() == (0, 0, 0, 0)
    fixture.queue.add_unschedulable(pending, new, {"Gate"}, set(), fixture.now)
    assert fixture.counts() == (0, 1, 0, 0)
    fixture.rest()
    assert fixture.take().pod is new


def test_activation_during_the_attempt_requeues_only_that_pod() -> None:
    fixture = QueueFixture()
    fixture.add("a", "b")
    a, b = fixture.take(), fixture.take()
    fixture.queue.activate([a.pod], fixture.now)
    fixture.fail(a, "Fit")
    fixture.fail(b, "Fit")
    assert fixture.counts() == (0, 1, 1, 0)
    fixture.rest()
    assert fixture.pop() == "a"


def test_recorded_events_are_counted_by_label() -> None:
    in_flight = InFlight()
    start(in_flight, "a")
    for number in (1, 2, 1):
        in_flight.record(event(number))
    assert in_flight.counts() == {"PodPopped": 1, "1": 2, "2": 1}
    in_flight.done("a")
    assert in_flight.counts() == {"PodPopped": 0}
