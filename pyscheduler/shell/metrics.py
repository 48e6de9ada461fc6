"""The scheduler's metrics, under kube-scheduler's names, labels and buckets, so that its dashboards work here.

Counting sits on the path of every pod, where prometheus_client's own histograms are too slow. So what happens is only
noted (an integer, or a float at the end of an array), and sorted into buckets by NumPy when the numbers are asked for.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyscheduler.api import StatusError
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Gauge = Callable[[], Mapping[str, float]]
"""Values by label, read when the metrics are asked for."""

_SETTLE_EVERY = 4096
_SLI_ATTEMPTS = 15
_log = logs.get("metrics")


def buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds that grow by `factor`, as Prometheus's ExponentialBuckets."""
    return tuple(start * factor**i for i in range(count))


class Counter:
    """A counter by labels: `counter.counts[labels] += 1`."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
        if not labels:
            self.counts[()] = 0


class Histogram:
    """A histogram by labels: `histogram.noted[labels].append(seconds)`; `settle` sorts what was noted into buckets."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.bounds = np.array(bounds)
        self.counts: dict[tuple[str, ...], Any] = {}
        self.sums: dict[tuple[str, ...], float] = {}
        self.noted: defaultdict[tuple[str, ...], array[float]] = defaultdict(lambda: array("d"))
        if not labels:
            self.noted[()] = array("d")

    def settle(self) -> None:
        """Sort what was noted into buckets, and keep only those."""
        size = len(self.bounds) + 1
        for labels, values in self.noted.items():
            seconds = np.array(values)
            del values[:]
            counts = np.bincount(np.searchsorted(self.bounds, seconds), minlength=size)
            self.counts[labels] = self.counts.get(labels, 0) + counts
            self.sums[labels] = self.sums.get(labels, 0.0) + float(seconds.sum())


class Gauges:
    """A gauge by one label ("" for none), read from elsewhere at the moment of asking."""

    def __init__(self, name: str, help: str, label: str) -> None:
        self.name, self.help, self.label = name, help, label
        self.read: Gauge = dict


class Metrics:
    """All metrics and the registry that serves them. Set `pending_pods.read` and `cache_size.read` once they exist."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts", "Attempts to schedule pods, by result.", ("result", "profile")
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds from the start of an attempt to its end.",
            buckets(0.001, 2, 15),
            ("result", "profile"),
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Seconds of filtering and scoring.",
            buckets(0.001, 2, 15),
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from a pod's first attempt until it was bound.",
            buckets(0.01, 2, 20),
            ("attempts",),
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts", "Attempts that a pod took until it was bound.", buckets(1, 2, 5)
        )
        self.after_flush = Counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods bound in an attempt that only the flush of long unschedulable pods had brought about.",
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods", "Pods added to a queue, by queue and event.", ("queue", "event")
        )
        self.permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Seconds spent waiting on Permit.",
            buckets(0.001, 2, 15),
            ("result",),
        )
        self.preemption_attempts = Counter("scheduler_preemption_attempts", "Times that preemption looked for room.")
        self.preemption_victims = Histogram("scheduler_preemption_victims", "Victims per preemption.", buckets(1, 2, 7))
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds in all plugins of an extension point.",
            buckets(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self.plugin_failures = Counter(
            "pyscheduler_plugin_failures", "Exceptions raised by plugins.", ("plugin", "extension_point")
        )
        self.decode_failures = Counter(
            "pyscheduler_decode_failures", "Objects skipped because they cannot be read.", ("resource",)
        )
        self.events_dropped = Counter("pyscheduler_events_dropped", "Events lost because too many were waiting.")
        self.config_reloads = Counter(
            "pyscheduler_config_reloads", "Changed configuration files, by result.", ("result",)
        )
        self.config_taken = Gauges("pyscheduler_config_last_reload_successful", "1 if the file is what decides.", "")
        self.config_taken.read = lambda: {"": 1.0}
        self.pending_pods = Gauges("scheduler_pending_pods", "Pods waiting, by queue.", "queue")
        self.cache_size = Gauges("scheduler_cache_size", "Nodes, pods and assumed pods known.", "type")
        self._own = [m for m in vars(self).values() if isinstance(m, Counter | Histogram | Gauges)]

    @cached_property
    def registry(self) -> CollectorRegistry:
        """What serves them, made when it is first asked for."""
        from pyscheduler.shell.exposition import registry_of

        return registry_of(self._own)

    def settle(self) -> None:
        """Sort all that was noted into buckets, so that the notes do not grow between two scrapes."""
        for metric in self._own:
            if isinstance(metric, Histogram):
                metric.settle()

    def count_decode_failure(self, resource: str) -> None:
        """For `Refusals`: an object was skipped."""
        self.decode_failures.counts[(resource,)] += 1

    def count_reload(self, taken: bool) -> None:
        """For the `Reloader`: the configuration file has changed, and was taken or refused."""
        self.config_reloads.counts[("success" if taken else "failure",)] += 1
        self.config_taken.read = lambda: {"": float(taken)}

    def count_dropped_event(self) -> None:
        """For the `Recorder`: an Event was lost."""
        self.events_dropped.counts[()] += 1


class MetricsInstrument(Instrument):
    """Notes what the core tells. `clock` must be the one that the machine's times come from."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._incoming = metrics.incoming.counts
        self._attempts = metrics.attempts.counts
        self._points = metrics.point_seconds.noted
        self._attempt_seconds = metrics.attempt_seconds.noted
        self._algorithm = metrics.algorithm_seconds.noted[()]
        self._pod_attempts = metrics.pod_attempts.noted[()]
        self._sli_labels = tuple((str(n) if n < _SLI_ATTEMPTS else "15+",) for n in range(_SLI_ATTEMPTS + 1))
        self._entered: list[float] = []
        self._until_settled = _SETTLE_EVERY

    def queue_incoming(self, queue: str, event: str) -> None:
        self._incoming[queue, event] += 1

    def decided(self, seconds: float) -> None:
        """The decision of one attempt took so long; binding is not in it."""
        self._algorithm.append(seconds)

    def preemption_attempted(self) -> None:
        self._metrics.preemption_attempts.counts[()] += 1

    def preempted(self, victims: int) -> None:
        self._metrics.preemption_victims.noted[()].append(victims)

    def attempted(self, profile: str, result: str, began: float) -> None:
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].append(self._clock() - began)
        self._until_settled -= 1
        if not self._until_settled:
            self._until_settled = _SETTLE_EVERY
            self._metrics.settle()

    def scheduled(self, attempts: int, seconds: float, flushed: bool) -> None:
        self._pod_attempts.append(attempts)
        self._metrics.sli_seconds.noted[self._sli_labels[min(attempts, _SLI_ATTEMPTS)]].append(seconds)
        if flushed:
            self._metrics.after_flush.counts[()] += 1

    def permit_waited(self, result: str, seconds: float) -> None:
        self._metrics.permit_seconds.noted[(result,)].append(seconds)

    def point_entered(self, point: str, profile: str) -> None:  # noqa: ARG002 - `point_left` says it again
        self._entered.append(self._clock())

    def point_left(self, point: str, profile: str, status: str) -> None:
        self._points[point, status, profile].append(self._clock() - self._entered.pop())

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        if isinstance(error, StatusError):
            # Something in the cluster is amiss, and the pod's own event tells it.
            _log.warning("A plugin could not decide", error, plugin=plugin, point=point)
            return
        self._metrics.plugin_failures.counts[plugin, point] += 1
        _log.crash("A plugin raised an exception", error, plugin=plugin, point=point)
