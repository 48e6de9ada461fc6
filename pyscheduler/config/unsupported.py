"""Settings that are read and checked but not acted on: said once at start rather than ignored in silence.

When something comes to be served, its line here goes.
"""

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
        "has no effect: all nodes are looked at together, not by a number of workers",
    ),
)


def warn_unsupported(configuration: Configuration, report: Report) -> None:
    """One warning line for each setting in the configuration that has no effect."""
    for path, asked, why in _UNSUPPORTED:
        if asked(configuration):
            report.warn(f"{path}: {why}")
