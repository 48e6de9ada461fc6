"""What the instrument is told: every extension point and how it ended, the plugins of some attempts, every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pyscheduler.api.cycle import CallObserver
from pyscheduler.core.instrument import Instrument, Point, status_of
from pyscheduler.intree.default_preemption import DefaultPreemption
from pyscheduler.testing import Harness, node, pod
from tests.scenarios.test_permit import CONFIG

T = TypeVar("T")
(BUDGETS,) = DefaultPreemption.watches
NO_GATES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {preEnqueue: {disabled: [{name: "*"}]}}
"""


class Recorded(Point):
    def __init__(self, told: Counter[tuple[str, str]], name: str) -> None:
        self.told = told
        self.name = name
        self.is_open = False

    def enter(self) -> None:
        assert not self.is_open
        self.is_open = True

    def leave(self, status: str = "Success") -> None:
        assert self.is_open
        self.is_open = False
        self.told[self.name, status] += 1

    def broken(self) -> None:
        if self.is_open:
            self.leave("Error")


class Recorder(Instrument):
    """Writes down how often it was told what; every attempt from `watched` on is watched."""

    def __init__(self, watched: int = 1) -> None:
        self.watched = watched
        self.points: Counter[tuple[str, str]] = Counter()
        self.plugins: Counter[tuple[str, str, str]] = Counter()
        self.events: list[str] = []
        self.hints: Counter[tuple[str, str, str]] = Counter()
        self.permits: list[str] = []
        self.turns: list[int] = []

    def point(self, point: str, profile: str) -> Point:
        return Recorded(self.points, point)

    def point_took(self, point: str, profile: str, status: str, seconds: float) -> None:
        self.points[point, status] += 1

    def watch(self, turn: int) -> CallObserver | None:
        self.turns.append(turn)
        return self.time if turn >= self.watched else None

    def time(self, plugin: str, point: str, call: Callable[..., T], *args: Any) -> T:
        answer = call(*args)
        self.plugins[plugin, point, status_of(answer)] += 1
        return answer

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins[plugin, point, status] += 1

    def event_handled(self, event: str, since: float) -> None:
        self.events.append(event)

    def hint_left(self, plugin: str, event: str, answer: str) -> None:
        self.hints[plugin, event, answer] += 1

    def permit_waited(self, result: str, seconds: float) -> None:
        self.permits.append(result)


def test_a_pod_that_is_bound_passes_every_point() -> None:
    told = Recorder()
    harness = Harness(CONFIG, instrument=told)
    harness.add(node("n1"), node("n2"), pod("a"))
    harness.run()
    passed = ["PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBindPreFlight"]
    assert told.points == dict.fromkeys([(point, "Success") for point in (*passed, "PreBind", "Bind", "PostBind")], 1)
    ours = {point for plugin, point, _ in told.plugins if plugin == "EveryExtensionPoint"}
    expected = {"PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBindPreFlight"}
    assert ours == expected | {"PreBind", "PostBind"}, "DefaultBinder has bound it"


@pytest.mark.parametrize(
    ("point", "answer", "ended"),
    [
        ("fit", "no", [("Filter", "Unschedulable")]),
        ("reserve", "no", [("Reserve", "Unschedulable"), ("Unreserve", "Success")]),
        ("permit", "no", [("Permit", "Unschedulable"), ("Unreserve", "Success")]),
        ("wait", "5", [("Permit", "Wait")]),
        ("preflight", "idle", [("PreBindPreFlight", "Skip"), ("PostBind", "Success")]),
        ("prebind", "no", [("PreBind", "Unschedulable"), ("Unreserve", "Success")]),
    ],
)
def test_a_point_is_told_with_what_came_of_it(point: str, answer: str, ended: list[tuple[str, str]]) -> None:
    told = Recorder()
    harness = Harness(CONFIG, instrument=told)
    harness.add(node("n1"), pod("a").label(point, answer))
    harness.run()
    assert {each: told.points[each] for each in ended} == dict.fromkeys(ended, 1)


@pytest.mark.parametrize("point", ["Filter", "Reserve", "Permit"])
def test_a_point_whose_plugin_raises_ends_in_error(point: str) -> None:
    told = Recorder()
    harness = Harness(CONFIG.replace("EveryExtensionPoint", "Broken"), instrument=told)
    harness.add(node("n1"), pod("a").label("break", point.lower()), pod("b"))
    harness.run()
    assert told.points[point, "Error"] == 1
    assert told.points[point, "Success"] == 1
    assert harness.assignments == {"b": "n1"}


def test_waits_of_permit_end_in_kube_schedulers_words() -> None:
    told = Recorder()
    harness = Harness(CONFIG, instrument=told)
    harness.add(node("n1"), *(pod(name).label("wait", "5") for name in ("let-go", "late")))
    harness.run()
    let_go, _ = harness.handle.waiting_pods()
    let_go.allow("EveryExtensionPoint")
    harness.advance(6)
    assert sorted(told.permits)[:2] == ["Success", "Unschedulable"]


def test_only_attempts_that_are_watched_have_their_plugins_timed() -> None:
    told = Recorder(watched=3)
    harness = Harness(instrument=told)
    harness.add(node("n1"), node("n2"), pod("a"), pod("b"))
    harness.run()
    assert told.plugins == {}
    harness.add(pod("c"))
    harness.run()
    assert told.plugins["NodeResourcesFit", "Score", "Success"] == 1
    assert told.plugins["DefaultBinder", "Bind", "Success"] == 1
    assert told.plugins["SchedulingGates", "PreEnqueue", "Success"] == 1


def test_attempts_are_numbered_from_one() -> None:
    told = Recorder()
    harness = Harness(NO_GATES, instrument=told)
    harness.add(node("n1"), *(pod(f"p{i}") for i in range(3)))
    harness.run()
    assert told.turns == [1, 2, 3]


def test_every_event_that_concerns_us_is_told_by_its_label() -> None:
    told = Recorder()
    harness = Harness(instrument=told)
    harness.add(node("n1"), pod("a"), pod("theirs").scheduler("other"))
    harness.run()
    harness.add(node("n1").label("zone", "a"))
    harness.add(pod("a").on("n1").label("app", "web"))
    harness.add_object(BUDGETS, {"metadata": {"name": "b", "namespace": "default"}})
    harness.delete_pod("a")
    harness.delete_node("n1")
    assert told.events == [
        "NodeAdd",
        "UnschedulablePodAdd",
        "AssignedPodAdd",
        "NodeUpdateNodeLabel",
        "AssignedPodUpdate",
        "policy/PodDisruptionBudgetAdd",
        "AssignedPodDelete",
        "NodeDelete",
    ]


def test_hints_are_told_with_their_answers() -> None:
    told = Recorder()
    harness = Harness(instrument=told)
    harness.add(node("n1", cpu="1"), pod("big").requests(cpu="2"))
    harness.run()
    harness.add(node("n2", cpu="1"), node("n3", cpu="4"))
    assert told.hints["NodeResourcesFit", "NodeAdd", "QueueSkip"] == 1
    assert told.hints["NodeResourcesFit", "NodeAdd", "Queue"] == 1


def test_who_keeps_pods_waiting_is_told_in_whichever_tier_they_are() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), pod("big").requests(cpu="2"), pod("bigger").requests(cpu="3"))
    harness.add(pod("gated").gate("example.com/later"))
    harness.run()
    queue = harness.machine.context.queue
    fit, gate = ("NodeResourcesFit", "default-scheduler"), ("SchedulingGates", "default-scheduler")
    assert queue.rejected_by() == {fit: 2, gate: 1}
    harness.add(node("n2", cpu="2"))
    assert queue.pending_counts()["backoff"] == 1
    assert queue.rejected_by() == {fit: 2, gate: 1}
    harness.advance(5)
    assert queue.rejected_by() == {fit: 1, gate: 1}


def test_plugins_are_counted_where_they_are_asked() -> None:
    harness = Harness()
    harness.add(*(node(f"n{i}") for i in range(20)), pod("a"))
    harness.run()
    evaluations = harness.machine.context.profiles["default-scheduler"].evaluations
    asked = {(point, plugin): n for point, plugin, n in evaluations}
    assert asked["Filter", "NodeResourcesFit"] == 20
    assert asked["Score", "NodeResourcesFit"] == 20
    assert asked["PreFilter", "NodeResourcesFit"] == 1
    assert asked["PreFilter", "NodeAffinity"] == 0, "it leaves itself out of pods that ask for no node"
    assert asked["Filter", "NodeAffinity"] == 0
    harness.add(pod("b"))
    harness.run()
    again = {(point, plugin): n for point, plugin, n in evaluations}
    assert again["Filter", "NodeUnschedulable"] == 20, "what it said of a node object is kept"
    assert 20 < again["Filter", "NodeResourcesFit"] < 25, "one node has another pod since"
    assert again["PreFilter", "NodeResourcesFit"] == 1
