"""A configuration that has passed every check: what a scheduler is built from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.types import KubeSchedulerConfiguration, PySchedulerConfiguration
from pyscheduler.core.framework.registry import Registry


class LoadedConfig(msgspec.Struct, frozen=True):
    """Both documents, and what they come to.

    `registry` has every plugin that could be enabled, `imported` the import path of those that were given by one;
    `warnings` are lines to be said at start.
    """

    configuration: KubeSchedulerConfiguration
    python: PySchedulerConfiguration
    profiles: tuple[ProfileSpec, ...]
    registry: Registry
    warnings: tuple[str, ...] = ()
    imported: Mapping[str, str] = msgspec.field(default_factory=dict)
    gates: FeatureGates = DEFAULTS
