"""The configuration's extenders as the core sees them."""

from __future__ import annotations

from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.extender import Extender


def build_extenders(configuration: KubeSchedulerConfiguration) -> tuple[Extender, ...]:
    """The extenders in the order in which they are asked: those first whose errors count."""
    extenders = [
        Extender(
            url=given.url_prefix,
            place=place,
            filters=bool(given.filter_verb),
            prioritizes=bool(given.prioritize_verb),
            preempts=bool(given.preempt_verb),
            weight=given.weight,
            ignorable=given.ignorable,
            managed=frozenset(resource.name for resource in given.managed_resources),
        )
        for place, given in enumerate(configuration.extenders)
    ]
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))
