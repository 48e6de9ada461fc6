"""Percentiles of Prometheus histograms, computed equally for both schedulers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

Buckets = dict[float, float]
"""Cumulative counts by upper bound, as in the text format."""


def read_buckets(text: str, name: str, labels: Mapping[str, str]) -> Buckets:
    """Return the buckets of the histogram `name` with at least these labels, added up over all other labels."""
    buckets: defaultdict[float, float] = defaultdict(float)
    # Parse only these lines: a scheduler's metrics have thousands, and the parser is slow.
    lines = "\n".join(line for line in text.splitlines() if line.startswith(f"{name}_bucket"))
    for family in text_string_to_metric_families(f"{lines}\n"):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                buckets[float(sample.labels["le"])] += sample.value
    return dict(buckets)


def quantile(buckets: Buckets, share: float) -> float | None:
    """Return the value below which `share` (0 to 1) of the observations lie, None without any.

    Within a bucket observations count as evenly distributed, and those above the last bound count as that bound, as in
    PromQL's histogram_quantile.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if not total:
        return None
    rank, lower, below = share * total, 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank and count > below:
            return lower if bound == float("inf") else lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = bound, count
    return lower
