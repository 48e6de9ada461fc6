"""Devices in use by all claims, as the search reads them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

import msgspec

from pyscheduler.intree.devices.inventory import DeviceID

NOTHING: Mapping[str, int] = MappingProxyType({})


class AllocatedDevices(msgspec.Struct, frozen=True):
    """Devices that are allocated, or about to be. Devices with admin access are in none of the sets."""

    devices: Set[DeviceID] = frozenset()
    """Devices that are allocated as a whole."""
    shared: Set[DeviceID] = frozenset()
    """Devices of which shares are allocated."""
    consumed: Mapping[DeviceID, Mapping[str, int]] = msgspec.field(default_factory=dict)
    """Amounts of the capacities of shared devices that are consumed, in billionths."""

    def is_shared(self, device: DeviceID) -> bool:
        """Return True if a share of the device is allocated."""
        return device in self.consumed or device in self.shared

    def is_allocated(self, device: DeviceID) -> bool:
        """Return True if the device or a share of it is allocated."""
        return device in self.devices or self.is_shared(device)
