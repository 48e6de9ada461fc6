"""Plugins with timers: when they are called, what they evict, and which pods are retried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from pyscheduler.api import (
    TIME,
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeInfo,
    Pod,
    Reads,
    Rejection,
    TimedPlugin,
    TimeUpdate,
)
from pyscheduler.core.instrument import Instrument
from pyscheduler.testing import Harness, node, pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint: {enabled: [{name: "tests.scenarios.test_timers:Opening"}]}
"""
START = 1000.0


class Opening(TimedPlugin, FilterPlugin):
    """Rejects all pods until it opens, 100 s after the start; evicts what runs 200 s after it."""

    name = "Opening"
    reads = Reads.EVERYTHING
    calls: ClassVar[list[float]] = []
    is_broken: ClassVar[bool] = False

    is_open = False

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(TIME, Action.UPDATE),)

    def advance_to(self, now: float) -> TimeUpdate:
        self.calls.append(now - START)
        if self.is_broken:
            raise ValueError("broken")
        before, self.is_open = self.is_open, now >= START + 100
        running = [pod for each in self.handle.nodes.table() for pod in each.pods.values()]
        evicted = tuple((pod, "closed") for pod in running) if now >= START + 200 else ()
        return TimeUpdate(self.is_open != before, evicted)

    def next_time(self) -> float | None:
        return next((START + at for at in (100, 200) if START + at > START + self.calls[-1]), None)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if self.is_open else Rejection("node(s) were closed")


@pytest.fixture(autouse=True)
def _no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opening, "calls", [])


class Failures(Instrument):
    """Records failed calls of plugins."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[tuple[str, str]] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.failed.append((plugin, point))


def test_plugin_is_called_before_the_first_attempt_and_at_each_of_its_times() -> None:
    harness = Harness(CONFIG)
    harness.add(node("n"), pod("a"))
    harness.run()
    assert (Opening.calls, harness.assignments) == ([0], {})
    harness.advance(99)
    assert harness.assignments == {}
    harness.advance(1)
    assert harness.assignments == {"a": "n"}
    harness.advance(1000)
    assert Opening.calls == [0, 100, 200]


def test_pods_of_other_schedulers_are_not_evicted() -> None:
    harness = Harness(CONFIG)
    harness.add(node("n"), pod("a"), pod("b").scheduler("other").on("n"))
    harness.advance(300)
    assert harness.evictions == [(START + 200, "default/a")]
    assert ("TimeElapsed", "closed") in harness.events("a")


def test_plugin_that_raises_is_reported_and_called_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opening, "is_broken", True)
    failures = Failures()
    harness = Harness(CONFIG, instrument=failures)
    harness.add(node("n"), pod("a"))
    harness.advance(150)
    assert Opening.calls == [0, 60, 120]
    assert failures.failed == [("Opening", "AdvanceTo")] * 3
    monkeypatch.setattr(Opening, "is_broken", False)
    harness.advance(40)
    assert harness.assignments == {"a": "n"}


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("advance_to", None),
        ("advance_to", TimeUpdate(evicted=("a",))),  # type: ignore[arg-type]
        ("next_time", "soon"),
        ("next_time", float("nan")),
    ],
)
def test_plugin_that_returns_a_wrong_value_is_reported_and_called_again(
    monkeypatch: pytest.MonkeyPatch, method: str, result: object
) -> None:
    monkeypatch.setattr(Opening, method, lambda *_: result)
    failures = Failures()
    harness = Harness(CONFIG, instrument=failures)
    harness.add(node("n"), pod("a"))
    harness.advance(150)
    assert failures.failed == [("Opening", "AdvanceTo")] * 3


def test_plugin_with_a_next_time_in_the_past_does_not_keep_pods_from_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opening, "next_time", lambda _: START)
    harness = Harness(CONFIG)
    harness.add(node("n"), pod("a"))
    harness.advance(101)
    assert harness.assignments == {"a": "n"}


def test_pods_of_other_profiles_are_not_evicted() -> None:
    harness = Harness(CONFIG + "  - schedulerName: other\n")
    harness.add(node("n"), pod("a"), pod("b").scheduler("other").on("n"))
    harness.advance(300)
    assert harness.evictions == [(START + 200, "default/a")]


def test_new_plugin_of_a_reloaded_configuration_is_called_at_once() -> None:
    harness = Harness()
    harness.add(node("n"))
    harness.advance(150)
    harness.reconfigure(CONFIG)
    harness.add(pod("a"))
    harness.run()
    assert (Opening.calls, harness.assignments) == ([150], {"a": "n"})
