"""Counters that partitions of a device share (partitionable devices, KEP-4815)."""

from __future__ import annotations

from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.inventory import CounterName, PoolDevice
from pyscheduler.intree.devices.pools import DevicePool


class PoolCounters:
    """Counters of one pool: what allocated devices leave, and what the devices of this attempt consume."""

    __slots__ = ("available", "consumed", "is_monotonic", "is_overcommitted")

    def __init__(self, pool: DevicePool, allocated: AllocatedDevices) -> None:
        self.available: dict[CounterName, int] = dict(pool.counters)
        self.consumed: dict[CounterName, int] = {}
        self.is_monotonic = True
        """True if no device gives counters back: then a device that does not fit does not fit beside others either."""
        for device in (*pool.devices, *pool.elsewhere):
            self.is_monotonic = self.is_monotonic and all(amount >= 0 for _, amount in device.counters)
            if device.counters and allocated.is_allocated(device.id):
                for name, amount in device.counters:
                    self.available[name] -= amount
        self.is_overcommitted = any(amount < 0 for amount in self.available.values())
        """True if allocated devices consume more than there is, as after a pool was published anew."""

    def fits(self, device: PoolDevice) -> bool:
        """Return True if the device's counters are available. If any counter of the pool is negative, none is."""
        if self.is_overcommitted:
            return False
        return all(self.consumed.get(name, 0) + amount <= self.available[name] for name, amount in device.counters)

    def left(self, name: CounterName) -> int:
        """Return the amount of a counter that is still available."""
        return self.available[name] - self.consumed.get(name, 0)

    def consume(self, device: PoolDevice) -> None:
        """Add the device's counters to those of this attempt."""
        for name, amount in device.counters:
            self.consumed[name] = self.consumed.get(name, 0) + amount

    def release(self, device: PoolDevice) -> None:
        """Undo `consume`."""
        for name, amount in device.counters:
            self.consumed[name] -= amount
