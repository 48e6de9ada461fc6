"""spec.minResources of PodGroups: admission of the first member, and reservation for the remaining ones.

A Spark application creates its executors once its driver runs. If all drivers were scheduled first, they could fill the
cluster and no executor would start. So the first member waits until the resources of the whole group are free, and the
unused rest of a started group counts as requested for other groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pyscheduler.api import NodeTable, Pod
from pyscheduler.api.resources import CPU, PODS, Amounts


def free(nodes: NodeTable, resource: str) -> int:
    """Return the free amount of a resource, summed over all nodes."""
    available = (
        nodes.allowed_pods - nodes.pod_counts
        if resource == PODS
        else nodes.allocatable(resource) - nodes.requested(resource)
    )
    return int(np.maximum(available, 0).sum())


def unused(min_resources: Amounts, members: Iterable[Pod]) -> Amounts:
    """Return the part of a started group's minResources that `members` do not request."""
    used = _used(members, min_resources)
    return {resource: max(0, amount - used[resource]) for resource, amount in min_resources.items()}


def missing(required: Amounts, reserved: Mapping[str, int], nodes: NodeTable) -> str:
    """Return the shortage of resources as text, "" if all are free. `reserved` belongs to other groups."""
    parts = []
    for resource, amount in sorted(required.items()):
        available = max(0, free(nodes, resource) - reserved.get(resource, 0))
        if available < amount:
            parts.append(f"{_format_amount(resource, amount)} {resource} ({_format_amount(resource, available)} free)")
    return ", ".join(parts)


def _used(members: Iterable[Pod], resources: Iterable[str]) -> dict[str, int]:
    pods = list(members)
    requested = {resource: sum(pod.requests.effective.get(resource, 0) for pod in pods) for resource in resources}
    return requested | ({PODS: len(pods)} if PODS in requested else {})


def _format_amount(resource: str, amount: int) -> str:
    return f"{amount / 1000:g}" if resource == CPU else str(amount)
