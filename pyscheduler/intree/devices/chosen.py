"""Devices that are chosen so far in one attempt: what they use, and how to undo a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from pyscheduler.intree.devices.allocated import NOTHING, AllocatedDevices
from pyscheduler.intree.devices.capacity import Amounts, fits
from pyscheduler.intree.devices.constraints import Constraint
from pyscheduler.intree.devices.counters import PoolCounters
from pyscheduler.intree.devices.errors import AllocationError, CapacityError
from pyscheduler.intree.devices.inventory import DeviceID, PoolDevice
from pyscheduler.intree.devices.matching import NodeDevices
from pyscheduler.intree.devices.pools import DevicePool
from pyscheduler.intree.devices.requests import Request
from pyscheduler.intree.devices.taints import are_tolerated


class ChosenDevice(msgspec.Struct, frozen=True):
    """A device that a request gets."""

    request: Request
    number: int
    device: PoolDevice
    share_id: str | None
    consumed: Amounts
    """Consumed amounts of the capacities, of a share only."""
    counters: PoolCounters | None
    """Counters that the choice charged."""


@dataclass(slots=True)
class _Shares:
    """Shares of one device that this attempt allocates."""

    number: int
    amounts: dict[str, int]


class ChosenDevices:
    """State of the search: each choice is checked, recorded, and undone in reverse order."""

    def __init__(
        self,
        node: NodeDevices,
        allocated: AllocatedDevices,
        constraints: list[list[Constraint]],
        new_share_id: Callable[[], str],
    ) -> None:
        self.node = node
        self.allocated = allocated
        self.constraints = constraints
        """Constraints of each claim."""
        self.results: list[list[ChosenDevice]] = [[] for _ in constraints]
        """Chosen devices of each claim."""
        self._new_share_id = new_share_id
        self._claims_of: dict[DeviceID, set[int]] = {}
        """Claims for which a device is chosen as a whole."""
        self._shares: dict[DeviceID, _Shares] = {}
        self._counters: dict[DevicePool, PoolCounters] = {}

    def is_in_use(self, claim: int, request: Request, device: PoolDevice) -> bool:
        """Return True if the request cannot get the device. With admin access only the same claim is an obstacle."""
        claims = self._claims_of.get(device.id)
        if request.admin_access:
            return bool(claims) and claim in (claims or ())
        return bool(claims) or device.id in self.allocated.devices

    def is_touched(self, device: PoolDevice) -> bool:
        """Return True if this attempt has chosen the device or a share of it."""
        return bool(self._claims_of.get(device.id)) or device.id in self._shares

    def has_capacity(self, request: Request, number: int) -> bool:
        """Return True if the amounts that the request consumes are left. CapacityError if they are no valid amounts."""
        consumed = self.node.consumed(request, number)
        if not consumed:
            return consumed is not None
        device = self.node.devices[number]
        shares = self._shares.get(device.id)
        in_use: Mapping[str, int] = self.allocated.consumed.get(device.id, NOTHING)
        return fits(consumed, device.capacities, in_use, shares.amounts if shares else NOTHING)

    def counters_to_charge(self, number: int) -> PoolCounters | None:
        """Return the counters that the device consumes; None for a further share, which consumes none."""
        device = self.node.devices[number]
        if not device.counters:
            return None
        if device.is_shared and (device.id in self._shares or self.allocated.is_shared(device.id)):
            return None
        pool = self.node.pool_of[number]
        if pool not in self._counters:
            self._counters[pool] = PoolCounters(pool, self.allocated)
        return self._counters[pool]

    def admits(self, claim: int, request: Request, number: int) -> bool:
        """Return True if counters, taints and constraints admit the device."""
        device = self.node.devices[number]
        counters = self.counters_to_charge(number)
        if counters is not None and not counters.fits(device):
            return False
        return self.tolerates(request, device) and self._satisfies_constraints(claim, request, device)

    def tolerates(self, request: Request, device: PoolDevice) -> bool:
        """Return True if the request tolerates the device's taints."""
        return not device.taints or are_tolerated(device.taints, request.tolerations or ())

    def choose(self, claim: int, request: Request, number: int) -> bool:
        """Choose the device if counters, taints and constraints admit it; it is free and has the capacity."""
        if not self.admits(claim, request, number):
            return False
        self._record(claim, request, number)
        return True

    def choose_all(self, claim: int, request: Request, number: int) -> bool:
        """Choose one of all devices. AllocationError if a constraint rejects it: then the claim has no solution."""
        device = self.node.devices[number]
        # A shared device is never recorded for a claim, so admin access does not need an exception for it.
        if self.is_in_use(claim, request, device):
            return False
        counters = self.counters_to_charge(number)
        if (counters is not None and not counters.fits(device)) or not self.tolerates(request, device):
            return False
        if not self._satisfies_constraints(claim, request, device):
            problem = f"cannot add device {device.id} because a claim constraint would not be satisfied"
            raise AllocationError(f"{request.place}: {problem}")
        try:
            if not self.has_capacity(request, number):
                return False
        except CapacityError as error:
            raise AllocationError(f"{request.place}: rechecking capacity for device {device.id}: {error}") from None
        self._record(claim, request, number)
        return True

    def undo(self, claim: int) -> None:
        """Undo the last choice of the claim."""
        chosen = self.results[claim].pop()
        device = chosen.device
        if device.is_shared:
            shares = self._shares[device.id]
            shares.number -= 1
            if not shares.number:
                del self._shares[device.id]
            for name, amount in chosen.consumed.items():
                shares.amounts[name] -= amount.nano
        else:
            self._claims_of[device.id].discard(claim)
        for index in chosen.request.constraints:
            self.constraints[claim][index].values.pop()
        if chosen.counters is not None:
            chosen.counters.release(device)

    def _satisfies_constraints(self, claim: int, request: Request, device: PoolDevice) -> bool:
        for index in request.constraints:
            constraint = self.constraints[claim][index]
            if not constraint.accepts(constraint.value(device)):
                return False
        return True

    def _record(self, claim: int, request: Request, number: int) -> None:
        device = self.node.devices[number]
        counters = self.counters_to_charge(number)
        if counters is not None:
            counters.consume(device)
        for index in request.constraints:
            constraint = self.constraints[claim][index]
            constraint.values.append(constraint.value(device) or ("", None))
        share_id: str | None = None
        consumed: Amounts = {}
        if device.is_shared:
            share_id, consumed = self._new_share_id(), self.node.consumed(request, number) or {}
            shares = self._shares.setdefault(device.id, _Shares(0, {}))
            shares.number += 1
            for name, amount in consumed.items():
                shares.amounts[name] = shares.amounts.get(name, 0) + amount.nano
        else:
            self._claims_of.setdefault(device.id, set()).add(claim)
        self.results[claim].append(ChosenDevice(request, number, device, share_id, consumed, counters))
