"""Counters, histograms and gauges that cost next to nothing until somebody asks for them.

Counting sits on the path of every pod, where prometheus_client's own histograms are too slow. So what happens is only
noted (an integer, or a float at the end of an array), and sorted into buckets by NumPy when the numbers are asked for.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeVar

import numpy as np

Read = TypeVar("Read", "Counter", "Gauges")
Labels = tuple[str, ...]
Reading = Callable[[], Mapping[Any, float]]
"""Values by labels (or by the one label there is), read from elsewhere when the metrics are asked for."""


def buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds that grow by `factor`, each from the one before, as Prometheus's ExponentialBuckets."""
    bounds = [start]
    for _ in range(count - 1):
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Counter:
    """A counter by labels: `counter.counts[labels] += 1`."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.counts: defaultdict[Labels, int] = defaultdict(int)
        self.read: Reading = lambda: self.counts
        if not labels:
            self.counts[()] = 0

    def set_function(self, read: Reading) -> None:
        """Read the counts by this function from now on, where they are kept elsewhere."""
        self.read = read

    def copy(self) -> Counter:
        """The present values, for another thread to read."""
        return _with_values(self)

    def reset(self) -> None:
        """Begin anew; what is read from elsewhere goes on."""
        self.counts.clear()
        if not self.labels:
            self.counts[()] = 0


class Histogram:
    """A histogram by labels: `histogram.noted[labels].append(seconds)`; `settle` sorts what was noted into buckets."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.bounds = np.array(bounds)
        self.counts: dict[Labels, Any] = {}
        self.sums: dict[Labels, float] = {}
        self.noted: defaultdict[Labels, array[float]] = defaultdict(lambda: array("d"))
        if not labels:
            self.noted[()] = array("d")

    def settle(self) -> None:
        """Sort what was noted into buckets, and keep only those."""
        size = len(self.bounds) + 1
        for labels, values in self.noted.items():
            if not values and labels:
                continue
            seconds = np.array(values)
            del values[:]
            counts = np.bincount(np.searchsorted(self.bounds, seconds), minlength=size)
            self.counts[labels] = self.counts.get(labels, 0) + counts
            self.sums[labels] = self.sums.get(labels, 0.0) + float(seconds.sum())

    def copy(self) -> Histogram:
        """The present buckets, for another thread to read."""
        self.settle()
        taken = copy(self)
        taken.counts, taken.sums, taken.noted = dict(self.counts), dict(self.sums), defaultdict(lambda: array("d"))
        return taken

    def reset(self) -> None:
        """Begin anew; the arrays stay those that others append to."""
        self.counts.clear()
        self.sums.clear()
        for values in self.noted.values():
            del values[:]


class Gauges:
    """A gauge by labels whose values a function returns at each scrape; without a function it has none."""

    def __init__(self, name: str, help: str, labels: Labels) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.read: Reading = dict

    def set_function(self, read: Reading) -> None:
        """Read the values by this function from now on (prometheus_client's Gauge.set_function)."""
        self.read = read

    def copy(self) -> Gauges:
        """The present values, for another thread to read."""
        return _with_values(self)


def _with_values(metric: Read) -> Read:
    values, taken = dict(metric.read()), copy(metric)
    taken.read = lambda: values
    return taken


Metric = Counter | Histogram | Gauges
