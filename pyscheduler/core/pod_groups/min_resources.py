"""Minimum resources of pod groups: those of pods that exist only once the first pods run.

A Spark application creates its executors once its driver runs. If all drivers were scheduled first, they could fill the
cluster and no executor would start (spark-operator#594). So the first pod waits until the resources of the whole group
are free, and what a started group has not used yet is not free for others.
"""

from __future__ import annotations

from collections import Counter

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.resources import PODS, quantity
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.room import free_amounts, without_delegated


def missing_resources(context: Context, group: PodGroup, priority: int) -> str:
    """Return what is not free of the group's minimum, as text; "" for a group that has started, or if all is free.

    Groups of this priority or a higher one have their minimums reserved.
    """
    state = context.groups.get(group.key)
    if not group.min_resources or (state is not None and state.started):
        return ""
    reserved, parts = _reserved_by_others(context, group, priority), []
    required = without_delegated(context.handle, group.min_resources)
    unused = free_amounts(context.state.table(), required)
    for resource, amount in sorted(required.items()):
        free = max(0, unused[resource] - reserved[resource])
        if free < amount:
            parts.append(f"{quantity(resource, amount)} {resource} ({quantity(resource, free)} free)")
    return " and ".join(parts)


def _reserved_by_others(context: Context, group: PodGroup, priority: int) -> Counter[str]:
    """Return the parts of started groups' minimums that their pods do not request yet."""
    reserved = Counter[str]()
    for key, state in context.groups.items():
        other = state.requirements
        if key == group.key or not isinstance(other, PodGroup) or not other.min_resources or not state.placed:
            continue
        if context.groups.priority_of(key, state.pods.values()) < priority:
            continue
        started = state.started
        for resource, amount in other.min_resources.items():
            used = len(started) if resource == PODS else sum(p.requests.effective.get(resource, 0) for p in started)
            reserved[resource] += max(0, amount - used)
    return reserved
