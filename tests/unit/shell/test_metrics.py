"""Metrics in Prometheus's format."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.api import SKIP, ClearNomination, PluginMetric, Rejection, StatusError, Wait
from pyscheduler.config.load import from_value
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.counting import Histogram, buckets
from pyscheduler.shell.instrument import OBSERVED_EVERY, MetricsInstrument, RestClientMetrics
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.prometheus_text import bound_as_go_prints, to_metric_family
from pyscheduler.shell.scheduler import Connections, Scheduler
from tests.unit.kube.virtual import VirtualClock


class Ticking:
    """A clock that advances by one second at each read."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def instrument(metrics: Metrics) -> MetricsInstrument:
    return MetricsInstrument(metrics, Ticking())


def samples(metrics: Metrics) -> dict[str, float]:
    """Return all samples by name and labels."""
    text = generate_latest(metrics.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_metrics_of_a_scheduled_pod(metrics: Metrics, instrument: MetricsInstrument) -> None:
    instrument.queue_incoming("active", "UnscheduledPodAdd")
    instrument.point("Filter", "p").enter()
    instrument.point("PostFilter", "p").enter()
    instrument.point("PostFilter", "p").leave("Unschedulable")
    instrument.point("Filter", "p").leave()
    instrument.point_took("Bind", "p", "Success", 0.25)
    instrument.event_handled("NodeAdd", since=5.0)
    instrument.hint_entered()
    instrument.hint_left("Fit", "AssignedPodDelete", "Queue")
    instrument.evictions_finished("success", 0.5)
    instrument.decided(0.003)
    instrument.attempted("p", "scheduled", began=1.0)
    instrument.scheduled(2, 0.5, flushed=True)
    instrument.permit_waited("Success", 0.2)
    instrument.preemption_attempted()
    instrument.preempted(3)
    got = samples(metrics)
    expected = {
        "scheduler_queue_incoming_pods_total{event=UnscheduledPodAdd,queue=active}": 1,
        "scheduler_schedule_attempts_total{profile=p,result=scheduled}": 1,
        "scheduler_scheduling_attempt_duration_seconds_sum{profile=p,result=scheduled}": 7,
        "scheduler_event_handling_duration_seconds_count{event=NodeAdd}": 1,
        "scheduler_queueing_hint_execution_duration_seconds_sum{event=AssignedPodDelete,hint=Queue,plugin=Fit}": 1,
        "scheduler_preemption_goroutines_execution_total{result=success}": 1,
        "scheduler_preemption_goroutines_duration_seconds_sum{result=success}": 0.5,
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=0.002}": 0,
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=0.004}": 1,
        "scheduler_pod_scheduling_attempts_bucket{le=1}": 0,
        "scheduler_pod_scheduling_attempts_bucket{le=2}": 1,
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=2}": 0.5,
        "scheduler_pod_scheduled_after_flush_total": 1,
        "scheduler_permit_wait_duration_seconds_count{result=Success}": 1,
        "scheduler_preemption_attempts_total": 1,
        "scheduler_preemption_victims_bucket{le=2}": 0,
        "scheduler_preemption_victims_bucket{le=4}": 1,
    }
    point = "scheduler_framework_extension_point_duration_seconds_sum{extension_point=%s,profile=p,status=%s}"
    expected |= {
        point % ("Filter", "Success"): 3,
        point % ("PostFilter", "Unschedulable"): 1,
        point % ("Bind", "Success"): 0.25,
    }
    assert {name: got.get(name) for name in expected} == expected


def test_extension_point_that_raises_has_status_error(metrics: Metrics, instrument: MetricsInstrument) -> None:
    point = instrument.point("Score", "p")
    point.enter()
    point.fail()
    point.enter()
    point.leave()
    point.fail()
    counted = "scheduler_framework_extension_point_duration_seconds_count{extension_point=Score,profile=p,status=%s}"
    got = samples(metrics)
    assert (got[counted % "Error"], got[counted % "Success"]) == (1, 1)


def test_unused_labels_have_no_samples(metrics: Metrics, instrument: MetricsInstrument) -> None:
    instrument.point("Permit", "p")
    assert not any("extension_point=Permit" in name for name in samples(metrics))


def test_reset_sets_counts_to_0_and_later_updates_count(metrics: Metrics, instrument: MetricsInstrument) -> None:
    point = instrument.point("Filter", "p")
    for _ in range(2):
        point.enter()
        point.leave()
        instrument.decided(0.1)
        instrument.preemption_attempted()
        assert samples(metrics)["scheduler_preemption_attempts_total"] == 1
        got = samples(metrics)
        assert got["scheduler_scheduling_algorithm_duration_seconds_count"] == 1
        labels = "extension_point=Filter,profile=p,status=Success"
        assert got[f"scheduler_framework_extension_point_duration_seconds_count{{{labels}}}"] == 1
        metrics.reset()
    assert samples(metrics)["scheduler_preemption_attempts_total"] == 0


def test_plugins_are_timed_in_one_of_ten_attempts(instrument: MetricsInstrument) -> None:
    runs = [run for run in range(1, 40) if instrument.call_observer(run) is not None]
    assert runs == [1, 11, 21, 31]
    assert OBSERVED_EVERY == 10


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "Success"),
        (7, "Success"),
        (SKIP, "Skip"),
        (Wait(1.0), "Wait"),
        (Rejection("no"), "Unschedulable"),
        (Rejection("no", resolvable=False), "UnschedulableAndUnresolvable"),
        (Rejection("no", pending=True), "Pending"),
        (ClearNomination(Rejection("no")), "Unschedulable"),
    ],
)
def test_timed_call_has_the_status_of_its_return_value(
    metrics: Metrics, instrument: MetricsInstrument, answer: object, status: str
) -> None:
    observe = instrument.call_observer(1)
    assert observe is not None
    assert observe("Fit", "Filter", lambda x: x, answer) is answer
    labels = f"extension_point=Filter,plugin=Fit,status={status}"
    assert samples(metrics)[f"scheduler_plugin_execution_duration_seconds_sum{{{labels}}}"] == 1


def test_timed_call_that_raises_has_status_error(metrics: Metrics, instrument: MetricsInstrument) -> None:
    observe = instrument.call_observer(1)
    assert observe is not None
    with pytest.raises(ValueError, match="invalid literal"):
        observe("Fit", "Score", int, "x")
    labels = "extension_point=Score,plugin=Fit,status=Error"
    assert samples(metrics)[f"scheduler_plugin_execution_duration_seconds_count{{{labels}}}"] == 1


def test_calls_to_the_api_server_are_counted_as_in_client_go(metrics: Metrics) -> None:
    client_metrics = RestClientMetrics(metrics, "https://10.0.0.1:6443")
    client_metrics.observe_rate_limiter_wait("POST", 0.0)
    client_metrics.count_result("POST", 429, again=False)
    client_metrics.count_result("POST", 201, again=True)
    client_metrics.count_result("GET", 0, again=False)
    client_metrics.observe_sizes("POST", sent=100, received=5000)
    client_metrics.observe_latency("POST", 1.5)
    got, host = samples(metrics), "host=10.0.0.1:6443"
    assert got[f"rest_client_requests_total{{code=429,{host},method=POST}}"] == 1
    assert got[f"rest_client_requests_total{{code=201,{host},method=POST}}"] == 1
    assert got[f"rest_client_requests_total{{code=<error>,{host},method=GET}}"] == 1
    assert got[f"rest_client_request_retries_total{{code=201,{host},verb=POST}}"] == 1
    assert f"rest_client_request_retries_total{{code=429,{host},verb=POST}}" not in got
    assert got[f"rest_client_request_size_bytes_bucket{{{host},le=256,verb=POST}}"] == 1
    assert got[f"rest_client_response_size_bytes_sum{{{host},verb=POST}}"] == 5000
    assert got[f"rest_client_request_duration_seconds_sum{{{host},verb=POST}}"] == 1.5
    assert got[f"rest_client_rate_limiter_duration_seconds_count{{{host},verb=POST}}"] == 1


def test_15_or_more_attempts_share_a_label(metrics: Metrics, instrument: MetricsInstrument) -> None:
    for attempts in (14, 15, 99):
        instrument.scheduled(attempts, 1.0, flushed=False)
    got = samples(metrics)
    assert got["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=14}"] == 1
    assert got["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=15+}"] == 2


def test_metrics_without_labels_start_at_0(metrics: Metrics) -> None:
    got = samples(metrics)
    assert got["scheduler_pod_scheduled_after_flush_total"] == 0
    assert got["pyscheduler_events_dropped_total"] == 0
    assert got["scheduler_pod_scheduling_attempts_count"] == 0
    assert got["scheduler_pod_scheduling_attempts_bucket{le=+Inf}"] == 0


def test_gauges_are_read_at_scrape_time(metrics: Metrics) -> None:
    waiting = {"active": 1.0, "backoff": 0.0}
    metrics.pending_pods.set_function(lambda: waiting)
    metrics.cache_size.set_function(lambda: {("nodes",): 5})
    metrics.evaluations.set_function(lambda: {("Fit", "Filter", "p"): 12})
    waiting["active"] = 7
    got = samples(metrics)
    assert got["scheduler_pending_pods{queue=active}"] == 7
    assert got["scheduler_cache_size{type=nodes}"] == 5
    assert got["scheduler_plugin_evaluation_total{extension_point=Filter,plugin=Fit,profile=p}"] == 12


def test_pyschedulers_own_metrics(
    metrics: Metrics, instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.count_decode_failure("pods")
    metrics.count_dropped_event()
    instrument.plugin_failed("Shaky", "Filter", ZeroDivisionError("division by zero"))
    got = samples(metrics)
    assert got["pyscheduler_decode_failures_total{resource=pods}"] == 1
    assert got["pyscheduler_events_dropped_total"] == 1
    assert got["pyscheduler_plugin_failures_total{extension_point=Filter,plugin=Shaky}"] == 1
    assert any(name.startswith("pyscheduler_build_info{") for name in got)
    assert "Plugin raised an exception" in caplog.text


async def test_counters_that_should_be_0_are_0_before_they_count(connection: Connection) -> None:
    """Prometheus computes increases from a series' first value on, and would miss the first failure."""
    metrics = Metrics()
    config = from_value({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    scheduler = Scheduler(config, Connections.to_server_of(connection), VirtualClock(), metrics)
    expected = [
        "pyscheduler_config_reloads_total{result=failure}",
        "pyscheduler_decode_failures_total{resource=nodes}",
        "pyscheduler_decode_failures_total{resource=pods}",
        "pyscheduler_loop_blocks_total{extension_point=,plugin=}",
        "pyscheduler_plugin_failures_total{extension_point=Bind,plugin=DefaultBinder}",
        "pyscheduler_plugin_failures_total{extension_point=NormalizeScore,plugin=TaintToleration}",
        "pyscheduler_plugin_failures_total{extension_point=PreQueueingHint,plugin=VolumeBinding}",
        "pyscheduler_plugin_failures_total{extension_point=QueueingHint,plugin=NodeAffinity}",
        "pyscheduler_plugin_failures_total{extension_point=SignPod,plugin=NodeAffinity}",
        "pyscheduler_plugin_failures_total{extension_point=attempt,plugin=pyscheduler}",
        "pyscheduler_plugin_failures_total{extension_point=Filter,plugin=NodeResourcesFit}",
    ]
    got = samples(metrics)
    assert {name: got.get(name) for name in expected} == dict.fromkeys(expected, 0)
    scheduler.machine.context.instrument.plugin_failed("NodeResourcesFit", "Filter", ValueError())
    assert samples(metrics)[expected[-1]] == 1


def test_status_error_is_not_counted_as_a_plugin_failure(
    metrics: Metrics, instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture
) -> None:
    instrument.plugin_failed("VolumeBinding", "Filter", StatusError("no class for claim"))
    assert not any(name.startswith("pyscheduler_plugin_failures_total") for name in samples(metrics))
    assert "Plugin returned an error status" in caplog.text


def fail(instrument: MetricsInstrument, error: BaseException) -> None:
    """Report an error as if a plugin had raised it in this line."""
    try:
        raise error
    except BaseException as raised:
        instrument.plugin_failed("Mine", "Filter", raised)


def test_failures_of_one_line_of_a_plugin_are_logged_once_a_minute_and_all_counted(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    instrument = MetricsInstrument(metrics, clock.now)
    for i in range(1000):
        fail(instrument, KeyError(f"default/pod-{i}"))
    clock.at += 61.0
    fail(instrument, KeyError("default/last"))
    fields = [vars(record)["fields"] for record in caplog.records]
    assert [(each["err"], each.get("suppressed")) for each in fields] == [
        ("KeyError: 'default/pod-0'", None),
        ("KeyError: 'default/last'", 999),
    ]
    assert samples(metrics)["pyscheduler_plugin_failures_total{extension_point=Filter,plugin=Mine}"] == 1001


def test_errors_raised_in_different_lines_of_a_helper_are_logged_each(
    instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture
) -> None:
    def first() -> None:
        raise KeyError("a")

    def second() -> None:
        raise KeyError("a")

    for helper in (first, second, second):
        try:
            helper()
        except KeyError as raised:
            instrument.plugin_failed("pyscheduler", "attempt", raised)
    assert len(caplog.records) == 2


def test_different_failures_are_logged_each(instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture) -> None:
    fail(instrument, KeyError("a"))
    fail(instrument, ValueError("a"))
    fail(instrument, StatusError("a"))
    instrument.plugin_failed("Other", "Filter", KeyError("a"))
    instrument.plugin_failed("Mine", "Score", KeyError("a"))
    assert len(caplog.records) == 5


def test_ignored_groups_are_logged_once_for_each_profile_and_declaration(
    instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture
) -> None:
    for profile in ("a", "a", "b"):
        instrument.pod_group_ignored(profile, "the annotation scheduling.k8s.io/group-name")
    lines = [line for line in caplog.text.splitlines() if "Pods declare groups that no plugin reads" in line]
    assert len(lines) == 2


def test_buckets_include_their_upper_bound_and_accumulate_over_scrapes() -> None:
    histogram = Histogram("h", "H.", buckets(1, 2, 3))
    for values in ((0.5, 1.0, 1.5), (2.0, 4.0, 4.1)):
        histogram.observed[()].extend(values)
        histogram.aggregate()
    [*_, total, summed] = to_metric_family(histogram).samples
    counts = [s.value for s in to_metric_family(histogram).samples if s.name == "h_bucket"]
    assert counts == [2, 4, 5, 6]
    assert [total.value, summed.value] == pytest.approx([6, 13.1])


def test_recorded_values_are_bounded_between_scrapes(metrics: Metrics, instrument: MetricsInstrument) -> None:
    for _ in range(10_000):
        instrument.attempted("p", "error", began=0.0)
    assert len(metrics.attempt_seconds.observed["error", "p"]) < 5_000
    assert samples(metrics)["scheduler_scheduling_attempt_duration_seconds_count{profile=p,result=error}"] == 10_000


def test_reset_restores_the_initial_samples(metrics: Metrics, instrument: MetricsInstrument) -> None:
    fresh = samples(metrics)
    for _ in range(2):
        instrument.queue_incoming("active", "UnscheduledPodAdd")
        instrument.attempted("p", "scheduled", 0.0)
        instrument.decided(0.5)
        instrument.preemption_attempted()
        counted = samples(metrics)
        assert counted["scheduler_queue_incoming_pods_total{event=UnscheduledPodAdd,queue=active}"] == 1
        assert counted["scheduler_schedule_attempts_total{profile=p,result=scheduled}"] == 1
        assert counted["scheduler_scheduling_attempt_duration_seconds_count{profile=p,result=scheduled}"] == 1
        assert counted["scheduler_scheduling_algorithm_duration_seconds_count"] == 1
        assert counted["scheduler_preemption_attempts_total"] == 1
        metrics.reset()
        assert {k: v for k, v in samples(metrics).items() if k.startswith("scheduler_")} == {
            k: v for k, v in fresh.items() if k.startswith("scheduler_")
        }


def test_buckets_are_exponential() -> None:
    assert np.allclose(buckets(0.001, 2, 4), (0.001, 0.002, 0.004, 0.008))


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (1.0, "1"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (2.2500000000000005e-05, "2.2500000000000005e-05"),
        (262144.0, "262144"),
        (1048576.0, "1.048576e+06"),
        (16777216.0, "1.6777216e+07"),
    ],
)
def test_bounds_are_formatted_as_in_go(bound: float, text: str) -> None:
    assert bound_as_go_prints(bound) == text


COUNTED = PluginMetric("example_pods", "Pods.", ("kind",))
TIMED = PluginMetric("example_seconds", "Seconds.", buckets=(1.0, 2.0))


def test_metrics_of_plugins_are_served_once_they_have_a_value(metrics: Metrics) -> None:
    assert "example_seconds_count" not in samples(metrics)
    for seconds in (0.5, 1.5):
        metrics.observe(TIMED, (), seconds)
    metrics.observe(COUNTED, ("a",), 1)
    metrics.observe(COUNTED, ("a",), 2)
    found = samples(metrics)
    assert found["example_pods_total{kind=a}"] == 3.0
    assert (found["example_seconds_count"], found["example_seconds_sum"]) == (2.0, 2.0)
    metrics.reset()
    assert not any(value for key, value in samples(metrics).items() if key.startswith("example_"))


def test_labels_of_plugins_do_not_break_the_page(metrics: Metrics) -> None:
    metrics.observe(COUNTED, ("caf\udce9",), 1)
    assert samples(metrics)["example_pods_total{kind=caf?}"] == 1.0
    with pytest.raises(TypeError):
        metrics.observe(COUNTED, (5,), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "labels", "error"),
    [
        (COUNTED, (), "metric example_pods has 1 labels, not 0"),
        (PluginMetric("scheduler_pending_pods", "Pods."), (), "the name of metric scheduler_pending_pods is in use"),
        (PluginMetric("example_pods", "Others."), (), "the name of metric example_pods is in use"),
    ],
)
def test_observation_of_a_wrong_metric_is_an_error(
    metrics: Metrics, metric: PluginMetric, labels: tuple[str, ...], error: str
) -> None:
    metrics.observe(COUNTED, ("a",), 1)
    with pytest.raises(ValueError, match=error):
        metrics.observe(metric, labels, 1)


@pytest.mark.parametrize(
    ("name", "labels", "bounds"),
    [
        ("with space", (), ()),
        ("pods_total", (), ()),
        ("pods", ("a", "a"), ()),
        ("pods", ("le",), (1.0,)),
        ("pods", ("__a",), ()),
        ("pods", (), (2.0, 1.0)),
    ],
)
def test_metric_that_prometheus_would_reject_is_an_error(
    name: str, labels: tuple[str, ...], bounds: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match=name):
        PluginMetric(name, "", labels, bounds)
