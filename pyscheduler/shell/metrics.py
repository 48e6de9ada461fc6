"""Metrics under kube-scheduler's names, labels and buckets, so that its dashboards work.

docs/metrics.md lists them, with the differences to kube-scheduler's.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyscheduler.api import PluginMetric
from pyscheduler.shell.counting import Counter, Gauges, Histogram, Metric, buckets
from pyscheduler.texts import encodable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_CALL_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BODY_BYTES: Final = (64.0, 256.0, 512.0, *(1024.0 * 4**i for i in range(8)))


class _Family:
    """Group of metrics."""

    @property
    def all(self) -> list[Metric]:
        """All metrics of the group, in order of creation."""
        return [metric for metric in vars(self).values() if isinstance(metric, Metric)]


class AttemptMetrics(_Family):
    """Results and durations of attempts."""

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
            "Pods bound in an attempt that only the flush of long unschedulable pods triggered.",
        )
        self.permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Seconds spent waiting on Permit.",
            buckets(0.001, 2, 15),
            ("result",),
        )
        self.preemption_attempts = Counter("scheduler_preemption_attempts", "Preemption attempts.")
        self.preemption_victims = Histogram("scheduler_preemption_victims", "Victims per preemption.", buckets(1, 2, 7))
        self.preemption_execution_seconds = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Seconds to evict the victims of one pod.",
            buckets(0.01, 2, 20),
            ("result",),
        )
        self.preemption_executions = Counter(
            "scheduler_preemption_goroutines_execution", "Pods with evicted victims, by result.", ("result",)
        )
        self.cache_size = Gauges("scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", ("type",))
        self.goroutines = Gauges("scheduler_goroutines", "Operations in flight outside the loop.", ("operation",))


class QueueMetrics(_Family):
    """Queue lengths, events and queueing hints."""

    def __init__(self) -> None:
        self.pending_pods = Gauges("scheduler_pending_pods", "Pods waiting, by queue.", ("queue",))
        self.unschedulable_pods = Gauges(
            "scheduler_unschedulable_pods",
            "Pods waiting that a plugin rejected; one rejected by several counts with each.",
            ("plugin", "profile"),
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods", "Pods added to a queue, by queue and event.", ("queue", "event")
        )
        self.inflight_events = Gauges(
            "scheduler_inflight_events", "Events stored for in-flight pods, and those pods.", ("event",)
        )
        self.event_seconds = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Seconds to handle a watch event.",
            buckets(0.0001, 2, 12),
            ("event",),
        )
        self.hint_seconds = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Seconds in one call of a plugin's queueing hint.",
            buckets(0.00001, 1.5, 20),
            ("plugin", "event", "hint"),
        )


class PluginMetrics(_Family):
    """Extension points and plugins."""

    def __init__(self) -> None:
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds in all plugins of an extension point.",
            buckets(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds in one call of a plugin, sampled in one of ten attempts.",
            buckets(0.00001, 1.5, 20),
            ("plugin", "extension_point", "status"),
        )
        self.evaluations = Counter(
            "scheduler_plugin_evaluation",
            "Evaluations by a plugin of a pod, or of a pod and a node.",
            ("plugin", "extension_point", "profile"),
        )
        self.plugin_failures = Counter(
            "pyscheduler_plugin_failures", "Exceptions raised by plugins.", ("plugin", "extension_point")
        )
        self.held_up = Gauges(
            "pyscheduler_bindings_held_up",
            "Pods that a slow plugin keeps in the binding cycle.",
            ("plugin", "extension_point"),
        )
        self.called_off = Counter(
            "pyscheduler_bindings_called_off",
            "Binding cycles cancelled while a plugin was running: gone, preempted, timeout.",
            ("plugin", "extension_point", "reason"),
        )


class ProcessMetrics(_Family):
    """Metrics of the process and its API server calls, under the names of Kubernetes components."""

    def __init__(self) -> None:
        self.requests = Counter(
            "rest_client_requests", "Calls to the API server, by status code.", ("code", "method", "host")
        )
        self.retries = Counter("rest_client_request_retries", "Retried calls.", ("code", "verb", "host"))
        self.request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Seconds of a call, including retries.",
            _CALL_SECONDS,
            ("verb", "host"),
        )
        self.limiter_seconds = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that a call waited for the rate limiter (clientConnection.qps).",
            _CALL_SECONDS,
            ("verb", "host"),
        )
        self.request_bytes = Histogram(
            "rest_client_request_size_bytes", "Bytes of a request body.", _BODY_BYTES, ("verb", "host")
        )
        self.response_bytes = Histogram(
            "rest_client_response_size_bytes", "Bytes of a response body.", _BODY_BYTES, ("verb", "host")
        )
        self.features = Gauges("kubernetes_feature_enabled", "1 if a feature gate is on.", ("name", "stage"))
        self.decode_failures = Counter(
            "pyscheduler_decode_failures", "Objects that could not be decoded completely.", ("resource",)
        )
        self.events_dropped = Counter(
            "pyscheduler_events_dropped",
            "Events lost: the queue was full, the server rejected them or was unavailable.",
        )
        self.config_reloads = Counter(
            "pyscheduler_config_reloads", "Reloads of a changed configuration file, by result.", ("result",)
        )
        self.config_reloads.start_at_zero(lambda: [("success",), ("failure",)])
        self.config_reload_succeeded = Gauges(
            "pyscheduler_config_last_reload_successful", "1 if the last reload succeeded.", ()
        )
        self.config_reload_succeeded.set_function(lambda: {(): 1.0})
        self.recording = Gauges("pyscheduler_recording_active", "1 while decisions are recorded (`--record`).", ())
        self.recorded_bytes = Gauges("pyscheduler_recording_bytes", "Size of the current recording.", ())


class ThreadMetrics(_Family):
    """Metrics that are safe to read in any thread, even while the loop is blocked."""

    def __init__(self) -> None:
        self.leading = Gauges(
            "leader_election_master_status", "1 while this process holds the lease, 0 while it waits.", ("name",)
        )
        self.slow_renewals = Counter(
            "leader_election_slowpath", "Renewals that had to read the lease first.", ("name",)
        )
        self.loop_blocked = Gauges(
            "pyscheduler_loop_blocked_seconds",
            "Seconds for which the loop has been blocked, by the plugin that blocks it; absent while it runs.",
            ("plugin", "extension_point"),
        )
        self.loop_blocks = Counter(
            "pyscheduler_loop_blocks",
            "Times that the loop was blocked for more than a second, by the plugin that blocked it.",
            ("plugin", "extension_point"),
        )
        self.loop_blocks.start_at_zero(lambda: [("", "")])


class Metrics(AttemptMetrics, QueueMetrics, PluginMetrics, ProcessMetrics, ThreadMetrics):
    """All metrics and the registry that serves them. Gauges have no values until their `read` is set."""

    def __init__(self) -> None:
        self._of_plugins: dict[PluginMetric, Counter | Histogram] = {}
        ThreadMetrics.__init__(self)
        self.of_threads: Final = self.all
        """Metrics that are safe to read in any thread; the others belong to the loop."""
        AttemptMetrics.__init__(self)
        QueueMetrics.__init__(self)
        PluginMetrics.__init__(self)
        ProcessMetrics.__init__(self)
        self._histograms = [metric for metric in self.all if isinstance(metric, Histogram)]
        self._names = {metric.name for metric in self.all}

    @property
    def all(self) -> list[Metric]:
        """All metrics: those of the scheduler, then those of plugins that have been observed."""
        return [*super().all, *self._of_plugins.values()]

    def observe(self, metric: PluginMetric, labels: tuple[str, ...], value: float) -> None:
        """Add a value to a plugin's metric. ValueError if its name is in use, or the labels are not those of it.

        TypeError if a label is no str: one such label would fail the whole page.
        """
        if len(labels) != len(metric.labels):
            raise ValueError(f"metric {metric.name} has {len(metric.labels)} labels, not {len(labels)}")
        labels = tuple(map(encodable, labels))
        known = self._of_plugins.get(metric) or self._add(metric)
        if isinstance(known, Histogram):
            known.observed[labels].append(value)
        else:
            known.counts[labels] += value

    def _add(self, metric: PluginMetric) -> Counter | Histogram:
        if metric.name in self._names:
            raise ValueError(f"the name of metric {metric.name} is in use")
        created: Counter | Histogram
        if metric.buckets:
            created = Histogram(metric.name, metric.help, metric.buckets, metric.labels)
            self._histograms.append(created)
        else:
            created = Counter(metric.name, metric.help, metric.labels)
        self._names.add(metric.name)
        self._of_plugins[metric] = created
        return created

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Registry for the loop's thread, created on first use."""
        from pyscheduler.shell.prometheus_text import build_registry

        return build_registry(lambda: self.all)

    def copies(self) -> list[Metric]:
        """Return copies of the loop's metrics, for another thread to read."""
        return [metric.copy() for metric in self.all if metric not in self.of_threads]

    def aggregate(self) -> None:
        """Sort the recorded values into buckets, which bounds their memory between two scrapes."""
        for histogram in self._histograms:
            histogram.aggregate()

    def reset(self) -> None:
        """Set counters and histograms to 0, as `DELETE /metrics` does in kube-scheduler; gauges are unaffected."""
        for metric in self.all:
            if isinstance(metric, Counter | Histogram):
                metric.reset()

    def count_decode_failure(self, resource: str) -> None:
        """Count an object that `Refusals` reported."""
        self.decode_failures.counts[(resource,)] += 1

    def count_slow_renewal(self, name: str) -> None:
        """Count a renewal for which the election had to read the lease first."""
        self.slow_renewals.counts[(name,)] += 1

    def count_reload(self, succeeded: bool) -> None:
        """Count a reload of the configuration file; `succeeded` is False if it was invalid."""
        self.config_reloads.counts[("success" if succeeded else "failure",)] += 1
        self.config_reload_succeeded.set_function(lambda: {(): float(succeeded)})

    def count_dropped_event(self) -> None:
        """Count an Event that the `Recorder` dropped."""
        self.events_dropped.counts[()] += 1
