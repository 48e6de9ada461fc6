"""PreEnqueue: gated pods, what wakes them, and gates that break."""

from __future__ import annotations

from pyscheduler.api import Action, ClusterEvent, ClusterEventWithHint, Pod, QueueingHint, Rejection
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import LABELLED, NODE_ADDED, POD_DELETED, Gate, QueueFixture


def test_a_gated_pod_is_not_tried_and_is_counted_apart() -> None:
    world = QueueFixture(gates=(Gate(closed_to=["p"]),))
    world.add("p", "free")
    assert world.counts() == (1, 0, 0, 1)
    assert world.pop_all() == ["free"]
    assert world.report.incoming[0] == ("unschedulable", "UnschedulablePodAdd")


def test_only_events_of_the_gating_plugin_make_it_ask_again() -> None:
    gate = Gate(closed_to=["p"])
    world = QueueFixture(gates=(gate,))
    world.add("p")
    for event in (NODE_ADDED, POD_DELETED, ClusterEvent("*", Action.ALL)):
        assert world.move(event) == 0
    assert gate.asked == ["p"]
    assert world.move(LABELLED) == 0
    assert gate.asked == ["p", "p"]
    gate.closed_to.clear()
    assert world.move(LABELLED) == 1
    assert world.counts() == (1, 0, 0, 0)


def test_a_pod_let_in_for_the_first_time_does_not_back_off() -> None:
    gate = Gate(closed_to=["p"])
    world = QueueFixture(gates=(gate,))
    world.add("p")
    gate.closed_to.clear()
    world.move(LABELLED)
    queued = world.take()
    assert (queued.pod.name, queued.gating_plugin, queued.attempts) == ("p", "", 1)
    assert queued.initial_attempt == world.now


def test_the_pods_own_change_opens_its_gate() -> None:
    gate = Gate(closed_to=["p"])
    world = QueueFixture(gates=(gate,))
    world.add("p")
    gate.closed_to.clear()
    old, new = pod("p").build(), pod("p").label("x").build()
    world.queue.update(old, new, [NODE_ADDED, LABELLED], world.now)
    assert world.take().pod is new


def test_the_gate_that_held_last_is_asked_first() -> None:
    first, second = Gate("First"), Gate("Second", closed_to=["p"])
    world = QueueFixture(
        events_to_register=(("Second", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL)),), gates=(first, second)
    )
    world.add("p")
    world.move(LABELLED)
    assert (first.asked, second.asked) == (["p"], ["p", "p"])
    second.closed_to.clear()
    world.move(LABELLED)
    assert (len(first.asked), len(second.asked)) == (2, 4), "once to see that it is open, once to go through"


def test_while_its_gate_is_shut_nobody_is_asked_whether_an_event_helps_the_pod() -> None:
    asked: list[str] = []

    def hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.QUEUE

    gate = Gate(closed_to=["p"])
    world = QueueFixture(
        events_to_register=(("Gate", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL, hint)),), gates=(gate,)
    )
    world.add("p")
    assert (world.move(LABELLED), asked) == (0, [])
    gate.closed_to.clear()
    assert (world.move(LABELLED), asked) == (1, ["p"])


def test_a_rejected_pod_meets_its_gate_before_it_backs_off_and_not_after() -> None:
    gate = Gate()
    world = QueueFixture(gates=(gate,))
    world.add("open", "shut")
    world.try_and_fail("Affinity")
    world.try_and_fail("Affinity")
    gate.closed_to.add("shut")
    assert world.move(NODE_ADDED) == 1
    assert world.counts() == (0, 1, 0, 1)
    gate.closed_to.add("open")
    world.pass_to(200)
    assert world.counts() == (1, 0, 0, 1)


def test_a_gated_pod_that_was_rejected_before_is_woken_by_its_gate_only() -> None:
    gate = Gate()
    world = QueueFixture(gates=(gate,))
    world.add("p")
    world.try_and_fail("Affinity")
    gate.closed_to.add("p")
    world.move(NODE_ADDED)
    gate.closed_to.clear()
    assert world.move(NODE_ADDED) == 0
    assert world.move(LABELLED) == 1


def test_gated_pods_are_not_flushed_and_ask_for_no_tick() -> None:
    gate = Gate(closed_to=["p"])
    world = QueueFixture(gates=(gate,))
    world.add("p")
    assert world.queue.next_wake() is None
    world.pass_to(2000)
    assert (gate.asked, world.counts()) == (["p"], (0, 0, 0, 1))


def test_a_gate_that_raises_holds_the_pod_and_is_asked_again_at_the_flush() -> None:
    gate = Gate()
    gate.raises_for = {"p"}
    world = QueueFixture(gates=(gate,))
    world.add("p", "other")
    assert world.report.failures == [("Gate", "PreEnqueue")]
    assert world.counts() == (1, 0, 0, 1)
    gate.raises_for.clear()
    world.pass_to(world.now + 400)
    assert world.counts() == (2, 0, 0, 0)
    assert world.pop_all() == ["other", "p"]


def test_a_deleted_pod_of_a_broken_gate_asks_for_no_more_ticks() -> None:
    gate = Gate()
    gate.raises_for = {"p"}
    world = QueueFixture(gates=(gate,))
    world.add("p")
    assert world.queue.next_wake() is not None
    world.queue.delete("p")
    assert world.queue.next_wake() is None


def test_gates_hold_against_activation() -> None:
    world = QueueFixture(gates=(Gate(closed_to=["p"]),))
    world.add("p")
    world.queue.activate([pod("p").build()], world.now)
    assert world.counts() == (0, 0, 0, 1)


def test_a_pod_in_backoff_has_passed_its_gate_and_is_not_asked_again_when_activated() -> None:
    gate = Gate()
    world = QueueFixture(gates=(gate,))
    world.add("p")
    world.try_and_fail("Affinity")
    world.move(NODE_ADDED)
    gate.closed_to.add("p")
    world.queue.activate([pod("p").build()], world.now)
    assert world.counts() == (1, 0, 0, 0)


def test_a_plugin_may_activate_one_pod_while_another_is_woken() -> None:
    class Waker(Gate):
        def pre_enqueue(self, pod: Pod) -> Rejection | None:
            if pod.name == "a" and world.queue.get("b") is not None:
                world.queue.activate([b.pod], world.now)
            return None

    world = QueueFixture(gates=(Waker(),))
    world.add("a", "b")
    a, b = world.take(), world.take()
    world.fail(a, "Affinity")
    world.fail(b, "Affinity")
    assert world.move(NODE_ADDED) == 1
    assert world.counts() == (1, 1, 0, 0)
