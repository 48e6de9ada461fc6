"""Counters, histograms and gauges that are cheap to update; the work is done when they are scraped.

Metrics are updated many times for every pod. An update here is an integer increment or a float appended to an array;
NumPy sorts the values into buckets at scrape time. Counting takes 0.09 µs, observing 0.11 including the scrape. With
prometheus_client they take 2.0 and 2.4 µs, or 0.5 and 1.1 where the labels are known before (minimum of nine rounds of
20,000 updates each, two labels, 15 buckets).
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, TypeVar

import numpy as np

Read = TypeVar("Read", "Counter", "Gauges")
Labels = tuple[str, ...]
Reading = Callable[[], Mapping[Any, float]]
"""Return values by labels (or by the only label), read when the metrics are scraped."""


def buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` upper bounds, each `factor` times the one before, as Prometheus's ExponentialBuckets."""
    bounds = [start]
    for _ in range(count - 1):
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Counter:
    """Counter by labels: `counter.counts[labels] += 1`."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.counts: defaultdict[Labels, float] = defaultdict(int)
        self._expected: Callable[[], Iterable[Labels]] = tuple
        self.read: Reading = self._with_zeros
        if not labels:
            self.counts[()] = 0

    def start_at_zero(self, expected: Callable[[], Iterable[Labels]]) -> None:
        """Serve 0 for these labels until they are counted.

        Prometheus computes the increase of a series from its first value on: without a 0, it misses the first count.
        """
        self._expected = expected

    def _with_zeros(self) -> Mapping[Labels, float]:
        return dict.fromkeys(self._expected(), 0) | self.counts

    def set_function(self, read: Reading) -> None:
        """Read the counts by this function from now on, where they are kept elsewhere."""
        self.read = read

    def copy(self) -> Counter:
        """Return a copy of the current values that another thread can read."""
        return _with_values(self)

    def reset(self) -> None:
        """Set the counts to 0; values that `read` takes from elsewhere are unaffected."""
        self.counts.clear()
        if not self.labels:
            self.counts[()] = 0


class Histogram:
    """Histogram by labels: `histogram.observed[labels].append(seconds)`; `aggregate` sorts them into buckets."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.bounds = np.array(bounds)
        self.counts: dict[Labels, Any] = {}
        self.sums: dict[Labels, float] = {}
        self.observed: defaultdict[Labels, array[float]] = defaultdict(lambda: array("d"))
        if not labels:
            self.observed[()] = array("d")

    def aggregate(self) -> None:
        """Sort the appended values into buckets and discard them."""
        size = len(self.bounds) + 1
        for labels, values in self.observed.items():
            if not values and labels:
                continue
            seconds = np.array(values)
            del values[:]
            counts = np.bincount(np.searchsorted(self.bounds, seconds), minlength=size)
            self.counts[labels] = self.counts.get(labels, 0) + counts
            self.sums[labels] = self.sums.get(labels, 0.0) + float(seconds.sum())

    def copy(self) -> Histogram:
        """Return a copy of the current buckets that another thread can read."""
        self.aggregate()
        taken = copy(self)
        taken.counts, taken.sums, taken.observed = dict(self.counts), dict(self.sums), defaultdict(lambda: array("d"))
        return taken

    def reset(self) -> None:
        """Set all buckets to 0; the arrays stay the same objects, because other code holds references to them."""
        self.counts.clear()
        self.sums.clear()
        for values in self.observed.values():
            del values[:]


class Gauges:
    """Gauge by labels; a function returns its values at scrape time."""

    def __init__(self, name: str, help: str, labels: Labels) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.read: Reading = dict

    def set_function(self, read: Reading) -> None:
        """Read the values by this function from now on (prometheus_client's Gauge.set_function)."""
        self.read = read

    def copy(self) -> Gauges:
        """Return a copy of the current values that another thread can read."""
        return _with_values(self)


def _with_values(metric: Read) -> Read:
    values, taken = dict(metric.read()), copy(metric)
    taken.read = lambda: values
    return taken


Metric = Counter | Histogram | Gauges
