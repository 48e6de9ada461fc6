"""Validated configuration from which a scheduler is built."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.gates import DEFAULTS, RESIZE_PREEMPTION, FeatureGates
from pyscheduler.config.types import KubeSchedulerConfiguration, PySchedulerConfiguration
from pyscheduler.core.framework.registry import Registry


class LoadedConfig(msgspec.Struct, frozen=True):
    """Both documents and the profiles expanded from them.

    `registry` holds all plugins that could be enabled, `imported` the import paths of plugins given by one, `warnings`
    the lines to log at startup.
    """

    configuration: KubeSchedulerConfiguration
    python: PySchedulerConfiguration
    profiles: tuple[ProfileSpec, ...]
    registry: Registry
    warnings: tuple[str, ...] = ()
    imported: Mapping[str, str] = msgspec.field(default_factory=dict)
    gates: FeatureGates = DEFAULTS

    @property
    def preempts_for_resizes(self) -> bool:
        """True if deferred in-place resizes of assigned pods preempt other pods."""
        return self.gates.on(RESIZE_PREEMPTION)
