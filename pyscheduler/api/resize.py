"""Effective requests during an in-place resize (KEP-1287, KEP-5419).

Until a resize is complete, a pod counts with the maximum of its spec, of what the kubelet has allocated and of what it
has actuated. If the resize is infeasible, the spec is ignored. Matches `determineEffectiveRequests` of
k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.api.objects import Container, PodObject, PodStatus, Quantity
from pyscheduler.api.quantity import nano_value

Requests = Mapping[str, Quantity]
"""Resource requests as in the API, by resource name."""
Resized = Mapping[str, Requests]
"""Effective requests by container name where they differ from the spec; "" is the key of pod-level requests."""
_NOTHING: Requests = {}


def resized(source: PodObject) -> dict[str, Requests] | None:
    """Return the effective requests that differ from the spec, or None if there are none (the usual case)."""
    status, spec = source.status, source.spec
    statuses = {s.name: s for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    held = {}
    for container in (*spec.containers, *(spec.init_containers or ())):
        own = statuses.get(container.name)
        if own is None or own.resources is None:
            continue
        stated, actuated = _stated(container), own.resources.requests
        if actuated == stated == own.allocated_resources:
            continue
        effective = _effective(stated, actuated, own.allocated_resources, _is_infeasible(status))
        if effective != stated:
            held[container.name] = effective
    if spec.resources and spec.resources.requests and status.resources is not None:
        stated = spec.resources.requests
        effective = _effective(stated, status.resources.requests, status.allocated_resources, _is_infeasible(status))
        if effective != stated:
            held[""] = effective
    return held or None


def _stated(container: Container) -> Requests:
    return (container.resources.requests if container.resources else None) or _NOTHING


def _effective(stated: Requests, actuated: Requests | None, allocated: Requests | None, infeasible: bool) -> Requests:
    actuated, allocated = actuated or _NOTHING, allocated or _NOTHING
    if not infeasible and actuated in (stated, _NOTHING) and allocated in (stated, _NOTHING):
        return stated
    held: dict[str, Quantity] = {}
    for requests in (actuated, allocated) if infeasible else (stated, actuated, allocated):
        for name, quantity in requests.items():
            if name not in held or nano_value(quantity) > nano_value(held[name]):
                held[name] = quantity
    return held


def _is_infeasible(status: PodStatus) -> bool:
    pending = (c.reason for c in status.conditions or () if c.type == "PodResizePending")
    return next(pending, "") == "Infeasible"
