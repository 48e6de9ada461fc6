"""spec.minResources of PodGroups: what must be free before the first member is placed, and what is kept for the rest.

A Spark application creates its executors only once its driver runs. If every driver was placed that fits, the drivers
could fill the cluster, and no executor would ever start. So the first member waits until there is room for the whole,
and what a group that has begun does not use yet counts as taken for other groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pyscheduler.api import NodeTable, Pod
from pyscheduler.api.resources import CPU, PODS, Amounts


def free(nodes: NodeTable, resource: str) -> int:
    """Free amount of a resource on all nodes together."""
    left = (
        nodes.allowed_pods - nodes.pod_counts
        if resource == PODS
        else nodes.allocatable(resource) - nodes.requested(resource)
    )
    return int(np.maximum(left, 0).sum())


def unused(min_resources: Amounts, members: Iterable[Pod]) -> Amounts:
    """Unused part of the minResources of a group that has started; `members` are those that count."""
    taken = _used(members, min_resources)
    return {resource: max(0, amount - taken[resource]) for resource, amount in min_resources.items()}


def missing(wanted: Amounts, kept: Mapping[str, int], nodes: NodeTable) -> str:
    """Shortage of a group's minResources, in words; "" if all of it is free. `kept` is for other groups."""
    parts = []
    for resource, amount in sorted(wanted.items()):
        left = max(0, free(nodes, resource) - kept.get(resource, 0))
        if left < amount:
            parts.append(f"{_format_amount(resource, amount)} {resource} ({_format_amount(resource, left)} free)")
    return ", ".join(parts)


def _used(members: Iterable[Pod], resources: Iterable[str]) -> dict[str, int]:
    pods = list(members)
    held = {resource: sum(pod.requests.effective.get(resource, 0) for pod in pods) for resource in resources}
    return held | ({PODS: len(pods)} if PODS in held else {})


def _format_amount(resource: str, amount: int) -> str:
    return f"{amount / 1000:g}" if resource == CPU else str(amount)
