"""ResourceSlices with the taints of DeviceTaintRules, as the allocator reads them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache, partial

from pyscheduler.api import Handle, ResourceKind
from pyscheduler.api.devices import DeviceTaintRule, ResourceSlice
from pyscheduler.intree._object_index import ObjectIndex
from pyscheduler.intree.devices.inventory import Inventory
from pyscheduler.intree.devices.taints import apply_taint_rules
from pyscheduler.intree.resource_claims.objects import SLICE, reader


class DeviceState:
    """Devices of the cluster. A slice that cannot be read is left out, so that its pool is incomplete."""

    def __init__(self, handle: Handle, taint_rules: tuple[ResourceKind, ...], *, fractional: bool) -> None:
        """`taint_rules` are the versions of DeviceTaintRules to read; with `fractional`, ranges may have fractions."""
        self._fractional = fractional
        self._untainted = handle.shared(devices_of((), fractional=fractional)) if taint_rules else None
        """The devices without rules, which are the same while there are none."""
        self.slices: ObjectIndex[ResourceSlice] = (
            ObjectIndex(handle, SLICE, reader(handle, SLICE, ResourceSlice), _no_values)
            if self._untainted is None
            else self._untainted.slices
        )
        self._rules = [
            ObjectIndex(handle, kind, reader(handle, kind, DeviceTaintRule), _no_values) for kind in taint_rules
        ]
        self._inventory: Inventory | None = None
        self._versions: tuple[int, ...] = ()

    @property
    def version(self) -> int:
        """Number that changes with any slice or rule."""
        return self.slices.version + sum(rules.version for rules in self._rules)

    @property
    def inventory(self) -> Inventory:
        """All devices. The same object as long as no slice and no rule changes."""
        versions = (self.slices.version, *(rules.version for rules in self._rules))
        if self._inventory is None or versions != self._versions:
            rules = self._current_rules()
            if self._untainted and not rules:
                self._inventory = self._untainted.inventory
            else:
                slices = [apply_taint_rules(each, rules) for each in self.slices.parsed.values()]
                self._inventory = Inventory(slices, self._inventory, fractional=self._fractional)
            self._versions = versions
        return self._inventory

    def _current_rules(self) -> list[DeviceTaintRule]:
        """Return the rules of the newest version that the API server serves."""
        return next((list(rules.parsed.values()) for rules in self._rules if rules.parsed), [])


@cache
def devices_of(taint_rules: tuple[ResourceKind, ...], *, fractional: bool) -> Callable[[Handle], DeviceState]:
    """Return what creates the devices of a cluster with these settings; the same function for the same settings."""
    return partial(DeviceState, taint_rules=taint_rules, fractional=fractional)


def _no_values(_: object) -> Iterable[Hashable]:
    return ()
