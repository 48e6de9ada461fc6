"""What the scheduler counts, as Prometheus reads it."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.api import StatusError
from pyscheduler.shell.exposition import family_of
from pyscheduler.shell.metrics import Histogram, Metrics, MetricsInstrument, buckets


class Ticking:
    """A clock that goes on by one second whenever it is read."""

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
    """All samples, by name and labels as Prometheus writes them."""
    text = generate_latest(metrics.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_a_pods_way_through_the_scheduler(metrics: Metrics, instrument: MetricsInstrument) -> None:
    instrument.queue_incoming("active", "UnschedulablePodAdd")
    instrument.point_entered("Filter", "p")
    instrument.point_entered("PostFilter", "p")
    instrument.point_left("PostFilter", "p", "Unschedulable")
    instrument.point_left("Filter", "p", "Success")
    instrument.decided(0.003)
    instrument.attempted("p", "scheduled", began=1.0)
    instrument.scheduled(2, 0.5, flushed=True)
    instrument.permit_waited("allowed", 0.2)
    instrument.preemption_attempted()
    instrument.preempted(3)
    got = samples(metrics)
    expected = {
        "scheduler_queue_incoming_pods_total{event=UnschedulablePodAdd,queue=active}": 1,
        "scheduler_schedule_attempts_total{profile=p,result=scheduled}": 1,
        "scheduler_scheduling_attempt_duration_seconds_sum{profile=p,result=scheduled}": 4,
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=0.002}": 0,
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=0.004}": 1,
        "scheduler_pod_scheduling_attempts_bucket{le=1.0}": 0,
        "scheduler_pod_scheduling_attempts_bucket{le=2.0}": 1,
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=2}": 0.5,
        "scheduler_pod_scheduled_after_flush_total": 1,
        "scheduler_permit_wait_duration_seconds_count{result=allowed}": 1,
        "scheduler_preemption_attempts_total": 1,
        "scheduler_preemption_victims_bucket{le=2.0}": 0,
        "scheduler_preemption_victims_bucket{le=4.0}": 1,
    }
    point = "scheduler_framework_extension_point_duration_seconds_sum{extension_point=%s,profile=p,status=%s}"
    expected |= {point % ("Filter", "Success"): 3, point % ("PostFilter", "Unschedulable"): 1}
    assert {name: got.get(name) for name in expected} == expected


def test_many_attempts_share_a_label(metrics: Metrics, instrument: MetricsInstrument) -> None:
    for attempts in (14, 15, 99):
        instrument.scheduled(attempts, 1.0, flushed=False)
    got = samples(metrics)
    assert got["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=14}"] == 1
    assert got["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=15+}"] == 2


def test_what_has_not_happened_is_there_as_zero(metrics: Metrics) -> None:
    got = samples(metrics)
    assert got["scheduler_pod_scheduled_after_flush_total"] == 0
    assert got["pyscheduler_events_dropped_total"] == 0
    assert got["scheduler_pod_scheduling_attempts_count"] == 0
    assert got["scheduler_pod_scheduling_attempts_bucket{le=+Inf}"] == 0


def test_gauges_are_read_when_asked_for(metrics: Metrics) -> None:
    waiting = {"active": 1.0, "backoff": 0.0}
    metrics.pending_pods.read = lambda: waiting
    metrics.cache_size.read = lambda: {"nodes": 5}
    waiting["active"] = 7
    got = samples(metrics)
    assert got["scheduler_pending_pods{queue=active}"] == 7
    assert got["scheduler_cache_size{type=nodes}"] == 5


def test_our_own(metrics: Metrics, instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture) -> None:
    metrics.count_decode_failure("pods")
    metrics.count_dropped_event()
    instrument.plugin_failed("Shaky", "Filter", ZeroDivisionError("division by zero"))
    got = samples(metrics)
    assert got["pyscheduler_decode_failures_total{resource=pods}"] == 1
    assert got["pyscheduler_events_dropped_total"] == 1
    assert got["pyscheduler_plugin_failures_total{extension_point=Filter,plugin=Shaky}"] == 1
    assert any(name.startswith("pyscheduler_build_info{") for name in got)
    assert "A plugin raised an exception" in caplog.text


def test_what_a_plugin_finds_amiss_in_the_cluster_is_no_failure_of_the_plugin(
    metrics: Metrics, instrument: MetricsInstrument, caplog: pytest.LogCaptureFixture
) -> None:
    instrument.plugin_failed("VolumeBinding", "Filter", StatusError("no class for claim"))
    assert not any(name.startswith("pyscheduler_plugin_failures_total") for name in samples(metrics))
    assert "A plugin could not decide" in caplog.text


def test_buckets_take_their_upper_bound_and_add_up_over_scrapes() -> None:
    histogram = Histogram("h", "H.", buckets(1, 2, 3))
    for values in ((0.5, 1.0, 1.5), (2.0, 4.0, 4.1)):
        histogram.noted[()].extend(values)
        histogram.settle()
    [*_, total, summed] = family_of(histogram).samples
    counts = [s.value for s in family_of(histogram).samples if s.name == "h_bucket"]
    assert counts == [2, 4, 5, 6]
    assert [total.value, summed.value] == pytest.approx([6, 13.1])


def test_notes_do_not_grow_between_scrapes(metrics: Metrics, instrument: MetricsInstrument) -> None:
    for _ in range(10_000):
        instrument.attempted("p", "error", began=0.0)
    assert len(metrics.attempt_seconds.noted["error", "p"]) < 5_000
    assert samples(metrics)["scheduler_scheduling_attempt_duration_seconds_count{profile=p,result=error}"] == 10_000


def test_counting_anew(metrics: Metrics, instrument: MetricsInstrument) -> None:
    fresh = samples(metrics)
    for _ in range(2):
        instrument.queue_incoming("active", "UnschedulablePodAdd")
        instrument.attempted("p", "scheduled", 0.0)
        instrument.decided(0.5)
        instrument.preemption_attempted()
        counted = samples(metrics)
        assert counted["scheduler_queue_incoming_pods_total{event=UnschedulablePodAdd,queue=active}"] == 1
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
