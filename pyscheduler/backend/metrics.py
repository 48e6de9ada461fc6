"""Prometheus metrics of a task backend. docs/tasks.md lists them."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pyscheduler.backend.pods import PodTimes
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.task import TaskPhase, TaskRecord
from pyscheduler.backend.task_table import TaskTable

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
STEPS: Final = ("schedule", "start", "run", "commit", "deliver")
"""Steps of a task whose durations are observed."""


class BackendMetrics:
    """Metrics of one backend in a registry of its own. Any thread may read them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._steps = Histogram(
            "pyscheduler_task_step_duration_seconds",
            "Seconds of each step: schedule (until the pod has a node), start, run, commit, deliver.",
            ("step",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._calls = Histogram(
            "pyscheduler_task_api_call_duration_seconds",
            "Seconds of API calls for pods of tasks, by kind of call and result.",
            ("call", "code"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._attempts = Counter(
            "pyscheduler_task_attempts", "Attempts that have ended, by outcome.", ("outcome",), registry=self.registry
        )
        self._update_failures = Counter(
            "pyscheduler_task_update_failures", "Calls of on_update that raised.", registry=self.registry
        )

    def collect_from(self, table: TaskTable, updates_pending: Callable[[], int], problems: Problems) -> None:
        """Add the metrics that are read from the backend when they are collected."""
        self.registry.register(_StateCollector(table, problems))
        gauge = Gauge("pyscheduler_task_updates_pending", "Tasks with an undelivered update.", registry=self.registry)
        gauge.set_function(updates_pending)

    def observe_step(self, step: str, seconds: float) -> None:
        """Record the duration of a step of a task, one of `STEPS`."""
        self._steps.labels(step).observe(seconds)

    def observe_pod(self, times: PodTimes, now: float) -> None:
        """Record the durations of a pod's steps; the pod has been deleted."""
        if times.bound is None:
            return
        self.observe_step("schedule", times.bound - times.observed)
        if times.running is not None:
            self.observe_step("start", times.running - times.bound)
            self.observe_step("run", (times.stopped if times.stopped is not None else now) - times.running)

    def observe_call(self, call: str, status: int, seconds: float) -> None:
        """Record an API call; `status` is 0 if there was no response."""
        self._calls.labels(call, str(status)).observe(seconds)

    def count_attempt(self, outcome: str) -> None:
        """Count the end of an attempt."""
        self._attempts.labels(outcome).inc()

    def count_update_failure(self) -> None:
        """Count a call of on_update that raised."""
        self._update_failures.inc()

    def text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry).decode()


class _StateCollector(Collector):
    """Collector of the tasks by phase and of the parts with a problem."""

    def __init__(self, table: TaskTable, problems: Problems) -> None:
        self._table, self._problems = table, problems

    def collect(self) -> Iterable[GaugeMetricFamily]:
        records: list[TaskRecord] = list(self._table.durable.values())  # one step, so that any thread may do it
        counts = Counts(record.phase for record in records)
        tasks = GaugeMetricFamily("pyscheduler_tasks", "Tasks by phase.", labels=("phase",))
        for phase in TaskPhase:
            tasks.add_metric((phase.value,), counts[phase])
        yield tasks
        problems = GaugeMetricFamily("pyscheduler_task_problem", "1 for each part that fails now.", labels=("part",))
        for part in self._problems.parts():
            problems.add_metric((part,), 1.0)
        yield problems
