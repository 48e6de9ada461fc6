"""Container resources during an in-place resize (KEP-1287, KEP-5419), from the status of an assigned pod.

Until a resize is complete, the pod counts with the maximum of three sums: of what its spec requests, of what the
kubelet has allocated, and of what it has actuated. If the resize is infeasible, the spec is ignored. Matches
`AggregateContainerRequests` of k8s.io/component-helpers/resource; `pyscheduler.api.resources` adds the amounts up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pyscheduler.api.objects import Container, ContainerStatus, PodCondition, PodObject, PodStatus, Quantity

Requests = Mapping[str, Quantity]
"""Resource requests as in the API, by resource name."""
_NOTHING: Requests = {}
RESIZE_PENDING = "PodResizePending"
"""Type of the condition of a pod whose resize the kubelet has not allocated."""


class Resized(msgspec.Struct, frozen=True):
    """What the status of a pod states about its resources, as far as it differs from the spec."""

    allocated: Mapping[str, Requests]
    """Requests that the kubelet has allocated, by name of the containers for which they differ from the spec."""
    actuated: Mapping[str, Requests]
    """Requests that it has actuated, in the same way."""
    of_pod: tuple[Requests | None, Requests | None] | None
    """Allocated and actuated requests of the whole pod, as stated; None if the status has no resources of the pod."""
    infeasible: bool
    """True if the node can never fulfil the spec."""

    @property
    def sums(self) -> tuple[Requests, Requests] | None:
        """Allocated and actuated requests of the whole pod if both are stated: they stand for the containers' sums."""
        if self.of_pod is None:
            return None
        allocated, actuated = self.of_pod
        return None if allocated is None or actuated is None else (allocated, actuated)


def resized(source: PodObject) -> Resized | None:
    """Return what the status states about resources; None if it agrees with the spec (the usual case)."""
    status, containers = source.status, (*source.spec.containers, *(source.spec.init_containers or ()))
    infeasible = _is_infeasible(status)
    statuses: dict[str, ContainerStatus] = {}
    for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        statuses.setdefault(each.name, each)
    allocated: dict[str, Requests] = {}
    actuated: dict[str, Requests] = {}
    for container in containers:
        stated, own = _stated(container), statuses.get(container.name)
        default = _NOTHING if infeasible else stated
        has_allocated = default if own is None or own.allocated_resources is None else own.allocated_resources
        requests = own.resources.requests if own is not None and own.resources is not None else None
        has_actuated = has_allocated if requests is None else requests
        if has_allocated != stated:
            allocated[container.name] = has_allocated
        if has_actuated != stated:
            actuated[container.name] = has_actuated
    of_pod = None
    if status.resources is not None:
        of_pod = (status.allocated_resources, status.resources.requests)
        if not infeasible and _agrees(of_pod, source):
            of_pod = None
    return Resized(allocated, actuated, of_pod, infeasible) if allocated or actuated or of_pod else None


def may_be_resized(status: PodStatus) -> bool:
    """Return True unless the status states neither resources nor a pending resize."""
    if status.container_statuses or status.init_container_statuses or status.resources is not None:
        return True
    return any(condition.type == RESIZE_PENDING for condition in status.conditions or ())


def pending_reason(conditions: Iterable[PodCondition]) -> str:
    """Return why the kubelet has not allocated a resize, "" if none is pending: Deferred until the node has room."""
    return next((c.reason for c in conditions if c.type == RESIZE_PENDING), "")


def _agrees(of_pod: Iterable[Requests | None], source: PodObject) -> bool:
    """Return True if a pod of one container and without requests of its own has just that container's requests."""
    spec = source.spec
    if len(spec.containers) != 1 or spec.init_containers or (spec.resources and spec.resources.requests):
        return False
    stated = _stated(spec.containers[0])
    return all(requests == stated for requests in of_pod)


def _stated(container: Container) -> Requests:
    return (container.resources.requests if container.resources else None) or _NOTHING


def _is_infeasible(status: PodStatus) -> bool:
    return pending_reason(status.conditions or ()) == "Infeasible"
