"""The metrics as Prometheus reads them.

Imported when they are first asked for: prometheus_client brings a web server and e-mail along, and importing all that
would be a tenth of the CPU that a scheduler takes to start.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import pyscheduler
from pyscheduler.shell.metrics import Counter, Gauges, Histogram


def registry_of(metrics: Sequence[Counter | Histogram | Gauges]) -> CollectorRegistry:
    """What serves these metrics, and what the process and the build tell of themselves."""
    registry = CollectorRegistry()
    registry.register(_Families(metrics))
    ProcessCollector(registry=registry)
    info = Info("pyscheduler_build", "What is running.", registry=registry)
    info.info({"version": pyscheduler.__version__, "python": platform.python_version()})
    return registry


class _Families(Collector):
    def __init__(self, metrics: Sequence[Counter | Histogram | Gauges]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return map(family_of, self._metrics)


def family_of(metric: Counter | Histogram | Gauges) -> Metric:
    """All that a metric has counted so far."""
    if isinstance(metric, Counter):
        return _counter(metric)
    return _histogram(metric) if isinstance(metric, Histogram) else _gauges(metric)


def _counter(counter: Counter) -> Metric:
    family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
    for labels, count in counter.counts.items():
        family.add_metric(labels, count)
    return family


def _histogram(histogram: Histogram) -> Metric:
    histogram.settle()
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    names = [*(repr(float(bound)) for bound in histogram.bounds), "+Inf"]
    for labels, counts in histogram.counts.items():
        cumulated = list(zip(names, np.cumsum(counts).tolist(), strict=True))
        family.add_metric(labels, cumulated, histogram.sums[labels])
    return family


def _gauges(gauges: Gauges) -> Metric:
    family = GaugeMetricFamily(gauges.name, gauges.help, labels=(gauges.label,) if gauges.label else ())
    for label, value in gauges.read().items():
        family.add_metric((label,) if gauges.label else (), value)
    return family
