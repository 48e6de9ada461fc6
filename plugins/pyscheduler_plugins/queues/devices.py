"""Devices of DeviceClasses, by the names that quotas have for them.

As in Kubernetes' ResourceQuota, a device of class `gpu` counts toward three of them, however it is requested:

    gpu.deviceclass.resource.k8s.io/devices    by a ResourceClaim
    deviceclass.resource.kubernetes.io/gpu     by a container, as resource of the class
    example.com/gpu                            by a container, as the class's extendedResourceName
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from pyscheduler.api import Pod, ResourceKind, WatchedObjects
from pyscheduler.api.devices import ALL as ALL_DEVICES
from pyscheduler.api.devices import (
    EXACT_COUNT,
    MAX_DEVICES_PER_CLAIM,
    RESOURCE_GROUP,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from pyscheduler.api.resources import Amounts

CLAIM = ResourceKind(RESOURCE_GROUP, "v1", "resourceclaims", "ResourceClaim", optional=True)
DEVICE_CLASS = ResourceKind(RESOURCE_GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False, optional=True)

DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
"""Suffix of the resource name for devices of a class in claims."""
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource name by which a container requests a device of a class."""


def class_devices(class_name: str) -> str:
    """Return the resource name for the devices of a class."""
    return class_name + DEVICES_SUFFIX


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims of a pod, without those that are not created yet, or not needed."""
    created = {status.name: status.resource_claim_name for status in pod.claim_statuses}
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or created.get(entry.name)
        if name:
            yield name


def requested_devices(claim: Mapping[str, Any]) -> Amounts:
    """Return the devices that a claim requests by class: the most that each request may get of any alternative.

    A claim that cannot be read requests none: no pod with it is scheduled.
    """
    try:
        requests = msgspec.convert(claim, ResourceClaim).spec.devices.requests or ()
    except msgspec.ValidationError:
        return {}
    total: Amounts = {}
    for request in requests:
        for resource, count in _of_request(request).items():
            total[resource] = total.get(resource, 0) + count
    return total


def _of_request(request: DeviceRequest) -> Amounts:
    alternatives = (request.exactly,) if request.exactly is not None else request.first_available or ()
    most: Amounts = {}
    for each in alternatives:
        name = class_devices(each.device_class_name)
        most[name] = max(most.get(name, 0), _count(each))
    return most


def _count(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    """Return the number of devices; that of a request for all devices is the most that a claim can have."""
    if request.allocation_mode == ALL_DEVICES:
        return MAX_DEVICES_PER_CLAIM
    return max(0, request.count) if request.allocation_mode == EXACT_COUNT else 0  # another mode is never allocated


class RequestedDevices:
    """Devices of each claim, parsed once: an attempt of a large group reads them several times."""

    def __init__(self, objects: WatchedObjects) -> None:
        self._objects = objects
        self._version = -1
        self._read: dict[tuple[str, str], Amounts] = {}

    def devices(self, namespace: str, name: str) -> Amounts:
        """Return the devices that a claim requests by class; none if it does not exist."""
        version, key = self._objects.version(CLAIM), (namespace, name)
        if version != self._version:
            changed = self._objects.changed_since(CLAIM, self._version)
            for each in list(self._read) if changed is None else changed:
                self._read.pop(each, None)
            self._version = version
        read = self._read.get(key)
        if read is None and (claim := self._objects[CLAIM].get(key)) is not None:
            read = self._read[key] = requested_devices(claim)
        return read or {}


class DeviceNames:
    """Names of the devices of all DeviceClasses. The plugin of the objects must watch DEVICE_CLASS."""

    def __init__(self, objects: WatchedObjects) -> None:
        self._objects = objects
        self._version = -1
        self._extended: dict[str, str] = {}
        """Extended resources by the class that provides them."""
        self._class_of: dict[str, str] = {}
        """The class that provides an extended resource: of several, the newest one, then the first by name."""
        self._on_nodes: Collection[str] = ()

    def set_on_nodes(self, resources: Collection[str]) -> bool:
        """Set which resources nodes list. Return True if that changes what has shares."""
        changed = any(map(self.class_of, {*resources} ^ {*self._on_nodes}))
        self._on_nodes = resources
        return changed

    def split(self, amounts: Mapping[str, int]) -> tuple[Amounts, Amounts]:
        """Return the amounts that have shares, and the devices that count toward quotas only.

        Resources that nodes list have shares, also if a DeviceClass provides them on other nodes.
        """
        if not any(map(self.class_of, amounts)):
            return dict(amounts), {}
        with_shares = {r: n for r, n in amounts.items() if r in self._on_nodes or not self.class_of(r)}
        named = self.with_all_names(amounts)
        return with_shares, {r: more for r, n in named.items() if (more := n - with_shares.get(r, 0)) > 0}

    def class_of(self, resource: str) -> str:
        """Return the class of which a resource name counts devices; "" for another resource."""
        if "/" not in resource:
            return ""
        if resource.endswith(DEVICES_SUFFIX):
            return resource.removesuffix(DEVICES_SUFFIX)
        if resource.startswith(CLASS_PREFIX):
            return resource.removeprefix(CLASS_PREFIX)
        self._refresh()
        return self._class_of.get(resource, "")

    def with_all_names(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """Return amounts in which each device counts toward all of its names."""
        self._refresh()
        devices: Amounts = {}
        for resource, amount in amounts.items():
            if name := self.class_of(resource):
                devices[name] = devices.get(name, 0) + amount
        if not devices:
            return amounts
        named = {resource: n for resource, n in amounts.items() if not self.class_of(resource)}
        for name, count in devices.items():
            for resource in filter(None, (class_devices(name), CLASS_PREFIX + name, self._extended.get(name))):
                named[resource] = named.get(resource, 0) + count
        return named

    def _refresh(self) -> None:
        version = self._objects.version(DEVICE_CLASS)
        if version == self._version:
            return
        self._version = version
        classes = [(name, *extended_resource(each)) for (_, name), each in self._objects[DEVICE_CLASS].items()]
        newest_first = sorted(sorted(classes), key=lambda each: each[2], reverse=True)
        self._extended, self._class_of = {}, {}
        for name, resource, _ in newest_first:
            if resource:
                self._extended[name] = resource
                self._class_of.setdefault(resource, name)


def extended_resource(device_class: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the extended resource that a class provides, "" if none, and its creation time."""
    spec, metadata = ((device_class or {}).get(key) for key in ("spec", "metadata"))
    resource = spec.get("extendedResourceName") if isinstance(spec, Mapping) else None
    created = metadata.get("creationTimestamp") if isinstance(metadata, Mapping) else None
    return (resource if isinstance(resource, str) else ""), str(created or "")
