"""Equivalence classes of nodes by their devices: a claim can be allocated on all nodes of a class or on none.

Nodes are equivalent if their devices have equal fields and equal allocations, whatever the names of pools and devices.
Thousands of nodes with eight devices each form a few classes, and the allocator runs once for each class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import NodeTable
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.inventory import DeviceID, Inventory, PoolDevice, PoolID, PreparedSlice
from pyscheduler.intree.devices.pools import DevicePool, gather_pools

_SPARE: Final = 4096


class _NodePool(NamedTuple):
    """A pool as a node sees it."""

    id: PoolID
    content: int
    """Number of its content; pools with equal devices have the same."""
    devices: tuple[DeviceID, ...]
    """Devices whose allocations matter, in the order of the content; interned."""


class _PoolSet:
    """Pools of all nodes to which the same slices are relevant."""

    __slots__ = ("pools", "positions")

    def __init__(self, pools: tuple[_NodePool, ...]) -> None:
        self.pools = pools
        self.positions: set[int] = set()
        """Positions of the nodes."""


class _NodePools(NamedTuple):
    """Pools of a node, with the name and the labels for which they were gathered."""

    name: str
    labels: Mapping[str, str] | None
    """None if no slice depends on labels."""
    pools: _PoolSet | None


_UNREAD: Final = _NodePools("", None, None)
_Usable = tuple[bool, ...]
"""For each device of a slice that leaves the nodes to its devices: True if the node can use it."""


class EquivalentNodes:
    """Class number of each node of the cluster, updated incrementally."""

    def __init__(self) -> None:
        self.version = 0
        """Version that changes whenever a node gets another number."""
        self.epoch = 0
        """Version that changes whenever all numbers get another meaning."""
        self._inventory = Inventory(())
        self._nodes_version = -1
        self._nodes: list[_NodePools] = []
        self._sets: dict[Hashable, _PoolSet] = {}
        """Pools by the slices from which they were gathered, of the current inventory."""
        self._sets_of: dict[PoolID, set[_PoolSet]] = {}
        self._contents: dict[Hashable, int] = {}
        self._devices: dict[tuple[DeviceID, ...], tuple[DeviceID, ...]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._of: NDArray[np.int64] = np.zeros(0, np.int64)
        """Number of each node, by position."""
        self._nodes_with = Counter[int]()
        """Number of nodes that have each number."""

    def numbers_in_use(self) -> list[int]:
        """Return the numbers that some node of the cluster has, ascending, as of the last refresh."""
        return sorted(self._nodes_with)

    def numbers(self, nodes: NodeTable) -> NDArray[np.int64]:
        """Return the number of each node of a table, as of the last refresh."""
        return self._of[nodes.positions]

    def refresh(
        self, inventory: Inventory, allocated: AllocatedDevices, changed: Iterable[PoolID] | None, nodes: NodeTable
    ) -> None:
        """Update the numbers of all nodes of the cluster. `changed` are the pools with devices in another use.

        None for `changed` stands for all pools.
        """
        if inventory is not self._inventory or nodes.version != self._nodes_version:
            read = self._read_nodes(inventory, nodes)
        else:
            read = set()
        stale = {
            each for pool in (self._sets_of if changed is None else changed) for each in self._sets_of.get(pool, ())
        }
        if stale or read:
            self._renumber(allocated, stale | read)

    # -- pools of nodes --------------------------------------------------------------------------------------------

    def _read_nodes(self, inventory: Inventory, nodes: NodeTable) -> set[_PoolSet]:
        """Read the pools of the nodes that are new, or may have other pools. Return the pools that were read."""
        has_labels = inventory.depends_on_labels
        stale = self._nodes_with_changed_slices(inventory, len(nodes))
        if len(self._contents) > _SPARE + 4 * len(nodes):
            self._contents.clear()  # most are of earlier states
            self._devices.clear()
            self._sets.clear()
            self._start_epoch()
            stale = range(len(nodes))
        if inventory is not self._inventory or len(self._sets) > _SPARE + 2 * len(nodes):
            self._sets.clear()
        self._resize(len(nodes))
        read = set[_PoolSet]()
        for position, node in enumerate(nodes):
            known = self._nodes[position]
            labels = node.labels if has_labels else None
            if position in stale or known.name != node.name or known.labels is not labels:
                self._forget(position)
                pools = self._pools(inventory, node.name, node.labels)
                pools.positions.add(position)
                self._nodes[position] = _NodePools(node.name, labels, pools)
                read.add(pools)
        self._inventory, self._nodes_version = inventory, nodes.version
        return read

    def _resize(self, count: int) -> None:
        """Adapt to the number of nodes."""
        size = len(self._nodes)
        for position in range(count, size):
            self._forget(position)
            self._count(self._of.item(position), -1)
        del self._nodes[count:]
        self._nodes += [_UNREAD] * (count - size)
        grown: NDArray[np.int64] = np.full(count, -1, np.int64)
        grown[: min(size, count)] = self._of[:count]
        self._of = grown

    def _nodes_with_changed_slices(self, inventory: Inventory, count: int) -> set[int] | range:
        """Return the positions of the nodes that may have other pools with this inventory."""
        changed = inventory.changed_since(self._inventory) if inventory is not self._inventory else []
        # A changed slice may make the other slices of its pool usable, or useless, on nodes that have no set of it yet.
        pools = {each.pool for each in changed}
        touched = [*changed, *(each for pool in pools for each in inventory.of_pool(pool))]
        if any(not each.api.spec.node_name for each in touched):
            return range(count)
        names = {each.api.spec.node_name for each in touched}
        sets = {found for pool in pools for found in self._sets_of.get(pool, ())}
        stale = {position for found in sets for position in found.positions}
        return stale | {position for position, node in enumerate(self._nodes) if names and node.name in names}

    def _forget(self, position: int) -> None:
        pools, self._nodes[position] = self._nodes[position].pools, _UNREAD
        if pools is None:
            return
        pools.positions.discard(position)
        for pool in () if pools.positions else pools.pools:
            sets = self._sets_of.get(pool.id, set())
            sets.discard(pools)
            if not sets:
                self._sets_of.pop(pool.id, None)

    def _pools(self, inventory: Inventory, name: str, labels: Mapping[str, str]) -> _PoolSet:
        """Return the pools of a node; the same for all nodes with the same slices, of which there may be many."""
        relevant = tuple(
            [
                (each, _usable(each, name, labels))
                for each in (*inventory.named_for(name), *inventory.of_some_nodes)
                if each.is_relevant(name, labels)
            ]
        )
        found = self._sets.get(relevant)
        if found is None:
            usable_of = {id(each.api): usable for each, usable in relevant if usable}
            # In the allocator's order: which slice of a pool is the first one matters if their counts differ.
            gathered = [self._pool(each, usable_of) for each in gather_pools(inventory, name, labels)]
            found = self._sets[relevant] = _PoolSet(tuple(gathered))
        if not found.positions:
            for pool in found.pools:
                self._sets_of.setdefault(pool.id, set()).add(found)
        return found

    def _pool(self, pool: DevicePool, usable_of: Mapping[int, _Usable]) -> _NodePool:
        others: Sequence[PoolDevice] = pool.elsewhere if pool.counters else ()
        content: Hashable = (pool.is_incomplete, bool(pool.invalid_reason))
        if pool.is_usable:
            devices = tuple([each.content for each in pool.devices])
            # Each node may use others of the devices that have nodes of their own.
            slices = dict.fromkeys(id(each.slice) for each in pool.devices) if usable_of else ()
            usable = tuple([usable_of[each] for each in slices if each in usable_of])
            content = devices, tuple([each.counters for each in others]), tuple(sorted(pool.counters.items())), usable
        number = self._contents.setdefault(content, len(self._contents))
        ids = tuple([each.id for each in (*pool.devices, *others)])
        return _NodePool(pool.id, number, self._devices.setdefault(ids, ids))

    # -- numbers -----------------------------------------------------------------------------------------------------

    def _renumber(self, allocated: AllocatedDevices, stale: Iterable[_PoolSet]) -> None:
        if len(self._numbers) > _SPARE + 2 * len(self._nodes):
            self._start_epoch()  # most are of earlier states
            stale = {node.pools for node in self._nodes if node.pools is not None}
        use_of: dict[int, Hashable] = {}
        for pools in stale:
            key = []
            for pool in pools.pools:
                use = use_of.get(id(pool.devices))
                if use is None:
                    use = use_of[id(pool.devices)] = tuple([_use(allocated, device) for device in pool.devices])
                key.append((pool.content, use))
            number = self._numbers.setdefault(tuple(key), len(self._numbers))
            for position in pools.positions:
                before = self._of.item(position)
                if before != number:
                    self._of[position] = number
                    self._count(before, -1)
                    self._count(number, 1)
                    self.version += 1

    def _count(self, number: int, more: int) -> None:
        count = self._nodes_with[number] + more
        if count > 0:
            self._nodes_with[number] = count
        else:
            self._nodes_with.pop(number, None)

    def _start_epoch(self) -> None:
        self._numbers.clear()
        self.epoch += 1
        self.version += 1


def _usable(slice_: PreparedSlice, name: str, labels: Mapping[str, str]) -> _Usable:
    if not slice_.api.spec.per_device_node_selection:
        return ()
    return tuple([each.nodes is None or each.nodes.matches(name, labels) for each in slice_.devices])


def _use(allocated: AllocatedDevices, device: DeviceID) -> Hashable:
    """Return a key of the allocations of a device."""
    if device in allocated.consumed:
        return frozenset(allocated.consumed[device].items()), device in allocated.devices
    return device in allocated.devices, device in allocated.shared
