"""How long a binding cycle may take. Kube-scheduler has no bound for it: a plugin that never ends keeps its pod."""

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
"""Seconds beyond those that volumes may take, where nothing is said."""


def binding_timeout(config: LoadedConfig) -> float:
    """Seconds for PreBind, or Bind and PostBind, of one pod; 0 for any time."""
    said = config.python.binding_timeout
    return max(DEFAULT, _for_volumes(config.profiles) + MARGIN) if said is None else said


def validate_binding_timeout(python: PySchedulerConfiguration, specs: Sequence[ProfileSpec], report: Report) -> None:
    """Whoever lets volumes take an hour must not have them called off after half of it."""
    said = python.binding_timeout
    if said is None:
        return
    if said < 0:
        report.add("bindingTimeout", f"must not be below 0, which is for any time; it is {format_duration(said)}")
        return
    volumes = _for_volumes(specs)
    if 0 < said <= volumes:
        longest = f"bindTimeoutSeconds of VolumeBinding, which is {volumes:g}"
        report.add("bindingTimeout", f"must be longer than {longest}, or 0 for any time; it is {format_duration(said)}")


def _for_volumes(specs: Sequence[ProfileSpec]) -> float:
    found = (spec.args.get(VolumeBinding.name) for spec in specs)
    return float(max((args.bind_timeout_seconds for args in found if args is not None), default=0))
