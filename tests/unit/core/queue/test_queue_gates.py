"""PreEnqueue: gated pods, the events that requeue them, and gates that raise."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from pyscheduler.api import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Pod,
    QueueingHint,
    Rejection,
    ResourceKind,
)
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import LABELLED, NODE_ADDED, POD_DELETED, Gate, QueueFixture


def test_gated_pod_is_not_popped_and_is_counted_as_gated() -> None:
    fixture = QueueFixture(gates=(Gate(closed_to=["p"]),))
    fixture.add("p", "free")
    assert fixture.counts() == (1, 0, 0, 1)
    assert fixture.pop_all() == ["free"]
    assert fixture.report.incoming[0] == ("unschedulable", "UnscheduledPodAdd")


def test_gate_runs_again_only_on_events_of_the_gating_plugin() -> None:
    gate = Gate(closed_to=["p"])
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    for event in (NODE_ADDED, POD_DELETED, ClusterEvent("*", Action.ALL)):
        assert fixture.move(event) == 0
    assert gate.calls == ["p"]
    assert fixture.move(LABELLED) == 0
    assert gate.calls == ["p", "p"]
    gate.closed_to.clear()
    assert fixture.move(LABELLED) == 1
    assert fixture.counts() == (1, 0, 0, 0)


def test_pod_does_not_back_off_when_it_is_admitted_for_the_first_time() -> None:
    gate = Gate(closed_to=["p"])
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    gate.closed_to.clear()
    fixture.move(LABELLED)
    queued = fixture.take()
    assert (queued.pod.name, queued.gating_plugin, queued.attempts) == ("p", "", 1)
    assert queued.initial_attempt == fixture.now


def test_gated_pod_is_admitted_by_its_own_update() -> None:
    gate = Gate(closed_to=["p"])
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    gate.closed_to.clear()
    old, new = pod("p").build(), pod("p").label("x").build()
    fixture.queue.update(old, new, [NODE_ADDED, LABELLED], fixture.now)
    assert fixture.take().pod is new


def test_plugin_that_gated_the_pod_last_runs_first() -> None:
    first, second = Gate("First"), Gate("Second", closed_to=["p"])
    fixture = QueueFixture(
        events_to_register=(("Second", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL)),), gates=(first, second)
    )
    fixture.add("p")
    fixture.move(LABELLED)
    assert (first.calls, second.calls) == (["p"], ["p", "p"])
    second.closed_to.clear()
    fixture.move(LABELLED)
    assert (len(first.calls), len(second.calls)) == (2, 4), "once in is_still_gated, once in admit"


def test_hints_are_not_called_for_a_pod_that_is_still_gated() -> None:
    calls: list[str] = []

    def hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
        calls.append(pod.name)
        return QueueingHint.QUEUE

    gate = Gate(closed_to=["p"])
    fixture = QueueFixture(
        events_to_register=(("Gate", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL, hint)),), gates=(gate,)
    )
    fixture.add("p")
    assert (fixture.move(LABELLED), calls) == (0, [])
    gate.closed_to.clear()
    assert (fixture.move(LABELLED), calls) == (1, ["p"])


def test_gate_runs_before_the_backoff_of_a_rejected_pod_and_not_after() -> None:
    gate = Gate()
    fixture = QueueFixture(gates=(gate,))
    fixture.add("open", "shut")
    fixture.try_and_fail("Affinity")
    fixture.try_and_fail("Affinity")
    gate.closed_to.add("shut")
    assert fixture.move(NODE_ADDED) == 1
    assert fixture.counts() == (0, 1, 0, 1)
    gate.closed_to.add("open")
    fixture.pass_to(200)
    assert fixture.counts() == (1, 0, 0, 1)


def test_gated_pod_with_earlier_rejectors_is_requeued_only_by_events_of_its_gate() -> None:
    gate = Gate()
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    gate.closed_to.add("p")
    fixture.move(NODE_ADDED)
    gate.closed_to.clear()
    assert fixture.move(NODE_ADDED) == 0
    assert fixture.move(LABELLED) == 1


def test_gated_pods_are_not_flushed_and_need_no_tick() -> None:
    gate = Gate(closed_to=["p"])
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    assert fixture.queue.next_wake() is None
    fixture.pass_to(2000)
    assert (gate.calls, fixture.counts()) == (["p"], (0, 0, 0, 1))


def test_gate_that_raises_gates_the_pod_and_runs_again_at_the_flush() -> None:
    gate = Gate()
    gate.raises_for = {"p"}
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p", "other")
    assert fixture.report.failures == [("Gate", "PreEnqueue")]
    assert fixture.counts() == (1, 0, 0, 1)
    gate.raises_for.clear()
    fixture.pass_to(fixture.now + 400)
    assert fixture.counts() == (2, 0, 0, 0)
    assert fixture.pop_all() == ["other", "p"]


def test_no_tick_is_needed_after_the_pod_of_a_gate_that_raised_is_deleted() -> None:
    gate = Gate()
    gate.raises_for = {"p"}
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    assert fixture.queue.next_wake() is not None
    fixture.queue.delete("p")
    assert fixture.queue.next_wake() is None


def test_activated_pod_stays_gated() -> None:
    fixture = QueueFixture(gates=(Gate(closed_to=["p"]),))
    fixture.add("p")
    fixture.queue.activate([pod("p").build()], fixture.now)
    assert fixture.counts() == (0, 0, 0, 1)


def test_gate_does_not_run_again_when_a_pod_in_backoff_is_activated() -> None:
    gate = Gate()
    fixture = QueueFixture(gates=(gate,))
    fixture.add("p")
    fixture.try_and_fail("Affinity")
    fixture.move(NODE_ADDED)
    gate.closed_to.add("p")
    fixture.queue.activate([pod("p").build()], fixture.now)
    assert fixture.counts() == (1, 0, 0, 0)


def test_pre_enqueue_plugin_may_activate_another_pod_during_a_move() -> None:
    class Waker(Gate):
        def pre_enqueue(self, pod: Pod) -> Rejection | None:
            if pod.name == "a" and fixture.queue.get("b") is not None:
                fixture.queue.activate([b.pod], fixture.now)
            return None

    fixture = QueueFixture(gates=(Waker(),))
    fixture.add("a", "b")
    a, b = fixture.take(), fixture.take()
    fixture.fail(a, "Affinity")
    fixture.fail(b, "Affinity")
    assert fixture.move(NODE_ADDED) == 1
    assert fixture.counts() == (1, 1, 0, 0)


class GateOfGpuPods(Gate):
    pre_enqueue_field = "resource_claims"


def test_plugin_with_a_field_is_called_only_for_pods_that_have_the_field() -> None:
    gate = GateOfGpuPods(closed_to=["plain", "trainer"])
    claim = {"name": "gpu", "resourceClaimName": "gpu"}
    fixture = QueueFixture(gates=(gate,))
    fixture.queue.add(pod("plain").build(), fixture.now)
    fixture.queue.add(pod("trainer").spec(resourceClaims=[claim]).build(), fixture.now)
    assert (gate.calls, fixture.pop_all()) == (["trainer"], ["plain"])


TICKET = ResourceKind("example.com", "v1", "tickets", "Ticket")
TICKET_ADDED = ClusterEvent("Ticket", Action.ADD, new={"metadata": {"name": "t1", "namespace": "default"}})
ON_TICKET = (("Gate", ClusterEventWithHint("Ticket", Action.ADD)),)
SEAT = ClusterEventWithHint("Seat", Action.ADD)


class KeyedGate(Gate):
    """Gate with a key and an object, which may be invalid."""

    key: Any = None
    object: Any = None

    def gate_key(self, pod: Pod) -> Hashable | None:
        if isinstance(self.key, Exception):
            raise self.key
        return self.key  # type: ignore[no-any-return]

    def gate_object(self, pod: Pod) -> Any:
        if isinstance(self.object, Exception):
            raise self.object
        return self.object


@pytest.mark.parametrize("key", [["ticket"], ({},), RuntimeError("no key")], ids=repr)
def test_pod_with_an_invalid_gate_key_is_evaluated_for_each_event(key: Any) -> None:
    gate = KeyedGate(closed_to=["p", "q"])
    gate.key = key
    fixture = QueueFixture(ON_TICKET, gates=(gate,))
    fixture.add("p", "q")
    gate.closed_to.discard("q")
    assert fixture.move(TICKET_ADDED) == 1
    assert fixture.report.failures == [("Gate", "GateKey")] * 2
    assert fixture.pop_all() == ["q"]


@pytest.mark.parametrize(
    "object_",
    [
        (TICKET, "default", "t1"),
        ("Ticket", "default"),
        ("Ticket", ["default"], "t1"),
        ["Ticket", "default", "t1"],
        "Ticket",
        True,
        ("Tikcet", "default", "t1"),
        ("Pod", "default", "t1"),
        RuntimeError("no object"),
    ],
    ids=repr,
)
def test_pod_with_an_invalid_gate_object_is_evaluated_for_all_events(object_: Any) -> None:
    gate = KeyedGate(closed_to=["p"])
    gate.object = object_
    fixture = QueueFixture(ON_TICKET, gates=(gate,))
    fixture.add("p")
    assert fixture.report.failures == [("Gate", "GateObject")]
    gate.closed_to.clear()
    assert fixture.move(TICKET_ADDED) == 1
    assert fixture.pop_all() == ["p"]


@pytest.mark.parametrize(
    ("registrations", "kinds"), [((*ON_TICKET, ("Other", SEAT)), "one of Ticket"), ((("Other", SEAT),), "none yet")]
)
def test_failure_names_the_kind_of_a_gate_object_without_events_and_the_registered_kinds(
    registrations: tuple[tuple[str, ClusterEventWithHint], ...], kinds: str
) -> None:
    gate = KeyedGate(closed_to=["p"])
    gate.object = ("Seat", "default", "s1")
    fixture = QueueFixture(registrations, gates=(gate,))
    fixture.add("p")
    (error,) = fixture.report.errors
    assert str(error).startswith(
        "gate_object returned ('Seat', 'default', 's1'), expected None or an object of a kind that events_to_register"
        f" has besides pods and nodes: {kinds}"
    )
