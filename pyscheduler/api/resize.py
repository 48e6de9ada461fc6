"""In-place resize: what containers hold while what they ask for is being changed (KEP-1287, KEP-5419).

Until a resize has been carried out, a pod keeps the largest of what its spec asks for, what the kubelet has allocated
and what it has actuated; one that the node can never carry out counts for what it has. Matches
`determineEffectiveRequests` of k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.api.objects import Container, PodObject, PodStatus, Quantity
from pyscheduler.api.quantity import nano_value

Requests = Mapping[str, Quantity]
Resized = Mapping[str, Requests]
"""By container name what is held instead of the spec's requests; "" stands for the pod's own, pod-level requests."""
_NOTHING: Requests = {}


def resized(source: PodObject) -> dict[str, Requests] | None:
    """What holds other amounts than the spec states; None for nearly every pod."""
    status, spec = source.status, source.spec
    if not status.container_statuses and not status.init_container_statuses and status.resources is None:
        return None
    known = {s.name: s for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    held = {}
    for container in (*spec.containers, *(spec.init_containers or ())):
        own = known.get(container.name)
        if own is None or own.resources is None:
            continue
        stated, actuated = _stated(container), own.resources.requests
        if actuated == stated == own.allocated_resources:
            continue  # nearly always
        holds = _held(stated, actuated, own.allocated_resources, _is_infeasible(status))
        if holds != stated:
            held[container.name] = holds
    if spec.resources and spec.resources.requests and status.resources is not None:
        stated = spec.resources.requests
        holds = _held(stated, status.resources.requests, status.allocated_resources, _is_infeasible(status))
        if holds != stated:
            held[""] = holds
    return held or None


def _stated(container: Container) -> Requests:
    return (container.resources.requests if container.resources else None) or _NOTHING


def _held(stated: Requests, actuated: Requests | None, allocated: Requests | None, infeasible: bool) -> Requests:
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
