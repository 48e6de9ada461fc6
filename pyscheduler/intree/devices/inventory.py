"""ResourceSlices prepared for allocation: parsed quantities, compiled node selectors, indexes by node and pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pyscheduler.api.devices import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from pyscheduler.api.match import NodeTerm, node_terms
from pyscheduler.api.objects import NodeSelector
from pyscheduler.api.quantity import QuantityError
from pyscheduler.intree.devices.capacity import ParsedCapacity, parse_capacity
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.devices.selectors import SelectedDevice
from pyscheduler.intree.devices.taints import blocking


class PoolID(NamedTuple):
    """Pools of different drivers may have the same name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """Name of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


CounterName = tuple[str, str]
"""Counter set and counter."""


class NodeReference(NamedTuple):
    """Nodes from which a slice or device can be used (nodeName, allNodes, nodeSelector), with compiled terms."""

    node_name: str
    all_nodes: bool
    selector: tuple[NodeTerm, ...] | None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if the node is one of them (NodeMatches)."""
        if self.node_name:
            return self.node_name == name
        if self.all_nodes:
            return True
        return self.selector is not None and any(term.matches(name, labels) for term in self.selector)

    @property
    def is_empty(self) -> bool:
        """True if nothing is set."""
        return not self.node_name and not self.all_nodes and self.selector is None


class PoolDevice:
    """One device of a prepared slice."""

    __slots__ = ("api", "capacities", "content", "counters", "id", "is_shared", "nodes", "selected", "slice", "taints")

    def __init__(self, slice_: ResourceSlice, device: Device, selected: SelectedDevice, fractional: bool) -> None:
        self.slice = slice_
        self.api = device
        self.id = DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name)
        self.content = _encode((slice_.spec.driver, msgspec.structs.replace(device, name="")))
        """Encoded fields without the name; equal for devices that match the same requests."""
        self.is_shared = bool(device.allow_multiple_allocations)
        self.capacities: dict[str, ParsedCapacity] = {
            name: parse_capacity(each, fractional=fractional) for name, each in (device.capacity or {}).items()
        }
        self.counters = _counters(device)
        self.taints: tuple[DeviceTaint, ...] = blocking(device.taints)
        self.selected = selected
        self.nodes: NodeReference | None = None
        """Nodes of this device alone, if its slice leaves them to the devices."""
        if slice_.spec.per_device_node_selection:
            self.nodes = _reference(device.node_name, device.all_nodes, device.node_selector)

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return the attribute of a fully qualified name; the driver's own have none with its domain."""
        attributes = self.api.attributes or {}
        found = attributes.get(name)
        if found is not None:
            return found
        domain, slash, identifier = name.partition("/")
        return attributes.get(identifier) if slash and domain == self.id.driver else None


class PreparedSlice:
    """ResourceSlice with everything computed that no claim or node changes."""

    __slots__ = ("api", "counter_sets", "devices", "nodes", "pool", "problem", "uses_groups")

    def __init__(self, slice_: ResourceSlice, shared: SharedDevices, fractional: bool) -> None:
        spec = slice_.spec
        self.api = slice_
        self.pool = PoolID(spec.driver, spec.pool.name)
        self.nodes = _reference(spec.node_name, spec.all_nodes, spec.node_selector)
        self.uses_groups = _uses_groups(spec.devices or ())
        self.problem = ""
        self.devices: tuple[PoolDevice, ...] = ()
        self.counter_sets: tuple[tuple[str, dict[str, int]], ...] = ()
        try:
            self.devices = tuple(
                [PoolDevice(slice_, each, shared.of(spec.driver, each), fractional) for each in spec.devices or ()]
            )
            self.counter_sets = tuple(
                (s.name, {n: parse(c.value).nano for n, c in (s.counters or {}).items()})
                for s in spec.shared_counters or ()
            )
        except QuantityError as error:
            self.problem = str(error)

    @property
    def depends_on_labels(self) -> bool:
        """True if the labels of a node decide whether it can use the slice or one of its devices."""
        references = [self.nodes, *(device.nodes for device in self.devices if device.nodes is not None)]
        return any(each.selector is not None for each in references)

    def is_relevant(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if the slice, or one of its devices, can be used from the node.

        A slice that sets no nodes at all is of a later API version and is left out.
        """
        if not self.nodes.is_empty:
            return self.nodes.matches(name, labels)
        if not self.api.spec.per_device_node_selection:
            return False
        return any(device.nodes is not None and device.nodes.matches(name, labels) for device in self.devices)


class SharedDevices:
    """Devices as expressions see them, one for all that have equal fields."""

    def __init__(self) -> None:
        self._by_fields: dict[bytes, SelectedDevice] = {}

    def of(self, driver: str, device: Device) -> SelectedDevice:
        """Return the instance for the device's fields."""
        is_shared = bool(device.allow_multiple_allocations)
        fields = _encode((driver, is_shared, device.attributes, device.capacity))
        found = self._by_fields.get(fields)
        if found is None:
            found = SelectedDevice(driver, is_shared, device.attributes or {}, device.capacity or {})
            self._by_fields[fields] = found
        return found


class Inventory:
    """All ResourceSlices of the cluster.

    `before` is the inventory of an earlier state: slices that have not changed are not prepared again. With
    `fractional`, the ranges of capacities may have fractions (feature gate DRAFractionalCapacityRange).
    """

    def __init__(
        self, slices: Iterable[ResourceSlice], before: Inventory | None = None, *, fractional: bool = False
    ) -> None:
        shared = SharedDevices()
        ready = before.by_name if before else {}
        self.by_name: dict[str, PreparedSlice] = {}
        """Slices by the name of the object."""
        self.slices: list[PreparedSlice] = []
        self._of_node: dict[str, list[PreparedSlice]] = {}
        self._of_no_node: list[PreparedSlice] = []
        self.of_some_nodes: list[PreparedSlice] = []
        """Slices that name no node, and cannot be used from every one."""
        self._of_pool: dict[PoolID, list[PreparedSlice]] = {}
        for slice_ in slices:
            prepared = ready.get(slice_.metadata.name)
            if prepared is None or prepared.api is not slice_:
                prepared = PreparedSlice(slice_, shared, fractional)
            self._add(prepared)

    def _add(self, prepared: PreparedSlice) -> None:
        self.by_name[prepared.api.metadata.name] = prepared
        self.slices.append(prepared)
        node_name = prepared.api.spec.node_name
        (self._of_node.setdefault(node_name, []) if node_name else self._of_no_node).append(prepared)
        if not node_name and (not prepared.nodes.all_nodes or prepared.api.spec.per_device_node_selection):
            self.of_some_nodes.append(prepared)
        self._of_pool.setdefault(prepared.pool, []).append(prepared)

    def for_node(self, name: str) -> list[PreparedSlice]:
        """Return the slices of the node, then those that name no node: the order decides about ties later on."""
        return [*self._of_node.get(name, ()), *self._of_no_node]

    def named_for(self, name: str) -> Sequence[PreparedSlice]:
        """Return the slices that name the node."""
        return self._of_node.get(name, ())

    @property
    def depends_on_labels(self) -> bool:
        """True if the labels of a node decide whether it can use a slice or a device."""
        return any(each.depends_on_labels for each in self.of_some_nodes)

    def changed_since(self, before: Inventory) -> list[PreparedSlice]:
        """Return the slices that were added or removed since then; a changed slice was both."""
        changed = [each for name, each in before.by_name.items() if self.by_name.get(name) is not each]
        return [*changed, *(each for name, each in self.by_name.items() if before.by_name.get(name) is not each)]

    def of_pool(self, pool: PoolID) -> list[PreparedSlice]:
        """Return the slices of all generations of a pool."""
        return self._of_pool.get(pool, [])


def _reference(node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> NodeReference:
    return NodeReference(node_name or "", bool(all_nodes), None if selector is None else node_terms(selector))


def _counters(device: Device) -> tuple[tuple[CounterName, int], ...]:
    """Return the counters that the device consumes, in billionths."""
    sums: dict[CounterName, int] = {}
    for consumption in device.consumes_counters or ():
        for name, counter in (consumption.counters or {}).items():
            key = (consumption.counter_set, name)
            sums[key] = sums.get(key, 0) + parse(counter.value).nano
    return tuple(sums.items())


def _uses_groups(devices: Iterable[Device]) -> bool:
    return any(c.compatibility_groups for d in devices for c in d.consumes_counters or ())


_encode: Callable[[object], bytes] = msgspec.msgpack.Encoder(order="sorted").encode
