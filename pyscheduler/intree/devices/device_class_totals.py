"""Devices of a DeviceClass by node, and how many of them are allocated, updated incrementally.

Counted as by kube-scheduler for scores (calculateDRAResourceTotals in noderesources/resource_allocation.go): devices of
all slices that name the node, of outdated and incomplete pools too, whatever their taints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, NodeTable
from pyscheduler.api.devices import DeviceClass
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.cel_selectors import CelSelectors
from pyscheduler.intree.devices.errors import AllocationTimeoutError
from pyscheduler.intree.devices.inventory import DeviceID, Inventory, NodeReference, PoolDevice, PoolID, PreparedSlice
from pyscheduler.intree.devices.selectors import ExpressionCompileError, ExpressionRuntimeError, matches


class _Part:
    """Devices of a slice that the same nodes can use."""

    __slots__ = ("allocated", "devices", "fails", "nodes", "positions")

    def __init__(self, nodes: NodeReference, devices: tuple[DeviceID, ...], fails: bool) -> None:
        self.nodes = nodes
        self.devices = devices
        """Devices that match the class."""
        self.fails = fails
        """True if an expression of the class fails for a device."""
        self.allocated = 0
        self.positions: NDArray[np.intp] | slice = slice(0)
        """Nodes to which the part was added."""


class DeviceClassTotals:
    """Totals of one class for each node of the cluster, by position."""

    def __init__(self, device_class: DeviceClass, selectors: CelSelectors) -> None:
        self.device_class = device_class
        self._selectors = selectors
        self._parts: dict[PreparedSlice, list[_Part]] = {}
        self._by_pool: dict[PoolID, dict[PreparedSlice, None]] = {}
        self._inventory = Inventory(())
        self._nodes_version = -1
        self._position_of: dict[str, int] = {}
        self._devices: Ints = np.zeros(0, np.int64)
        self._allocated: Ints = np.zeros(0, np.int64)
        self._failures: Ints = np.zeros(0, np.int64)
        """Number of slices with a failing expression."""

    def position(self, node_name: str) -> int:
        """Return the position of a node, as of the last refresh."""
        return self._position_of[node_name]

    def at(self, position: int) -> tuple[int, int]:
        """Return the devices of a node, and how many are allocated. Both are 0 if an expression of the class fails."""
        if self._failures.item(position):
            return 0, 0
        return self._devices.item(position), self._allocated.item(position)

    def of(self, nodes: NodeTable) -> tuple[Ints, Ints]:
        """Return the same for each node of a table."""
        works = self._failures[nodes.positions] == 0
        return np.where(works, self._devices[nodes.positions], 0), np.where(works, self._allocated[nodes.positions], 0)

    def refresh(
        self, inventory: Inventory, allocated: AllocatedDevices, changed: Collection[PoolID] | None, nodes: NodeTable
    ) -> None:
        """Apply the changes since the last call to all nodes of the cluster.

        `changed` are the pools with devices in another use since then, None for all pools.
        """
        if inventory is not self._inventory:
            self._read_slices(inventory)
        if nodes.version != self._nodes_version:
            self._read_nodes(nodes)
        for pool in self._by_pool if changed is None else changed:
            for slice_ in self._by_pool.get(pool, ()):
                for part in self._parts[slice_]:
                    self._count(part, allocated)
        for slice_ in inventory.slices if len(self._parts) < len(inventory.slices) else ():
            if slice_ not in self._parts:
                self._add_slice(slice_, allocated, nodes)

    # -- slices ----------------------------------------------------------------------------------------------------

    def _read_slices(self, inventory: Inventory) -> None:
        """Remove the slices that are gone or were changed."""
        for slice_ in [each for each in self._parts if inventory.by_name.get(each.api.metadata.name) is not each]:
            for part in self._parts.pop(slice_):
                self._apply(part, -1)
            of_pool = self._by_pool[slice_.pool]
            del of_pool[slice_]
            if not of_pool:
                del self._by_pool[slice_.pool]
        self._inventory = inventory

    def _add_slice(self, slice_: PreparedSlice, allocated: AllocatedDevices, nodes: NodeTable) -> None:
        parts = self._parts[slice_] = [self._part(*each) for each in _by_nodes(slice_)]
        self._by_pool.setdefault(slice_.pool, {})[slice_] = None
        for part in parts:
            part.positions = self._positions(part.nodes, nodes)
            self._apply(part, 1)
            self._count(part, allocated)

    def _part(self, nodes: NodeReference, devices: Iterable[PoolDevice]) -> _Part:
        self._selectors.start()
        found = []
        for device in devices:
            try:
                if self._matches(device):
                    found.append(device.id)
            except (ExpressionCompileError, ExpressionRuntimeError, AllocationTimeoutError):
                return _Part(nodes, (), fails=True)
        return _Part(nodes, tuple(found), fails=False)

    def _matches(self, device: PoolDevice) -> bool:
        selectors = self.device_class.spec.selectors or ()
        return all(
            each.cel is None or matches(self._selectors, each.cel.expression, device.selected) for each in selectors
        )

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _read_nodes(self, nodes: NodeTable) -> None:
        """Assign all slices to the nodes again."""
        self._position_of = {node.name: position for position, node in enumerate(nodes)}
        self._devices, self._allocated, self._failures = (np.zeros(len(nodes), np.int64) for _ in range(3))
        for parts in self._parts.values():
            for part in parts:
                part.positions = self._positions(part.nodes, nodes)
                self._apply(part, 1)
        self._nodes_version = nodes.version

    def _positions(self, reference: NodeReference, nodes: NodeTable) -> NDArray[np.intp] | slice:
        if reference.node_name:
            position = self._position_of.get(reference.node_name, -1)
            return slice(0) if position < 0 else slice(position, position + 1)
        if reference.selector is None:
            return slice(None)
        return np.array([i for i, node in enumerate(nodes) if reference.matches(node.name, node.labels)], np.intp)

    def _apply(self, part: _Part, sign: int) -> None:
        self._devices[part.positions] += sign * len(part.devices)
        self._allocated[part.positions] += sign * part.allocated
        self._failures[part.positions] += sign * part.fails

    def _count(self, part: _Part, allocated: AllocatedDevices) -> None:
        """Count the allocated devices of a part again."""
        before, part.allocated = part.allocated, sum(map(allocated.is_allocated, part.devices))
        if part.allocated != before:
            self._allocated[part.positions] += part.allocated - before


def _by_nodes(slice_: PreparedSlice) -> Iterator[tuple[NodeReference, list[PoolDevice]]]:
    """Yield the devices of a slice by the nodes that can use them.

    A slice that sets no nodes counts for all of them: kube-scheduler counts it, although it allocates from none.
    """
    if not slice_.api.spec.per_device_node_selection:
        if slice_.devices:
            yield slice_.nodes, list(slice_.devices)
        return
    groups: dict[NodeReference, list[PoolDevice]] = {}
    for device in slice_.devices:
        if device.nodes is not None and not device.nodes.is_empty:
            groups.setdefault(device.nodes, []).append(device)
    yield from groups.items()
