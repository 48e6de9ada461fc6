"""Timeout of binding cycles. kube-scheduler has none: a plugin that never returns blocks its pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyscheduler.config.durations import format_duration
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import Report
from pyscheduler.config.types import PySchedulerConfiguration
from pyscheduler.intree import VolumeBinding

DEFAULT: Final = 1800.0
MARGIN: Final = 900.0
"""Seconds added to the timeout of volume binding for the default."""


def binding_timeout(config: LoadedConfig) -> float:
    """Return the timeout in seconds of PreBind, and of Bind with PostBind, for one pod; 0 is no limit."""
    configured = config.python.binding_timeout
    return max(DEFAULT, _for_volumes(config.profiles) + MARGIN) if configured is None else configured


def validate_binding_timeout(python: PySchedulerConfiguration, specs: Sequence[ProfileSpec], report: Report) -> None:
    """Report a binding timeout that is negative or shorter than the one of volume binding."""
    timeout = python.binding_timeout
    if timeout is None:
        return
    if timeout < 0:
        report.add("bindingTimeout", f"must be 0 (no limit) or positive, not {format_duration(timeout)}")
        return
    volumes = _for_volumes(specs)
    if 0 < timeout <= volumes:
        least = f"bindTimeoutSeconds of VolumeBinding ({volumes:g} s)"
        report.add("bindingTimeout", f"must exceed {least} or be 0 (no limit), not {format_duration(timeout)}")


def _for_volumes(specs: Sequence[ProfileSpec]) -> float:
    volume_args = (spec.args.get(VolumeBinding.name) for spec in specs)
    return float(max((args.bind_timeout_seconds for args in volume_args if args is not None), default=0))
