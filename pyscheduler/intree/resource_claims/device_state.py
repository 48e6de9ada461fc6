"""ResourceSlices with the taints of DeviceTaintRules, as the allocator reads them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from pyscheduler.api import Handle
from pyscheduler.api.devices import DeviceTaintRule, ResourceSlice
from pyscheduler.intree.devices.inventory import Inventory
from pyscheduler.intree.devices.taints import apply_taint_rules
from pyscheduler.intree.resource_claims.objects import SLICE, TAINT_RULES, reader
from pyscheduler.intree.volumes.object_index import ObjectIndex


class DeviceState:
    """Devices of the cluster. A slice that cannot be read is left out, so that its pool is incomplete."""

    def __init__(self, handle: Handle, *, fractional: bool) -> None:
        """With `fractional`, the ranges of capacities may have fractions."""
        self._fractional = fractional
        self._slices = ObjectIndex(handle, SLICE, reader(handle, SLICE, ResourceSlice), _no_values)
        self._rules = [
            ObjectIndex(handle, kind, reader(handle, kind, DeviceTaintRule), _no_values) for kind in TAINT_RULES
        ]
        self._inventory: Inventory | None = None
        self._versions: tuple[int, ...] = ()

    @property
    def version(self) -> int:
        """Number that changes with any slice or rule."""
        return self._slices.version + sum(rules.version for rules in self._rules)

    @property
    def inventory(self) -> Inventory:
        """All devices. The same object as long as no slice and no rule changes."""
        versions = (self._slices.version, *(rules.version for rules in self._rules))
        if self._inventory is None or versions != self._versions:
            rules = self._current_rules()
            slices = self._slices.parsed.values()
            tainted = [apply_taint_rules(each, rules) for each in slices] if rules else slices
            self._inventory = Inventory(tainted, self._inventory, fractional=self._fractional)
            self._versions = versions
        return self._inventory

    def _current_rules(self) -> list[DeviceTaintRule]:
        """Return the rules of the newest version that the API server serves."""
        return next((list(rules.parsed.values()) for rules in self._rules if rules.parsed), [])


def with_integer_ranges(handle: Handle) -> DeviceState:
    """Return the devices while the feature gate DRAFractionalCapacityRange is off."""
    return DeviceState(handle, fractional=False)


def with_fractional_ranges(handle: Handle) -> DeviceState:
    """Return the devices while the feature gate DRAFractionalCapacityRange is on."""
    return DeviceState(handle, fractional=True)


def _no_values(_: object) -> Iterable[Hashable]:
    return ()
