"""Pools of devices as one node sees them: only complete ones of the newest generation are allocated from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyscheduler.intree.devices.inventory import CounterName, Inventory, PoolDevice, PoolID, PreparedSlice


class DevicePool:
    """Devices of one pool that can be used from a node, or the reason why there are none."""

    __slots__ = ("counters", "devices", "elsewhere", "generation", "id", "invalid_reason", "is_incomplete")

    def __init__(self, id_: PoolID, generation: int = 0) -> None:
        self.id = id_
        self.generation = generation
        self.is_incomplete = False
        self.invalid_reason = ""
        """Text for logs; the pod is not shown it."""
        self.devices: list[PoolDevice] = []
        self.elsewhere: list[PoolDevice] = []
        """Devices that cannot be used from this node but may consume its counters."""
        self.counters: dict[CounterName, int] = {}

    @property
    def is_usable(self) -> bool:
        """True if devices may be allocated from the pool."""
        return not self.is_incomplete and not self.invalid_reason

    @property
    def has_binding_conditions(self) -> bool:
        """True if a device has binding conditions, even an empty list of them."""
        return any(device.api.binding_conditions is not None for device in self.devices)


def gather_pools(inventory: Inventory, name: str, labels: Mapping[str, str]) -> list[DevicePool]:
    """Return the pools of a node in the order of allocation: those with binding conditions last, else by name."""
    slices: dict[PoolID, list[PreparedSlice]] = {}
    for prepared in inventory.for_node(name):
        # Compatibility groups are an alpha feature. Without their slices a pool is incomplete.
        if not prepared.uses_groups and prepared.is_relevant(name, labels):
            _add_to_generation(slices.setdefault(prepared.pool, []), prepared)
    pools = [_complete(id_, of_pool, inventory) for id_, of_pool in slices.items()]
    return sorted((pool for pool in pools if pool is not None), key=lambda pool: (pool.has_binding_conditions, pool.id))


def _add_to_generation(slices: list[PreparedSlice], added: PreparedSlice) -> None:
    """Add a slice; a newer generation replaces the slices of an older one."""
    generation = added.api.spec.pool.generation
    if slices and generation < slices[0].api.spec.pool.generation:
        return
    if slices and generation > slices[0].api.spec.pool.generation:
        slices.clear()
    slices.append(added)


def _complete(id_: PoolID, slices: list[PreparedSlice], inventory: Inventory) -> DevicePool | None:
    """Return the pool; None if the cluster has a newer generation of it, without devices for this node."""
    generation, count = slices[0].api.spec.pool.generation, slices[0].api.spec.pool.resource_slice_count
    elsewhere: Sequence[PreparedSlice] = ()
    if len(slices) != count:
        everywhere = inventory.of_pool(id_)
        if any(each.api.spec.pool.generation > generation for each in everywhere):
            return None
        same = [s for s in everywhere if s.api.spec.pool.generation == generation and not s.uses_groups]
        if len(same) != count:
            pool = DevicePool(id_)
            pool.is_incomplete = True
            return pool
        names = {each.api.metadata.name for each in slices}
        elsewhere = [each for each in same if each.api.metadata.name not in names]
    return _build(DevicePool(id_, generation), sorted(slices, key=lambda each: each.api.metadata.name), elsewhere)


def _build(pool: DevicePool, slices: list[PreparedSlice], elsewhere: Sequence[PreparedSlice]) -> DevicePool:
    """Fill the pool, or set the reason why it is invalid. A slice has either devices or counters."""
    devices = [device for each in slices if not each.counter_sets for device in each.devices]
    others = [device for each in elsewhere if not each.counter_sets for device in each.devices]
    counter_sets = [s for each in (*slices, *elsewhere) for s in each.counter_sets]
    pool.invalid_reason = (
        next((each.problem for each in (*slices, *elsewhere) if each.problem), "")
        or _duplicate("device", (device.id.device for device in devices))
        or _duplicate("counter set", (name for name, _ in counter_sets))
    )
    if pool.invalid_reason:
        return pool
    sets = dict(counter_sets)
    pool.invalid_reason = _missing_counter(devices, sets) or _missing_counter(others, sets)
    if not pool.invalid_reason:
        pool.devices, pool.elsewhere = devices, others
        pool.counters = {(s, name): amount for s, counters in sets.items() for name, amount in counters.items()}
    return pool


def _duplicate(kind: str, names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {kind} name {name}"
        seen.add(name)
    return ""


def _missing_counter(devices: Iterable[PoolDevice], sets: Mapping[str, Mapping[str, int]]) -> str:
    for device in devices:
        for consumption in device.api.consumes_counters or ():
            if consumption.counter_set not in sets:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.counters or ():
                if name not in sets[consumption.counter_set]:
                    return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""
