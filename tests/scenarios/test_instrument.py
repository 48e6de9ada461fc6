"""Calls of the instrument: extension points with their status, plugins of observed attempts, and events."""

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


class RecordingPoint(Point):
    def __init__(self, counts: Counter[tuple[str, str]], name: str) -> None:
        self.clock = self.open
        self.counts = counts
        self.name = name
        self.is_open = False

    def open(self) -> float:
        """Return the time of a run that begins."""
        assert not self.is_open
        self.is_open = True
        return 1.0

    def leave(self, status: str = "Success") -> None:
        assert self.is_open
        self.is_open = False
        self.counts[self.name, status] += 1

    def fail(self) -> None:
        if self.is_open:
            self.leave("Error")


class Recorder(Instrument):
    """Instrument that counts its calls; every attempt from number `observed_from` on has an observer."""

    def __init__(self, observed_from: int = 1) -> None:
        self.observed_from = observed_from
        self.points: Counter[tuple[str, str]] = Counter()
        self.plugins: Counter[tuple[str, str, str]] = Counter()
        self.events: list[str] = []
        self.hints: Counter[tuple[str, str, str]] = Counter()
        self.permits: list[str] = []
        self.runs: list[int] = []

    def point(self, point: str, profile: str) -> Point:
        return RecordingPoint(self.points, point)

    def point_took(self, point: str, profile: str, status: str, seconds: float) -> None:
        self.points[point, status] += 1

    def call_observer(self, run: int) -> CallObserver | None:
        self.runs.append(run)
        return self.time if run >= self.observed_from else None

    def time(self, plugin: str, point: str, call: Callable[..., T], *args: Any) -> T:
        result = call(*args)
        self.plugins[plugin, point, status_of(result)] += 1
        return result

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins[plugin, point, status] += 1

    def event_handled(self, event: str, since: float) -> None:
        self.events.append(event)

    def hint_left(self, plugin: str, event: str, result: str) -> None:
        self.hints[plugin, event, result] += 1

    def permit_waited(self, result: str, seconds: float) -> None:
        self.permits.append(result)


def test_bound_pod_is_counted_at_every_point() -> None:
    recorder = Recorder()
    harness = Harness(CONFIG, instrument=recorder)
    harness.add(node("n1"), node("n2"), pod("a"))
    harness.run()
    points = ["PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBindPreFlight"]
    assert recorder.points == dict.fromkeys(
        [(point, "Success") for point in (*points, "PreBind", "Bind", "PostBind")], 1
    )
    ours = {point for plugin, point, _ in recorder.plugins if plugin == "EveryExtensionPoint"}
    expected = {"PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBindPreFlight"}
    assert ours == expected | {"PreBind", "PostBind"}, "DefaultBinder is the Bind plugin"


@pytest.mark.parametrize(
    ("label", "value", "ended"),
    [
        ("fit", "no", [("Filter", "Unschedulable")]),
        ("reserve", "no", [("Reserve", "Unschedulable"), ("Unreserve", "Success")]),
        ("permit", "no", [("Permit", "Unschedulable"), ("Unreserve", "Success")]),
        ("wait", "5", [("Permit", "Wait")]),
        ("preflight", "idle", [("PreBindPreFlight", "Skip"), ("PostBind", "Success")]),
        ("prebind", "no", [("PreBind", "Unschedulable"), ("Unreserve", "Success")]),
    ],
)
def test_points_are_counted_with_their_status(label: str, value: str, ended: list[tuple[str, str]]) -> None:
    recorder = Recorder()
    harness = Harness(CONFIG, instrument=recorder)
    harness.add(node("n1"), pod("a").label(label, value))
    harness.run()
    assert {each: recorder.points[each] for each in ended} == dict.fromkeys(ended, 1)


@pytest.mark.parametrize("point", ["Filter", "Reserve", "Permit"])
def test_point_has_status_error_when_a_plugin_raises(point: str) -> None:
    recorder = Recorder()
    harness = Harness(CONFIG.replace("EveryExtensionPoint", "Broken"), instrument=recorder)
    harness.add(node("n1"), pod("a").label("break", point.lower()), pod("b"))
    harness.run()
    assert recorder.points[point, "Error"] == 1
    assert recorder.points[point, "Success"] == 1
    assert harness.assignments == {"b": "n1"}


def test_permit_waits_are_counted_with_kube_schedulers_results() -> None:
    recorder = Recorder()
    harness = Harness(CONFIG, instrument=recorder)
    harness.add(node("n1"), *(pod(name).label("wait", "5") for name in ("allowed", "late")))
    harness.run()
    allowed, _ = harness.handle.waiting_pods
    allowed.allow("EveryExtensionPoint")
    harness.advance(6)
    assert sorted(recorder.permits)[:2] == ["Success", "Unschedulable"]


def test_plugins_are_timed_only_in_attempts_with_an_observer() -> None:
    recorder = Recorder(observed_from=3)
    harness = Harness(instrument=recorder)
    harness.add(node("n1"), node("n2"), pod("a"), pod("b"))
    harness.run()
    assert recorder.plugins == {}
    harness.add(pod("c"))
    harness.run()
    assert recorder.plugins["NodeResourcesFit", "Score", "Success"] == 1
    assert recorder.plugins["DefaultBinder", "Bind", "Success"] == 1
    assert recorder.plugins["SchedulingGates", "PreEnqueue", "Success"] == 1


def test_attempts_are_numbered_from_one() -> None:
    recorder = Recorder()
    harness = Harness(NO_GATES, instrument=recorder)
    harness.add(node("n1"), *(pod(f"p{i}") for i in range(3)))
    harness.run()
    assert recorder.runs == [1, 2, 3]


def test_every_handled_event_is_reported_by_its_label() -> None:
    recorder = Recorder()
    harness = Harness(instrument=recorder)
    harness.add(node("n1"), pod("a"), pod("theirs").scheduler("other"))
    harness.run()
    harness.add(node("n1").label("zone", "a"))
    harness.add(pod("a").on("n1").label("app", "web"))
    harness.add_object(BUDGETS, {"metadata": {"name": "b", "namespace": "default"}})
    harness.delete_pod("a")
    harness.delete_node("n1")
    assert recorder.events == [
        "NodeAdd",
        "UnscheduledPodAdd",
        "AssignedPodAdd",
        "NodeUpdateNodeLabel",
        "AssignedPodUpdate",
        "policy/PodDisruptionBudgetAdd",
        "AssignedPodDelete",
        "NodeDelete",
    ]


def test_hints_are_counted_by_result() -> None:
    recorder = Recorder()
    harness = Harness(instrument=recorder)
    harness.add(node("n1", cpu="1"), pod("big").requests(cpu="2"))
    harness.run()
    harness.add(node("n2", cpu="1"), node("n3", cpu="4"))
    assert recorder.hints["NodeResourcesFit", "NodeAdd", "QueueSkip"] == 1
    assert recorder.hints["NodeResourcesFit", "NodeAdd", "Queue"] == 1


def test_rejecting_plugins_are_counted_for_pods_in_every_tier() -> None:
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


def test_plugin_evaluations_are_counted_by_point() -> None:
    harness = Harness()
    harness.add(*(node(f"n{i}") for i in range(20)), pod("a"))
    harness.run()
    evaluations = harness.machine.context.profiles["default-scheduler"].evaluations
    first = {(point, plugin): n for point, plugin, n in evaluations}
    assert first["Filter", "NodeResourcesFit"] == 20
    assert first["Score", "NodeResourcesFit"] == 20
    assert first["PreFilter", "NodeResourcesFit"] == 1
    assert first["PreFilter", "NodeAffinity"] == 0, "it skips pods without node affinity"
    assert first["Filter", "NodeAffinity"] == 0
    harness.add(pod("b"))
    harness.run()
    second = {(point, plugin): n for point, plugin, n in evaluations}
    assert second["Filter", "NodeUnschedulable"] == 20, "its results are cached until a node changes"
    assert 20 < second["Filter", "NodeResourcesFit"] < 25, "only the node with the new pod is evaluated again"
    assert second["PreFilter", "NodeResourcesFit"] == 1
