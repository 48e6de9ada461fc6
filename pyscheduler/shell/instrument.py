"""Instrument that records the durations and counts of core and shell in the metrics."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pyscheduler import logs
from pyscheduler.api import StatusError
from pyscheduler.api.cycle import CallObserver
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.framework.plugin_failure import code_line, raised_at
from pyscheduler.core.instrument import ERROR, SUCCESS, Instrument, Point, status_of
from pyscheduler.kube.client_metrics import ClientMetrics
from pyscheduler.shell.counting import Labels
from pyscheduler.shell.metrics import Metrics

T = TypeVar("T")
OBSERVED_EVERY: Final = 10
"""One attempt of so many has its plugins timed; kube-scheduler samples the same share at random."""
_AGGREGATE_EVERY = 4096
_SLI_ATTEMPTS = 15
_log = logs.get("metrics")


class MetricsInstrument(Instrument):
    """Records into `metrics`. `clock` must be the clock of the core's timestamps."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = self.timer = clock
        self._incoming = metrics.incoming.counts
        self._attempts = metrics.attempts.counts
        self._known_points: dict[tuple[str, str], Point] = {}
        self._points = metrics.point_seconds.observed
        self._plugins = metrics.plugin_seconds.observed
        self._events = metrics.event_seconds.observed
        self._hints = metrics.hint_seconds.observed
        self._attempt_seconds = metrics.attempt_seconds.observed
        self.decided = metrics.algorithm_seconds.observed[()].append
        """Records the seconds of one scheduling decision, binding excluded."""
        self._pod_attempts = metrics.pod_attempts.observed[()]
        self._sli_labels = tuple((str(n) if n < _SLI_ATTEMPTS else "15+",) for n in range(_SLI_ATTEMPTS + 1))
        self._hint_entered = 0.0
        self._until_aggregation = _AGGREGATE_EVERY
        self._ignored_groups: set[tuple[str, str]] = set()
        """Profiles with the declarations of groups that are in the log already."""
        self._log_limit = logs.RateLimit(clock)

    def queue_incoming(self, queue: str, event: str) -> None:
        self._incoming[queue, event] += 1

    def event_handled(self, event: str, since: float) -> None:
        self._events[(event,)].append(self._clock() - since)

    def preemption_attempted(self) -> None:
        self._metrics.preemption_attempts.counts[()] += 1

    def preempted(self, victims: int) -> None:
        self._metrics.preemption_victims.observed[()].append(victims)

    def evictions_finished(self, result: str, seconds: float) -> None:
        self._metrics.preemption_executions.counts[(result,)] += 1
        self._metrics.preemption_execution_seconds.observed[(result,)].append(seconds)

    def attempted(self, profile: str, result: str, began: float) -> None:
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].append(self._clock() - began)
        self._until_aggregation -= 1
        if not self._until_aggregation:
            self._until_aggregation = _AGGREGATE_EVERY
            self._metrics.aggregate()

    def scheduled(self, attempts: int, seconds: float, flushed: bool) -> None:
        self._pod_attempts.append(attempts)
        self._metrics.sli_seconds.observed[self._sli_labels[min(attempts, _SLI_ATTEMPTS)]].append(seconds)
        if flushed:
            self._metrics.after_flush.counts[()] += 1

    def permit_waited(self, result: str, seconds: float) -> None:
        self._metrics.permit_seconds.observed[(result,)].append(seconds)

    def point(self, point: str, profile: str) -> Point:
        known = self._known_points.get((point, profile))
        if known is None:
            known = self._known_points[point, profile] = _TimedPoint(self._points, point, profile, self._clock)
        return known

    def point_took(self, point: str, profile: str, status: str, seconds: float) -> None:
        self._points[point, status, profile].append(seconds)

    def call_observer(self, run: int) -> CallObserver | None:
        return self._observe_call if run % OBSERVED_EVERY == 1 else None

    def _observe_call(self, plugin: str, point: str, call: Callable[..., T], *args: Any) -> T:
        status, began = ERROR, self._clock()
        try:
            result = call(*args)
            status = status_of(result)
            return result
        finally:
            self._plugins[plugin, point, status].append(self._clock() - began)

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins[plugin, point, status].append(seconds)

    def binding_cancelled(self, plugin: str, point: str, reason: str) -> None:
        self._metrics.called_off.counts[plugin, point, reason] += 1

    def hint_entered(self) -> None:
        self._hint_entered = self._clock()

    def hint_left(self, plugin: str, event: str, result: str) -> None:
        self._hints[plugin, event, result].append(self._clock() - self._hint_entered)

    def pod_group_ignored(self, profile: str, declaration: str) -> None:
        if (profile, declaration) not in self._ignored_groups:
            self._ignored_groups.add((profile, declaration))
            text = "Pods declare groups that no plugin reads, scheduling them one by one"
            _log.warning(text, profile=profile, declaration=declaration)

    def queue_ignored(self, profile: str, declaration: str) -> None:
        if (profile, declaration) not in self._ignored_groups:
            self._ignored_groups.add((profile, declaration))
            _log.warning("Pods name queues that no plugin reads", profile=profile, declaration=declaration)

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        is_status = isinstance(error, StatusError)
        if not is_status:
            self._metrics.plugin_failures.counts[plugin, point] += 1
        # The text may contain the pod's name, so it is no part of the key; the pod's Event has it.
        at = code_line(error)
        suppressed = self._log_limit.take((plugin, point, type(error), at, raised_at(error)))
        if suppressed is None:
            return
        fields = {"plugin": plugin, "point": point, **suppressed}
        if is_status:
            # A problem of the cluster, not of the plugin.
            _log.warning("Plugin returned an error status", error, **fields)
        elif isinstance(error, InvalidReturnValue):
            _log.error("Plugin returned an invalid value", error, at=at, **fields)
        else:
            _log.crash("Plugin raised an exception", error, at=at, **fields)


class _TimedPoint(Point):
    """Records the duration of an extension point; the array for SUCCESS, the usual status, is looked up once."""

    def __init__(
        self, observed: Mapping[Labels, array[float]], point: str, profile: str, clock: Callable[[], float]
    ) -> None:
        self.clock = clock
        self._observed = observed
        self._point = point
        self._profile = profile
        self._succeeded = observed[point, SUCCESS, profile]

    def leave(self, status: str = SUCCESS) -> None:
        seconds = self.clock() - self.began
        self.began = 0.0
        if status is SUCCESS:
            self._succeeded.append(seconds)
        else:
            self._observed[self._point, status, self._profile].append(seconds)

    def fail(self) -> None:
        if self.began:
            self.leave(ERROR)


class _Calls(NamedTuple):
    """Arrays that record the calls of one HTTP method."""

    waited: array[float]
    sent: array[float]
    received: array[float]
    took: array[float]


class _CallsByMethod(dict[str, _Calls]):
    """Arrays of each method, looked up in the metrics once."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._metrics = metrics
        self._host = host

    def __missing__(self, method: str) -> _Calls:
        metrics, labels = self._metrics, (method, self._host)
        histograms = metrics.limiter_seconds, metrics.request_bytes, metrics.response_bytes, metrics.request_seconds
        calls = self[method] = _Calls(*(histogram.observed[labels] for histogram in histograms))
        return calls


class RestClientMetrics(ClientMetrics):
    """Client metrics of one API server, given by its URL, as client-go's."""

    def __init__(self, metrics: Metrics, server: str) -> None:
        self._host = urlsplit(server).netloc
        self._metrics = metrics
        self._calls = _CallsByMethod(metrics, self._host)

    def observe_rate_limiter_wait(self, method: str, seconds: float) -> None:
        self._calls[method].waited.append(seconds)

    def count_result(self, method: str, status: int, again: bool) -> None:
        labels = (str(status) if status else "<error>", method, self._host)
        self._metrics.requests.counts[labels] += 1
        if again:
            self._metrics.retries.counts[labels] += 1

    def observe_sizes(self, method: str, sent: int, received: int) -> None:
        calls = self._calls[method]
        calls.sent.append(sent)
        calls.received.append(received)

    def observe_latency(self, method: str, seconds: float) -> None:
        self._calls[method].took.append(seconds)
