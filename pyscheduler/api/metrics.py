"""Metrics of plugins, served on /metrics beside those of the scheduler."""

from __future__ import annotations

import re

import msgspec

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = {"le", "quantile"}


class PluginMetric(msgspec.Struct, frozen=True):
    """Counter, or with `buckets` a histogram with these upper bounds in increasing order.

    The name of a counter is served with the suffix `_total`. Labels must have few values: each combination is kept.
    ValueError if Prometheus does not accept the names or the bounds.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith("_total"):
            raise ValueError(f"{self.name!r} is not the name of a metric without the suffix _total")
        invalid = [name for name in self.labels if not _LABEL.fullmatch(name) or name in _RESERVED]
        if invalid or len(set(self.labels)) < len(self.labels):
            raise ValueError(f"metric {self.name}: invalid or repeated labels: {invalid or list(self.labels)}")
        if list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"metric {self.name}: the bounds of buckets must increase: {list(self.buckets)}")
