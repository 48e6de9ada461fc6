"""Equivalence classes of nodes by their devices: a claim can be allocated on all nodes of a class or on none.

Nodes are equivalent if their devices have equal fields and equal allocations, whatever the names of pools and devices.
Thousands of nodes with eight devices each form a few classes, and the allocator runs once for each class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import NodeTable
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.inventory import DeviceID, Inventory, PoolDevice, PoolID
from pyscheduler.intree.devices.pools import DevicePool, gather_pools

_SPARE: Final = 4096


class _NodePool(NamedTuple):
    """A pool as a node sees it."""

    id: PoolID
    content: int
    """Number of its content; pools with equal devices have the same."""
    devices: tuple[DeviceID, ...]
    """Devices whose allocations matter, in the order of the content; interned."""


class _Node(NamedTuple):
    """Pools of a node, with the name and the labels for which they were gathered."""

    name: str
    labels: Mapping[str, str] | None
    """None if no slice depends on labels."""
    pools: tuple[_NodePool, ...]


_UNREAD: Final = _Node("", None, ())


class EquivalentNodes:
    """Class number of each node of the cluster, updated incrementally."""

    def __init__(self) -> None:
        self.version = 0
        """Version that changes whenever a node gets another number."""
        self.epoch = 0
        """Version that changes whenever all numbers get another meaning."""
        self._inventory = Inventory(())
        self._nodes_version = -1
        self._nodes: list[_Node] = []
        self._nodes_of: dict[PoolID, set[int]] = {}
        """Positions of the nodes that have devices of a pool."""
        self._contents: dict[Hashable, int] = {}
        self._devices: dict[tuple[DeviceID, ...], tuple[DeviceID, ...]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._of: NDArray[np.int64] = np.zeros(0, np.int64)

    def numbers(self, nodes: NodeTable) -> NDArray[np.int64]:
        """Return the number of each node of a table, as of the last refresh."""
        return self._of[nodes.positions]

    def refresh(
        self, inventory: Inventory, allocated: AllocatedDevices, changed: Iterable[PoolID] | None, nodes: NodeTable
    ) -> None:
        """Update the numbers of all nodes of the cluster. `changed` are the pools with devices in another use.

        None for `changed` stands for all pools.
        """
        stale = {
            position
            for pool in (self._nodes_of if changed is None else changed)
            for position in self._nodes_of.get(pool, ())
        }
        if inventory is not self._inventory or nodes.version != self._nodes_version:
            stale |= self._read_nodes(inventory, nodes)
        if stale:
            self._renumber(allocated, stale)

    # -- pools of nodes --------------------------------------------------------------------------------------------

    def _read_nodes(self, inventory: Inventory, nodes: NodeTable) -> set[int]:
        """Read the pools of the nodes that are new, or may have other pools. Return their positions."""
        has_labels = inventory.depends_on_labels
        stale = self._nodes_with_changed_slices(inventory, len(nodes))
        if len(self._contents) > _SPARE + 4 * len(nodes):
            self._contents.clear()  # most are of earlier states
            self._devices.clear()
            self._start_epoch()
            stale = range(len(nodes))
        size = len(self._nodes)
        for position in range(len(nodes), size):
            self._forget(position)
        del self._nodes[len(nodes) :]
        self._nodes += [_UNREAD] * (len(nodes) - size)
        grown: NDArray[np.int64] = np.full(len(nodes), -1, np.int64)
        grown[: min(size, len(nodes))] = self._of[: len(nodes)]
        self._of = grown
        read = set[int]()
        for position, node in enumerate(nodes):
            known = self._nodes[position]
            labels = node.labels if has_labels else None
            if position in stale or known.name != node.name or known.labels is not labels:
                self._forget(position)
                pools = tuple([self._pool(node.name, each) for each in gather_pools(inventory, node.name, node.labels)])
                self._nodes[position] = _Node(node.name, labels, pools)
                for pool in pools:
                    self._nodes_of.setdefault(pool.id, set()).add(position)
                read.add(position)
        self._inventory, self._nodes_version = inventory, nodes.version
        return read

    def _nodes_with_changed_slices(self, inventory: Inventory, count: int) -> set[int] | range:
        """Return the positions of the nodes that may have other pools with this inventory."""
        changed = inventory.changed_since(self._inventory) if inventory is not self._inventory else []
        if any(not each.api.spec.node_name for each in changed):
            return range(count)
        names = {each.api.spec.node_name for each in changed}
        stale = {position for each in changed for position in self._nodes_of.get(each.pool, ())}
        return stale | {position for position, node in enumerate(self._nodes) if names and node.name in names}

    def _forget(self, position: int) -> None:
        for pool in self._nodes[position].pools:
            positions = self._nodes_of.get(pool.id, set())
            positions.discard(position)
            if not positions:
                self._nodes_of.pop(pool.id, None)

    def _pool(self, node_name: str, pool: DevicePool) -> _NodePool:
        others: Sequence[PoolDevice] = pool.elsewhere if pool.counters else ()
        content: Hashable = (pool.is_incomplete, bool(pool.invalid_reason))
        if pool.is_usable:
            devices = tuple([each.content for each in pool.devices])
            # Each node may use others of the devices that have nodes of their own.
            name = node_name if any(each.nodes is not None for each in pool.devices) else None
            content = devices, tuple([each.counters for each in others]), tuple(sorted(pool.counters.items())), name
        number = self._contents.setdefault(content, len(self._contents))
        ids = tuple([each.id for each in (*pool.devices, *others)])
        return _NodePool(pool.id, number, self._devices.setdefault(ids, ids))

    # -- numbers -----------------------------------------------------------------------------------------------------

    def _renumber(self, allocated: AllocatedDevices, stale: Iterable[int]) -> None:
        if len(self._numbers) > _SPARE + 2 * len(self._nodes):
            self._start_epoch()  # most are of earlier states
            stale = range(len(self._nodes))
        use_of: dict[int, Hashable] = {}
        for position in stale:
            key = []
            for pool in self._nodes[position].pools:
                use = use_of.get(id(pool.devices))
                if use is None:
                    use = use_of[id(pool.devices)] = tuple([_use(allocated, device) for device in pool.devices])
                key.append((pool.content, use))
            number = self._numbers.setdefault(tuple(key), len(self._numbers))
            if self._of[position] != number:
                self._of[position] = number
                self.version += 1

    def _start_epoch(self) -> None:
        self._numbers.clear()
        self.epoch += 1
        self.version += 1


def _use(allocated: AllocatedDevices, device: DeviceID) -> Hashable:
    """Return a key of the allocations of a device."""
    if device in allocated.consumed:
        return frozenset(allocated.consumed[device].items()), device in allocated.devices
    return device in allocated.devices, device in allocated.shared
