"""Quality-of-service class of a pod, as the API server computes it (core/v1 PodQOSClass)."""

from __future__ import annotations

import enum

from pyscheduler.api.objects import PodSpec, ResourceRequirements
from pyscheduler.api.resources import CPU, MEMORY, amounts


class QoSClass(enum.StrEnum):
    """QoS classes in the order of eviction, last evicted first."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(spec: PodSpec) -> QoSClass:
    """Return the QoS class of a pod spec.

    Guaranteed: every container has limits for cpu and memory and requests equal to them. BestEffort: no container has
    requests or limits for either. Burstable: all others. Pod-level resources replace those of containers. QuantityError
    if an amount is invalid.
    """
    if spec.resources is not None:
        stated = [spec.resources]
    else:
        stated = [c.resources or ResourceRequirements() for c in (*spec.containers, *(spec.init_containers or ()))]
    if not any(_compute(r.requests) or _compute(r.limits) for r in stated):
        return QoSClass.BEST_EFFORT
    return QoSClass.GUARANTEED if all(_is_guaranteed(r) for r in stated) else QoSClass.BURSTABLE


def _is_guaranteed(resources: ResourceRequirements) -> bool:
    limits = _compute(resources.limits)
    requests = amounts(resources.requests)
    # An omitted request defaults to its limit.
    return len(limits) == 2 and all(requests.get(k, limit) == limit for k, limit in limits.items())


def _compute(quantities: dict[str, str | int | float] | None) -> dict[str, int]:
    return {k: v for k, v in amounts(quantities).items() if k in (CPU, MEMORY) and v > 0}
