"""Parse and compare the /metrics pages of two schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """One metric. `buckets` are bounds as written, `values` the samples outside of histograms."""

    type: str
    series: tuple[Labels, ...]
    """The labels of each series, without `le`."""
    buckets: frozenset[tuple[str, ...]]
    values: tuple[tuple[Labels, float], ...]

    @property
    def labels(self) -> frozenset[frozenset[str]]:
        """Return the label names of the series: a single set if they are consistent."""
        return frozenset(frozenset(series) for series in self.series)

    def label_values(self, label: str) -> set[str]:
        """Return the values of a label."""
        return {series[label] for series in self.series if label in series}


Page = Mapping[str, Family]
"""Families by name, that of a counter with `_total`."""


def page(text: str) -> Page:
    """Parse a page. ValueError if it is not in Prometheus' text format."""
    return {_name(metric): _family(metric) for metric in text_string_to_metric_families(text)}


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _family(metric: Metric) -> Family:
    series: dict[tuple[tuple[str, str], ...], Labels] = {}
    bounds: dict[tuple[tuple[str, str], ...], list[str]] = {}
    values = []
    for sample in metric.samples:
        own = {name: value for name, value in sample.labels.items() if name not in {"le", "quantile"}}
        key = tuple(sorted(own.items()))
        series[key] = own
        if "le" in sample.labels:
            bounds.setdefault(key, []).append(sample.labels["le"])
        else:
            values.append((own, sample.value))
    buckets = frozenset(map(tuple, bounds.values()))
    return Family(metric.type, tuple(series.values()), buckets, tuple(values))


def differences(theirs: Page, ours: Page) -> dict[str, str]:
    """Return the differences of our metrics that both serve, by name."""
    both = {name: (family, ours[name]) for name, family in theirs.items() if name in ours}
    return {name: problem for name, (their, our) in both.items() if (problem := _difference(their, our))}


def _difference(their: Family, our: Family) -> str:
    if their.type != our.type:
        return f"is a {our.type} instead of a {their.type}"
    if not their.series:
        return ""
    if not our.series:
        return "has nothing to show"
    if their.labels != our.labels:
        return f"has labels {_shown(our.labels)} instead of {_shown(their.labels)}"
    if their.buckets != our.buckets:
        return f"has buckets {sorted(our.buckets)} instead of {sorted(their.buckets)}"
    return ""


def _shown(labels: Iterable[frozenset[str]]) -> str:
    return " and ".join(sorted(str(sorted(names)) for names in labels))


def named(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a list names a metric; entries may end in `*`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
