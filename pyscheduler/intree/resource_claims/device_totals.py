"""Devices that provide an extended resource, by node, for the scores of NodeResourcesFit and its like (KEP-5004)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pyscheduler.api import Handle, Ints, NodeFields, NodeInfo, NodeTable
from pyscheduler.api.resources import is_extended
from pyscheduler.intree.devices.cel_selectors import CelSelectors
from pyscheduler.intree.devices.device_class_totals import DeviceClassTotals
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX, DeviceClasses
from pyscheduler.intree.resource_claims.device_state import devices_of
from pyscheduler.intree.resource_claims.objects import CLAIM, DEVICE_CLASS, SLICE

DEVICE_KINDS = (CLAIM, SLICE, DEVICE_CLASS)
"""Kinds that a plugin with DeviceTotals watches."""


def is_device_resource(resource: str) -> bool:
    """Return True if a DeviceClass may provide the resource (IsDRAExtendedResourceName)."""
    return is_extended(resource) or resource.startswith(CLASS_PREFIX)


def node_fields_of_devices(requests: Iterable[str]) -> NodeFields:
    """Return the parts of nodes that select the ResourceSlices of requested resources, which may be devices."""
    return NodeFields.LABELS if any(map(is_device_resource, requests)) else NodeFields.NONE


class DeviceTotals:
    """Totals of each class that provides an extended resource; one instance for all plugins of the handle."""

    def __init__(self, handle: Handle) -> None:
        self._nodes = handle.nodes
        self._claims = handle.shared(ClaimCache)
        self._devices = handle.shared(devices_of((), fractional=False))
        self._classes = handle.shared(DeviceClasses)
        self._selectors = CelSelectors()
        self._by_class: dict[str, DeviceClassTotals] = {}
        self._versions: dict[str, tuple[int, int, int]] = {}
        """Versions of the use of devices, of the devices and of the nodes, as of the last refresh of a class."""

    @property
    def version(self) -> tuple[int, int, int]:
        """Version that changes with any device, its use, and any class."""
        return self._claims.devices.version, self._devices.version, self._classes.version

    def on_node(self, resource: str, node: NodeInfo) -> tuple[int, int]:
        """Return the devices of a node that provide the resource, and how many of them are allocated."""
        totals = self._totals(resource)
        return (0, 0) if totals is None else totals.at(totals.position(node.name))

    def replaced(self, resource: str, nodes: NodeTable, allocatable: Ints, requested: Ints) -> tuple[Ints, Ints]:
        """Return both columns with the devices instead, where nothing is allocatable."""
        totals = self._totals(resource) if is_device_resource(resource) else None
        has_none = allocatable == 0
        if totals is None or not np.count_nonzero(has_none):
            return allocatable, requested
        devices, allocated = totals.of(nodes)
        return np.where(has_none, devices, allocatable), np.where(has_none, allocated, requested)

    def _totals(self, resource: str) -> DeviceClassTotals | None:
        """Return the current totals of the class that provides the resource; None if there is none."""
        name = self._classes.of_resource(resource)
        if name is None:
            return None
        device_class, nodes, in_use = self._classes.by_name[name], self._nodes.table(), self._claims.devices
        totals = self._by_class.get(name)
        if totals is None or totals.device_class is not device_class:
            totals = self._by_class[name] = DeviceClassTotals(device_class, self._selectors)
            self._versions.pop(name, None)
        before, versions = self._versions.get(name), (in_use.version, self._devices.version, nodes.version)
        if before != versions:
            changed = in_use.changed_since(before[0]) if before else ()
            totals.refresh(self._devices.inventory, in_use.allocated, changed, nodes.all_nodes)
            self._versions[name] = versions
        return totals
