"""The metrics as Prometheus reads them.

Imported when they are first asked for: prometheus_client brings a web server and e-mail along, and importing all that
would be a tenth of the CPU that a scheduler takes to start.
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
    """A registry of what `metrics` returns at each scrape, and of metrics of the process and the build."""
    registry = CollectorRegistry()
    registry.register(_Families(metrics))
    ProcessCollector(registry=registry)
    info = Info("pyscheduler_build", "What is running.", registry=registry)
    info.info({"version": pyscheduler.__version__, "python": platform.python_version()})
    return registry


class _Families(Collector):
    def __init__(self, metrics: Callable[[], Sequence[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Exposed]:
        return map(to_metric_family, self._metrics())


def to_metric_family(metric: Metric) -> Exposed:
    """All that a metric has counted so far."""
    if isinstance(metric, Counter):
        return _counter(metric)
    return _histogram(metric) if isinstance(metric, Histogram) else _gauges(metric)


def _counter(counter: Counter) -> Exposed:
    family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
    for labels, count in counter.read().items():
        family.add_metric(labels, count)
    return family


def _histogram(histogram: Histogram) -> Exposed:
    histogram.settle()
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
    """A bucket's bound in Go's shortest form, `1` and `1.048576e+06`: queries name buckets by this text."""
    if bound >= 1e6:
        return np.format_float_scientific(bound, trim="-", exp_digits=2)
    return repr(bound).removesuffix(".0")
