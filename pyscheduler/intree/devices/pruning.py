"""Necessary conditions that end a hopeless search early, without changing its result.

Without them, n of n-1 equal devices take exponential time (kubernetes issue 131730). Nothing is checked before the
search has failed once: most succeed at the first try. A condition must not hide an error that the search would meet:

- A request that cannot be satisfied on its own fails after each of its devices has been looked at, in increasing order
  and before the next request. If a selector or a capacity fails with an error, nothing is concluded: the search itself
  meets it.
- Equivalent devices differ only in what no decision depends on. If the search failed with one, it fails with the other.
  This is used only if no error is possible: no expression and no amount fails for any device and request, and no
  request takes all devices under a constraint, where the order of the devices decides between failure and error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.constraints import UNKNOWN
from pyscheduler.intree.devices.errors import AllocationError, CapacityError
from pyscheduler.intree.devices.inventory import CounterName, PoolDevice
from pyscheduler.intree.devices.requests import Request

if TYPE_CHECKING:
    from pyscheduler.intree.devices.counters import PoolCounters


class Pruning:
    """Conditions for one search."""

    def __init__(self, claims: list[list[list[Request]]], chosen: ChosenDevices) -> None:
        self._requests = [(c, r) for c, requests in enumerate(claims) for request in requests for r in request]
        self._chosen = chosen
        self._classes: list[object] | None = None
        self.has_failed = False
        """True once a device was chosen in vain."""

    def may_succeed(self, claim: int, request: Request, start: int, needed: int) -> bool:
        """Return False if the request cannot get `needed` devices, counted from device number `start`."""
        if not self.has_failed:
            return True
        node = self._chosen.node
        try:
            numbers = [n for n in range(start, len(node.devices)) if self._is_candidate(claim, request, n)]
        except (AllocationError, CapacityError):
            return True
        if len(numbers) < needed:
            return False
        devices = [node.devices[number] for number in numbers]
        return self._satisfy_constraints(claim, request, devices, needed) and self._have_counters(numbers, needed)

    def equivalence(self, number: int) -> object:
        """Return a key that is equal for equivalent devices."""
        if self._classes is None:
            self._classes = self._all_classes()
        # A device that this attempt uses otherwise differs from one that it does not use.
        return number if self._chosen.is_touched(self._chosen.node.devices[number]) else self._classes[number]

    def _is_candidate(self, claim: int, request: Request, number: int) -> bool:
        """Return True if the device can be chosen now."""
        chosen, node = self._chosen, self._chosen.node
        if chosen.is_in_use(claim, request, node.devices[number]) or not node.is_selectable(request, number):
            return False
        if not chosen.has_capacity(request, number):
            return False
        counters = chosen.counters_to_charge(number)
        if counters is not None and not counters.is_monotonic:
            return True
        return chosen.admits(claim, request, number)

    def _satisfy_constraints(self, claim: int, request: Request, devices: list[PoolDevice], needed: int) -> bool:
        for index in request.constraints:
            constraint = self._chosen.constraints[claim][index]
            values = [constraint.value(device) or UNKNOWN for device in devices]
            if constraint.limit(values) < needed:
                return False
        return True

    def _have_counters(self, numbers: list[int], needed: int) -> bool:
        """Return False if even the devices with the smallest amounts of a counter consume more than is left."""
        amounts: dict[tuple[int, CounterName], list[int]] = {}
        of_pool: dict[int, PoolCounters] = {}
        for number in numbers:
            device = self._chosen.node.devices[number]
            counters = self._chosen.counters_to_charge(number)
            if counters is None:
                continue
            if not counters.is_monotonic:
                return True
            of_pool[id(counters)] = counters
            for name, amount in device.counters:
                amounts.setdefault((id(counters), name), []).append(amount)
        for (key, name), consumed in amounts.items():
            without = len(numbers) - len(consumed)
            if sum(sorted(consumed)[: max(needed - without, 0)]) > of_pool[key].left(name):
                return False
        return True

    def _all_classes(self) -> list[object]:
        numbers = range(len(self._chosen.node.devices))
        if any(request.all_devices and request.constraints for _, request in self._requests):
            return list(numbers)
        try:
            return [self._class(number) for number in numbers]
        except (AllocationError, CapacityError, _UnknownValueError):
            return list(numbers)

    def _class(self, number: int) -> object:
        """Return everything about a device that a decision depends on."""
        node, allocated = self._chosen.node, self._chosen.allocated
        device = node.devices[number]
        by_request = []
        for claim, request in self._requests:
            values = []
            for index in request.constraints:
                constraint = self._chosen.constraints[claim][index]
                values.append(constraint.value(device))
            if UNKNOWN in values:
                raise _UnknownValueError  # then the order of the devices matters
            consumed = node.consumed(request, number)
            amounts = None if consumed is None else tuple((name, amount.nano) for name, amount in consumed.items())
            tolerated = self._chosen.tolerates(request, device)
            by_request.append((node.is_selectable(request, number), tolerated, amounts, tuple(values)))
        return (
            id(node.pool_of[number]) if device.counters else None,
            frozenset(device.counters),
            device.id in allocated.devices,
            device.is_shared,
            allocated.is_shared(device.id),
            frozenset(allocated.consumed.get(device.id, {}).items()),
            frozenset((name, capacity.value.nano) for name, capacity in device.capacities.items()),
            tuple(by_request),
        )


class _UnknownValueError(Exception):
    """An attribute has a value of an unknown type."""
