"""Settings that are validated but have no effect; each is logged as a warning at startup."""

from __future__ import annotations

from collections.abc import Callable

from pyscheduler.config.problems import Report
from pyscheduler.config.types import KubeSchedulerConfiguration as Configuration

_DEFAULTS = Configuration()
_Setting = Callable[[Configuration], bool]

_UNSUPPORTED: tuple[tuple[str, _Setting, str], ...] = (
    (
        "parallelism",
        lambda c: c.parallelism != _DEFAULTS.parallelism,
        "has no effect: nodes are evaluated in columns, not by parallel workers",
    ),
)


def warn_unsupported(configuration: Configuration, report: Report) -> None:
    """Add a warning for each setting without effect that differs from its default."""
    for path, is_set, reason in _UNSUPPORTED:
        if is_set(configuration):
            report.warn(f"{path}: {reason}")
