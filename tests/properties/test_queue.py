"""The scheduling queue against a naive model: equal pods in equal tiers after any sequence of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyscheduler.api import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Pod,
    PreQueueingHint,
    QueuedPod,
    QueueingHint,
    Rejection,
)
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue import Backoff, Nominator, QueueProfile, SchedulingQueue
from pyscheduler.core.queue.backlog import SLICE, Backlog, Move
from pyscheduler.core.queue.event_evaluator import Candidate, EventEvaluator
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.core.queue.inflight import InFlight
from pyscheduler.core.queue.ordered import OrderedPods
from pyscheduler.core.queue.rejections import RejectionCounts
from pyscheduler.core.queue.unschedulable import UnschedulablePods
from pyscheduler.testing.builders import pod
from tests.properties.queue_model import (
    INITIAL,
    MAXIMUM,
    TIMEOUT,
    ModelPod,
    ModelQueue,
    devices_care,
    fit_cares,
    nodes_care,
)
from tests.unit.core.queue.queue_fixture import Gate, PrioritySort

EVENTS = {
    "node added": ClusterEvent("Node", Action.ADD),
    "node tainted": ClusterEvent("Node", Action.UPDATE_NODE_TAINT),
    "pod deleted": ClusterEvent("AssignedPod", Action.DELETE),
    "claim added": ClusterEvent("PersistentVolumeClaim", Action.ADD),
    "pod labelled": ClusterEvent("AssignedPod", Action.UPDATE_POD_LABEL),
    "anything": ClusterEvent("*", Action.ALL),
    "CSINode deleted": ClusterEvent("CSINode", Action.DELETE),
    "even claim allocated": ClusterEvent("ResourceClaim", Action.UPDATE, new={"metadata": {"name": "even"}}),
    "devices freed": ClusterEvent("ResourceClaim", Action.DELETE, old={"metadata": {"name": "other"}}),
}
PLUGINS = st.sampled_from(
    [set(), {"Fit"}, {"Claims"}, {"Nodes"}, {"Devices"}, {"Fit", "Claims"}, {"Claims", "Nodes"}, {"Fit", "Devices"}]
)
PENDING = st.sampled_from([set(), set(), set(), {"Claims"}])


class LabelGate(Gate):
    """Reject pods with the label `closed`."""

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return Rejection("closed") if "closed" in pod.labels else None


def _fit_hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return QueueingHint.QUEUE if fit_cares(pod.uid) else QueueingHint.SKIP


def _nodes_hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return QueueingHint.QUEUE if nodes_care(pod.priority) else QueueingHint.SKIP


def _devices_hint(pod: Pod, event: ClusterEvent) -> QueueingHint:
    name = "devices freed" if _frees_devices(event) else "even claim allocated"
    return QueueingHint.QUEUE if devices_care(pod.uid, name) else QueueingHint.SKIP


def _frees_devices(event: ClusterEvent) -> bool:
    return event.new is None


def _claims_of(pod: Pod) -> list[tuple[str, str]]:
    return [("", "even" if int(pod.uid) % 2 == 0 else "odd")]


ON_CLAIM = ClusterEventWithHint(
    "ResourceClaim", Action.UPDATE | Action.DELETE, _devices_hint, PreQueueingHint(_claims_of, _frees_devices)
)
INTERESTS = (
    ("Nodes", ClusterEventWithHint("Node", Action.ADD, _nodes_hint)),
    ("Fit", ClusterEventWithHint("Pod", Action.DELETE, _fit_hint)),
    ("Claims", ClusterEventWithHint("PersistentVolumeClaim", Action.ADD)),
    ("Claims", ClusterEventWithHint("Pod", Action.DELETE)),
    ("Devices", ON_CLAIM),
    ("Gate", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL)),
)


SCOPES = {
    "Fit": HintScope.POD,
    "Devices": HintScope.POD,
    "Nodes": HintScope.SIGNATURE_GROUP,
    "Claims": HintScope.SIGNATURE,
}


def _pod(uid: str, priority: int, closed: bool) -> Pod:
    built = pod(uid).priority(priority)
    return (built.label("closed") if closed else built).build()


class QueueAgainstModel(RuleBasedStateMachine):
    """Each rule applies an operation to the queue and the model; the invariants compare them."""

    slice_pods = SLICE

    def __init__(self) -> None:
        super().__init__()
        profile = QueueProfile(PrioritySort(), (LabelGate(),), INTERESTS, SCOPES)
        backoff = Backoff(INITIAL, MAXIMUM)
        parts = {"default-scheduler": profile}, backoff, Instrument(), Nominator(), PodGroupManager(Instrument())
        self.queue = SchedulingQueue(*parts, TIMEOUT, self.slice_pods)
        self.model = ModelQueue()
        self.now = 0.0
        self.uids = count()
        self.in_flight: dict[str, QueuedPod] = {}
        self.binding: dict[str, QueuedPod] = {}

    def draw_pod(self, data: st.DataObject, *tiers: str) -> ModelPod:
        pods = self.model.place(*tiers) if tiers else list(self.model.pods.values())
        return data.draw(st.sampled_from(pods), label="pod")

    @initialize(priorities=st.lists(st.sampled_from([0, 5]), min_size=3, max_size=6))
    def start(self, priorities: list[int]) -> None:
        for priority in priorities:
            self.add(priority, closed=False)

    @rule(priority=st.sampled_from([0, 0, 5]), closed=st.sampled_from([False, False, True]))
    def add(self, priority: int, closed: bool) -> None:
        uid = str(next(self.uids))
        self.queue.add(_pod(uid, priority, closed), self.now)
        self.model.enter(ModelPod(uid, priority, closed, self.now))

    @precondition(lambda self: self.model.tiers())
    @rule(
        data=st.data(),
        closed=st.booleans(),
        events=st.sampled_from([(), ("pod labelled",), ("CSINode deleted", "pod labelled"), ("claim added",)]),
    )
    def update(self, data: st.DataObject, closed: bool, events: tuple[str, ...]) -> None:
        chosen = self.draw_pod(data, "active", "backoff", "errors", "unschedulable", "gated", "inflight")
        old, new = (_pod(chosen.uid, chosen.priority, candidate) for candidate in (chosen.closed, closed))
        self.queue.update(old, new, [EVENTS[event] for event in events], self.now)
        self.model.update(chosen, closed, events, self.now)

    @precondition(lambda self: self.model.tiers())
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        chosen = self.draw_pod(data, "active", "backoff", "errors", "unschedulable", "gated", "inflight")
        self.queue.add(_pod(chosen.uid, chosen.priority, chosen.closed), self.now)

    @precondition(lambda self: self.model.place("active", "backoff", "errors", "unschedulable", "gated"))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = self.draw_pod(data, "active", "backoff", "errors", "unschedulable", "gated")
        self.queue.delete(chosen.uid)
        del self.model.pods[chosen.uid]

    def moved(self, pods: int) -> None:
        """Check the number of moved pods against the model's."""
        assert self.queue.process_backlog() == pods

    def ticked(self) -> None:
        """Move the pods that the model moved because of time."""
        self.queue.process_backlog()

    def finish(self) -> None:
        """Complete the queue's backlog, as the model has none."""

    @rule()
    def pop(self) -> None:
        self.finish()
        queued = self.queue.pop(self.now)
        allowed = {candidate.uid: candidate for candidate in self.model.best(self.now)}
        if queued is None:
            assert not allowed
            return
        assert queued.pod.uid in allowed
        self.model.popped(allowed[queued.pod.uid])
        self.in_flight[queued.pod.uid] = queued

    @rule(reasons=st.lists(st.tuples(PLUGINS, PENDING), min_size=1, max_size=4))
    def try_and_fail(self, reasons: list[tuple[set[str], set[str]]]) -> None:
        for rejectors, pending in reasons:
            before = set(self.in_flight)
            self.pop()
            for uid in self.in_flight.keys() - before:
                self.fail(uid, rejectors, pending)

    @precondition(lambda self: self.in_flight or self.binding)
    @rule(data=st.data(), rejectors=PLUGINS, pending=PENDING)
    def add_unschedulable(self, data: st.DataObject, rejectors: set[str], pending: set[str]) -> None:
        self.fail(data.draw(st.sampled_from([*self.in_flight, *self.binding]), label="pod"), rejectors, pending)

    def fail(self, uid: str, rejectors: set[str], pending: set[str]) -> None:
        queued = self.in_flight.pop(uid, None) or self.binding.pop(uid)
        chosen = self.model.pods[uid]
        newest = _pod(uid, chosen.priority, chosen.closed)
        self.queue.add_unschedulable(queued, newest, rejectors, pending, self.now)
        self.model.add_unschedulable(chosen, rejectors, pending, self.now)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from([*self.in_flight]), label="pod")
        self.binding[uid] = self.in_flight.pop(uid)
        self.queue.done(uid)
        self.model.pods[uid].tier, self.model.pods[uid].popped_at = "", None

    @precondition(lambda self: self.binding)
    @rule(data=st.data())
    def bound(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from([*self.binding]), label="pod")
        del self.binding[uid], self.model.pods[uid]

    @rule(events=st.lists(st.sampled_from(sorted(EVENTS)), min_size=1, max_size=4))
    def move(self, events: list[str]) -> None:
        for event in events:
            self.queue.move_all(EVENTS[event], self.now)
            self.moved(self.model.move(event, self.now))

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        chosen = self.draw_pod(data)
        self.queue.activate([_pod(chosen.uid, chosen.priority, chosen.closed)], self.now)
        self.model.activate(chosen)

    @rule(
        seconds=st.sampled_from([0.0625, 0.25, 0.5, 1.0, 3.0, 29.75, 120.0]), late=st.sampled_from([False, False, True])
    )
    def pass_time(self, seconds: float, late: bool) -> None:
        self.now += seconds
        if not late:
            if self.model.next_flush <= self.now:
                self.finish()  # a flush that finds pods still to be moved may retry one in flight for nothing
            self.queue.tick(self.now)
            self.model.tick(self.now)
            self.ticked()

    @invariant()
    def every_pod_is_in_one_tier(self) -> None:
        entries = self.queue.dump()
        tiers = {entry.uid: entry.tier.value for entry in entries}
        assert len(tiers) == len(entries), "a pod is in two places"
        assert tiers.keys() == self.model.tiers().keys()
        if self.queue.backlog:
            return
        assert tiers == self.model.tiers()
        counts = self.queue.pending_counts()
        assert all(counts[tier] == list(tiers.values()).count(tier) for tier in counts)

    @invariant()
    def next_wake_matches(self) -> None:
        assert self.queue.backlog or self.queue.next_wake() == self.model.next_wake()

    @invariant()
    def pods_and_reasons_match(self) -> None:
        if self.queue.backlog:
            return
        assert self.queue.rejected_by() == self.model.rejected_by()
        for queued in self.queue.pending():
            chosen = self.model.pods[queued.pod.uid]
            assert ("closed" in queued.pod.labels) == chosen.closed
            assert queued.rejectors == chosen.rejectors | chosen.pending
            assert queued.timestamp == chosen.timestamp


class SlicedQueueAgainstModel(QueueAgainstModel):
    """The queue moves one pod at a time, interleaved with other operations; the model moves all at once."""

    slice_pods = 1

    def moved(self, pods: int) -> None:
        pass

    def ticked(self) -> None:
        pass

    def finish(self) -> None:
        while self.queue.backlog:
            assert self.queue.pop(self.now) is None, "a pod of a higher priority may still become active"
            self.queue.process_backlog()

    @rule()
    def advance(self) -> None:
        self.queue.process_backlog()

    @rule()
    def advance_to_the_end(self) -> None:
        self.finish()


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestSlicedQueueAgainstModel = SlicedQueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestSlicedQueueAgainstModel.settings = TestQueueAgainstModel.settings


def _forget_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def done(self: InFlight, uid: str) -> None:
        self.pods.pop(uid, None)
        self._forgotten += len(self._events)
        self._events.clear()

    monkeypatch.setattr(InFlight, "done", done)


def _move_half(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = EventEvaluator.candidates

    def half(self: EventEvaluator, move: Move, pods: UnschedulablePods) -> Iterator[Candidate | None]:
        move.plugins = move.plugins[:1] if move.plugins else move.plugins
        return candidates(self, move, pods)

    monkeypatch.setattr(EventEvaluator, "candidates", half)


def _keep_in_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderedPods, "remove", OrderedPods.get)


def _count_pods_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = RejectionCounts.counts
    monkeypatch.setattr(RejectionCounts, "counts", lambda self, excluded: counts(self, ()))


def _narrow_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventEvaluator, "is_narrowed", lambda self, plugin, event: plugin[1] == "Devices")


def _forget_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventEvaluator, "objects_of", lambda self, plugin, queued: ())


PLANTS = [
    _forget_events,
    _forget_objects,
    _narrow_all_events,
    _move_half,
    _keep_in_backoff,
    _count_pods_in_flight,
]


@pytest.mark.parametrize("plant", PLANTS)
def test_model_catches_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    _expect_failure(QueueAgainstModel)


def _skip_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulingQueue, "_catch_up", lambda self, uid: None)


def _reverse_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backlog, "first", lambda self: self[-1] if self else None)
    monkeypatch.setattr(Backlog, "finish", lambda self: self.pop())


@pytest.mark.parametrize("plant", [_skip_catch_up, _reverse_backlog])
def test_model_catches_planted_bug_in_slicing(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    _expect_failure(SlicedQueueAgainstModel)


def test_model_catches_hint_shared_by_pods_for_which_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventEvaluator, "scope_of", lambda self, queued: HintScope.SIGNATURE_GROUP)
    machine = QueueAgainstModel()
    machine.start([0, 0])
    machine.try_and_fail([({"Fit"}, set()), ({"Fit"}, set())])
    with pytest.raises(AssertionError):
        machine.move(["pod deleted"])


def _expect_failure(machine: type[QueueAgainstModel]) -> None:
    search = settings(
        TestQueueAgainstModel.settings, max_examples=1500, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with pytest.raises((AssertionError, IndexError, KeyError)):
        run_state_machine_as_test(machine, settings=search)
