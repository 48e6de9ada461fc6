"""Early ends of a hopeless search, which do not change its result.

Without them, n of n-1 equal devices take exponential time (kubernetes issue 131730). Nothing is checked before the
search has failed once: most succeed at the first try. A check must not hide an error that the search would meet:

- A request that cannot be satisfied on its own fails after each of its devices has been looked at, in increasing order
  and before the next request. If a selector or a capacity fails with an error, nothing is concluded: the search itself
  meets it.
- Later requests, and devices that are equivalent to one that failed, are considered only if no error is possible: no
  expression and no amount fails for any device and request, and no request takes all devices under a constraint, where
  the order of the devices decides between failure and error.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.constraints import UNKNOWN
from pyscheduler.intree.devices.errors import AllocationError, CapacityError
from pyscheduler.intree.devices.lookahead import OpenRequest, may_succeed
from pyscheduler.intree.devices.requests import Request

SPARE_STEPS = 10_000
"""Steps that checks may take beyond those of the search itself: checks that find nothing at most double a search."""
MANY_FAILURES = 16
"""Failures after which later requests are considered at each step; before, the first one does so once."""


class Pruning:
    """Checks for one search."""

    def __init__(self, claims: list[list[list[Request]]], chosen: ChosenDevices) -> None:
        self._claims = claims
        self._requests = [(c, r) for c, requests in enumerate(claims) for request in requests for r in request]
        self._chosen = chosen
        self._failures = 0
        self._used = 0
        """Steps of all checks."""
        self._classes: list[object] | None = None
        """Key of each device that is equal for equivalent devices; empty if an error is possible."""

    def record_failure(self) -> None:
        """Count a device that was chosen in vain."""
        self._failures += 1

    def may_succeed(self, at: tuple[int, int], request: Request, start: int, needed: int) -> bool:
        """Return False if this request cannot get `needed` devices from number `start` on, or later ones theirs.

        `at` is the number of the claim and of the request.
        """
        steps = self._chosen.node.steps
        if not self._failures or 2 * self._used > steps.used + SPARE_STEPS:
            return True
        before = steps.used
        try:
            return self._check(at, request, start, needed)
        finally:
            self._used += steps.used - before

    def _check(self, at: tuple[int, int], request: Request, start: int, needed: int) -> bool:
        claim, index = at
        here = OpenRequest(claim, [request], request.count - needed, start)
        try:
            if not may_succeed(self._chosen, [here]):
                return False
        except (AllocationError, CapacityError):
            return True
        if self._failures != 1 and self._failures < MANY_FAILURES:
            return True
        return not self._device_classes() or may_succeed(self._chosen, [here, *self._later(claim, index + 1)])

    def equivalence(self, number: int) -> object:
        """Return a key that is equal for equivalent devices."""
        classes = self._device_classes()
        # A device that this attempt uses otherwise differs from one that it does not use.
        is_alone = not classes or self._chosen.is_touched(self._chosen.node.devices[number])
        return number if is_alone else classes[number]

    def _later(self, claim: int, index: int) -> Iterator[OpenRequest]:
        for number in range(claim, len(self._claims)):
            for alternatives in self._claims[number][index if number == claim else 0 :]:
                yield OpenRequest(number, alternatives)

    def _device_classes(self) -> list[object]:
        if self._classes is None:
            self._classes = self._all_classes()
        return self._classes

    def _all_classes(self) -> list[object]:
        if any(request.all_devices and request.constraints for _, request in self._requests):
            return []
        try:
            return [self._class(number) for number in range(len(self._chosen.node.devices))]
        except (AllocationError, CapacityError, _UnknownValueError):
            return []

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
