"""Constraints between the devices of one claim: an attribute that all share, or that differs between all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from pyscheduler.api.devices import DeviceConstraint
from pyscheduler.intree.devices.errors import AllocationError
from pyscheduler.intree.devices.inventory import PoolDevice

Value = tuple[str, str | int | bool | None]
"""Type and value: values of different types are never equal. Versions are compared as strings."""
UNKNOWN: Value = ("unknown", None)
"""Value of a type of a later API version."""


class Constraint(ABC):
    """Constraint with the devices that are chosen so far. Once it rejects, it rejects with more devices as well."""

    def __init__(self, attribute: str, requests: tuple[str, ...] | None) -> None:
        self.attribute = attribute
        self.requests = requests
        self.values: list[Value] = []
        """Values of the chosen devices."""

    @abstractmethod
    def accepts(self, value: Value | None) -> bool:
        """Return True if a device with this value may be added; None: it does not have the attribute."""

    @abstractmethod
    def limit(self, values: list[Value | None]) -> int:
        """Return an upper bound of how many of these devices can be added together; each alone is accepted."""

    def value(self, device: PoolDevice) -> Value | None:
        """Return the device's value, or None if it does not have the attribute."""
        attribute = device.attribute(self.attribute)
        if attribute is None:
            return None
        if attribute.string_value is not None:
            return "string", attribute.string_value
        if attribute.int_value is not None:
            return "int", attribute.int_value
        if attribute.bool_value is not None:
            return "bool", attribute.bool_value
        if attribute.version_value is not None:
            return "version", attribute.version_value
        return UNKNOWN


class MatchAttribute(Constraint):
    """All devices have the same value."""

    def accepts(self, value: Value | None) -> bool:
        if value is None:
            return False
        # The first device determines the value, whatever its type is.
        return not self.values or (value != UNKNOWN and value == self.values[0])

    def limit(self, values: list[Value | None]) -> int:
        return max(Counter(values).values(), default=0)


class DistinctAttribute(Constraint):
    """All devices have different values."""

    def accepts(self, value: Value | None) -> bool:
        if value is None:
            return False
        return not self.values or (value != UNKNOWN and value not in self.values)

    def limit(self, values: list[Value | None]) -> int:
        return len(set(values))


def constraint(claim: str, number: int, given: DeviceConstraint) -> Constraint:
    """Return the constraint for a search. AllocationError if it is of an unknown type."""
    if given.match_attribute is not None:
        return MatchAttribute(given.match_attribute, given.requests)
    if given.distinct_attribute is not None:
        return DistinctAttribute(given.distinct_attribute, given.requests)
    problem = "empty constraint (unsupported constraint type?)"
    raise AllocationError(f"claim {claim}, constraint #{number}: {problem}")
