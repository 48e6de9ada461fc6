"""Conversion of configured extenders for the core."""

from __future__ import annotations

from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.extenders.extender import Extender


def build_extenders(configuration: KubeSchedulerConfiguration) -> tuple[Extender, ...]:
    """Return the extenders in call order: those with errors that are not ignorable come first."""
    extenders = [
        Extender(
            url=config.url_prefix,
            place=place,
            filters=bool(config.filter_verb),
            prioritizes=bool(config.prioritize_verb),
            preempts=bool(config.preempt_verb),
            weight=config.weight,
            ignorable=config.ignorable,
            managed=frozenset(resource.name for resource in config.managed_resources),
        )
        for place, config in enumerate(configuration.extenders)
    ]
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))
