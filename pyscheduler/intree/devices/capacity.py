"""Capacities of devices: the amounts that an allocation consumes (consumable capacity, KEP-5075).

Every device with capacities is checked, also one that is allocated as a whole: a request may not ask for more than it
has. Only a device that allows multiple allocations is shared, by the amounts that each share consumes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.api.devices import CapacityRequestPolicy, DeviceCapacity
from pyscheduler.api.objects import Quantity
from pyscheduler.api.quantity import MAX_INT64, whole_units
from pyscheduler.intree.devices.errors import CapacityError
from pyscheduler.intree.devices.quantity import NANO, DeviceQuantity, parse, thousandths, whole

NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
NEGATIVE = "capacity value is negative"

Amounts = Mapping[str, DeviceQuantity]


class ValidRange(msgspec.Struct, frozen=True, gc=False):
    """Parsed CapacityRequestPolicyRange."""

    min: DeviceQuantity | None
    max: DeviceQuantity | None
    step: DeviceQuantity | None
    is_fractional: bool
    """True if bounds and steps may be fractions (feature gate DRAFractionalCapacityRange)."""

    @property
    def uses_milli(self) -> bool:
        """True if arithmetic is in thousandths: all bounds are exact in them, and the step is at least one."""
        if not self.is_fractional:
            return False
        bounds = [bound.milli() for bound in (self.min, self.max, self.step) if bound is not None]
        if any(bound is None for bound in bounds):
            return False
        return self.step is None or (self.step.milli() or 0) >= 1


class CapacityPolicy(msgspec.Struct, frozen=True, gc=False):
    """Parsed CapacityRequestPolicy."""

    default: DeviceQuantity | None
    valid_values: tuple[DeviceQuantity, ...] | None
    valid_range: ValidRange | None


class ParsedCapacity(msgspec.Struct, frozen=True, gc=False):
    """Parsed DeviceCapacity."""

    value: DeviceQuantity
    policy: CapacityPolicy | None


def parse_capacity(capacity: DeviceCapacity, *, fractional: bool) -> ParsedCapacity:
    """Return the capacity with parsed quantities. QuantityError if one is invalid.

    With `fractional`, its range may have fractions.
    """
    policy = capacity.request_policy
    return ParsedCapacity(parse(capacity.value), _parse_policy(policy, fractional) if policy else None)


def consumed_by_request(requested: Amounts, capacities: Mapping[str, ParsedCapacity]) -> Amounts | None:
    """Return the amounts of each capacity that a request consumes; None if the device cannot provide such amounts.

    CapacityError if an amount is not representable or negative. That ends the search, on all nodes: other devices
    would be tried in vain.
    """
    if any(name not in capacities for name in requested):
        return None
    consumed: dict[str, DeviceQuantity] = {}
    for name in sorted(capacities):
        try:
            amount = _consumed(requested.get(name), capacities[name])
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.nano < 0:
            raise CapacityError(f'capacity "{name}": {NEGATIVE}')
        consumed[name] = amount
    for name, amount in consumed.items():
        if _violates(amount, capacities[name].policy):
            return None
    return consumed


def fits(
    consumed: Amounts,
    capacities: Mapping[str, ParsedCapacity],
    in_use: Mapping[str, int],
    allocating: Mapping[str, int],
) -> bool:
    """Return True if the amounts fit beside those in use and those of this attempt, both in billionths."""
    for name, amount in consumed.items():
        if amount.nano + in_use.get(name, 0) + allocating.get(name, 0) > capacities[name].value.nano:
            return False
    return True


def _consumed(requested: DeviceQuantity | None, capacity: ParsedCapacity) -> DeviceQuantity:
    policy = capacity.policy
    if requested is None:
        return policy.default if policy and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range and policy.valid_range.min is not None:
        return _rounded_to_range(requested, policy.valid_range.min, policy.valid_range)
    for valid in policy.valid_values or ():
        if requested.nano <= valid.nano:
            return valid
    return requested


def _rounded_to_range(requested: DeviceQuantity, least: DeviceQuantity, valid: ValidRange) -> DeviceQuantity:
    """Return the request rounded up to min or to a whole number of steps above it (roundUpRange)."""
    if requested.nano < least.nano:
        return least
    if valid.step is None:
        return requested
    if valid.uses_milli:
        milli, step, start = requested.milli(), valid.step.milli() or 1, least.milli() or 0
        if milli is None:
            raise CapacityError(f"{NOT_REPRESENTABLE}: request {requested} is not a representable milli value")
        steps = -(-(milli - start) // step)
        if start < 0 or steps > (MAX_INT64 - start) // step:  # a negative min overflows kube-scheduler's check
            raise _passes(requested, "the milli-value range")
        rounded = start + step * steps
        if rounded % 1000 == 0:
            return whole(rounded // 1000, valid.step.format)
        return thousandths(rounded, valid.step.format)
    if requested.nano > MAX_INT64 * NANO:
        raise CapacityError(f"{NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64")
    amount, step, start = whole_units(requested.nano), whole_units(valid.step.nano), whole_units(least.nano)
    if step <= 0:  # kube-scheduler would crash; the API server admits no such step
        raise CapacityError(f"{NOT_REPRESENTABLE}: step {valid.step} is not positive")
    steps = -(-(amount - start) // step)
    if start >= 0 and steps > (MAX_INT64 - start) // step:
        raise _passes(requested, "MaxInt64")
    return whole(start + step * steps, valid.step.format)


def _passes(requested: DeviceQuantity, limit: str) -> CapacityError:
    return CapacityError(f"{NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes {limit}")


def _violates(amount: DeviceQuantity, policy: CapacityPolicy | None) -> bool:
    if policy is None:
        return False
    if policy.default is not None and amount.is_same(policy.default):
        return False
    if policy.valid_range:
        return _violates_range(amount, policy.valid_range)
    return bool(policy.valid_values) and all(amount.nano != valid.nano for valid in policy.valid_values or ())


def _violates_range(amount: DeviceQuantity, valid: ValidRange) -> bool:
    if valid.max is not None and amount.nano > valid.max.nano:
        return True
    if valid.step is None:
        return False
    least = valid.min.nano if valid.min is not None else 0
    if valid.uses_milli:
        milli = amount.milli()
        return milli is None or (milli * 10**6 - least) % valid.step.nano != 0
    step = whole_units(valid.step.nano)
    return step <= 0 or (whole_units(amount.nano) - whole_units(least)) % step != 0


def _parse_policy(policy: CapacityRequestPolicy, fractional: bool) -> CapacityPolicy:
    given, values = policy.valid_range, policy.valid_values
    valid_range = (
        ValidRange(_optional(given.min), _optional(given.max), _optional(given.step), fractional) if given else None
    )
    valid_values = tuple(parse(value) for value in values) if values is not None else None
    return CapacityPolicy(_optional(policy.default), valid_values, valid_range)


def _optional(given: Quantity | None) -> DeviceQuantity | None:
    return None if given is None else parse(given)
