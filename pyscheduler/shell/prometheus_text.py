"""Convert the metrics to Prometheus's format.

Imported at the first scrape: prometheus_client imports a web server and e-mail modules, which would add a tenth to the
CPU of a scheduler's start.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Exposed
from prometheus_client.registry import Collector

import pyscheduler
from pyscheduler.shell.counting import Counter, Gauges, Histogram, Metric


def build_registry(metrics: Callable[[], Sequence[Metric]]) -> CollectorRegistry:
    """Return a registry of the metrics that `metrics` returns at each scrape, and of process and build metrics."""
    registry = CollectorRegistry()
    registry.register(_Families(metrics))
    ProcessCollector(registry=registry)
    info = Info("pyscheduler_build", "Version of pyscheduler and Python.", registry=registry)
    info.info({"version": pyscheduler.__version__, "python": platform.python_version()})
    return registry


class _Families(Collector):
    def __init__(self, metrics: Callable[[], Sequence[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Exposed]:
        return map(to_metric_family, self._metrics())


def to_metric_family(metric: Metric) -> Exposed:
    """Return the current values of a metric."""
    if isinstance(metric, Counter):
        return _counter(metric)
    return _histogram(metric) if isinstance(metric, Histogram) else _gauges(metric)


def _counter(counter: Counter) -> Exposed:
    family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
    for labels, count in counter.read().items():
        family.add_metric(labels, count)
    return family


def _histogram(histogram: Histogram) -> Exposed:
    histogram.aggregate()
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    names = [*map(bound_as_go_prints, histogram.bounds.tolist()), "+Inf"]
    for labels, counts in histogram.counts.items():
        cumulated = list(zip(names, np.cumsum(counts).tolist(), strict=True))
        family.add_metric(labels, cumulated, histogram.sums[labels])
    return family


def _gauges(gauges: Gauges) -> Exposed:
    family = GaugeMetricFamily(gauges.name, gauges.help, labels=gauges.labels)
    for label, value in gauges.read().items():
        labels = (label,) if isinstance(label, str) else label
        family.add_metric(labels if gauges.labels else (), value)
    return family


def bound_as_go_prints(bound: float) -> str:
    """Format a bucket's bound as Go does, `1` and `1.048576e+06`: queries contain this text."""
    if bound >= 1e6:
        return np.format_float_scientific(bound, trim="-", exp_digits=2)
    return repr(bound).removesuffix(".0")
