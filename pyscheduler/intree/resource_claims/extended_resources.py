"""Extended resources that are provided by devices: the claim that stands for a pod's requests (KEP-5004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pyscheduler.api import Pod
from pyscheduler.api.devices import EXACT_COUNT, DeviceRequest, ExactDeviceRequest, ResourceClaim
from pyscheduler.api.objects import Container
from pyscheduler.api.resources import amount, is_sidecar
from pyscheduler.intree.resource_claims.objects import EXTENDED_RESOURCE_CLAIM, CachedClaim, read_claim

IN_MEMORY_NAME = "<extended-resources>"
"""Name of the claim before it is created in the API server."""
ClassOfResource = Callable[[str], str | None]
"""Returns the name of the DeviceClass that provides a resource."""


class ContainerRequest(msgspec.Struct, frozen=True, rename="camel"):
    """core/v1 ContainerExtendedResourceRequest: the request of the claim that serves a container's resource."""

    container_name: str
    resource_name: str
    request_name: str


class RequestsOnNode(msgspec.Struct, frozen=True):
    """Requests of the claim if the pod runs on a node, and which of them serve which container."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerRequest, ...]


def new_claim(pod: Pod, uid: str) -> CachedClaim:
    """Return the claim of a pod as it is before it is created: without requests, which depend on the node."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    meta: dict[str, Any] = {
        "name": IN_MEMORY_NAME,
        "generateName": f"{pod.name}-extended-resources-",
        "namespace": pod.namespace,
        "uid": uid,
        "ownerReferences": [owner],
        "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
    }
    return read_claim({"metadata": meta, "spec": {}})


def is_in_memory(claim: CachedClaim) -> bool:
    """Return True if the claim is not created in the API server yet."""
    return claim.api.metadata.name == IN_MEMORY_NAME


def with_requests(claim: CachedClaim, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    """Return the claim with its requests on a node."""
    spec = claim.api.spec
    devices = msgspec.structs.replace(spec.devices, requests=tuple(requests))
    return msgspec.structs.replace(claim.api, spec=msgspec.structs.replace(spec, devices=devices))


def requests_on_node(pod: Pod, resources: Sequence[str], class_of: ClassOfResource) -> RequestsOnNode:
    """Return the requests for the resources that devices provide on a node (createRequestsAndMappings).

    Containers that run at the same time have a request each. Init containers run one after the other: each gets the
    devices of containers that start later, and all share the one request for what these do not cover.
    """
    init = pod.spec.init_containers or ()
    containers = (*init, *pod.spec.containers)
    numbers = range(len(containers))
    runs_to_completion = [i < len(init) and not is_sidecar(containers[i]) for i in numbers]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerRequest] = []
    for resource in sorted(resources):
        class_name = class_of(resource)
        if class_name is None:
            continue
        own: dict[int, DeviceRequest] = {}
        for i in (i for i in numbers if not runs_to_completion[i]):
            request, mapped = _container_request(i, containers[i], resource, class_name, ())
            mappings += mapped
            if request is not None:
                own[i] = request
        largest: DeviceRequest | None = None
        replaced: set[str] = set()
        initial: list[ContainerRequest] = []
        for i in (i for i in numbers if runs_to_completion[i]):
            later = [own[j] for j in numbers[i:] if j in own]
            request, mapped = _container_request(i, containers[i], resource, class_name, later)
            initial += mapped
            if request is not None:
                replaced.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
        if largest is not None:
            requests.append(largest)
            replaced.discard(largest.name)
            name = largest.name
            initial = [
                msgspec.structs.replace(each, request_name=name) if each.request_name in replaced else each
                for each in initial
            ]
        requests += own.values()
        mappings += initial
    return RequestsOnNode(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def _container_request(
    number: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[ContainerRequest]]:
    """Return the request for what the reusable ones do not cover of a container's resource, None if they suffice."""
    requested = (container.resources.requests if container.resources else None) or {}
    wanted = amount(resource, requested[resource]) if resource in requested else 0
    mappings: list[ContainerRequest] = []
    if not wanted:
        return None, mappings
    covered = 0
    for request in reusable:
        covered += _count(request)
        mappings.append(ContainerRequest(container.name, resource, request.name))
        if covered >= wanted:
            return None, mappings
    name = f"container-{number}-request-{sorted(requested).index(resource)}"
    mappings.append(ContainerRequest(container.name, resource, name))
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=wanted - covered)
    return DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
