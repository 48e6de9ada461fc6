"""Equality and order of values (cel-go's `types.Equal` and the Comparer trait)."""

from __future__ import annotations

from pyscheduler.cel.limits import spend
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import (
    NO_SUCH_OVERLOAD,
    CelError,
    CelMap,
    Duration,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
)

_INTEGERS = frozenset((int, Uint))
_NUMBERS = frozenset((int, Uint, float))
_ORDERED = frozenset((str, bytes, bool, Duration, Timestamp))


def equals(a: Value, b: Value) -> bool | CelError:
    """Return True if two values are equal. Numbers compare across types; values of other types are unequal.

    The result is an error if `a` is of a class of Kubernetes and `b` is not: these types refuse to compare.
    """
    if a is None or b is None:
        return a is b
    kind = type(a)
    other = type(b)
    if kind is str or kind is bool:
        return kind is other and a == b
    if kind in _NUMBERS:
        return other in _NUMBERS and _order(a, b) == 0
    if isinstance(a, Opaque):
        return a.equal(b)
    if kind is tuple and other is tuple:
        spend(len(a))  # type: ignore[arg-type]
        # As in cel-go, an error does not make the lists unequal.
        return len(a) == len(b) and all(equals(x, y) is not False for x, y in zip(a, b, strict=True))  # type: ignore[arg-type, call-overload]
    if isinstance(a, CelMap) and isinstance(b, CelMap):
        spend(len(a))
        return len(a) == len(b) and all(equals(value, b.find(key)) is not False for key, value in a.items())
    if kind is Optional and other is Optional:
        return equals(a.value, b.value)  # type: ignore[attr-defined]
    if kind is CelType and other is CelType:
        return bool(a.name == b.name)  # type: ignore[attr-defined]
    return kind is other and a == b


def _order(a: Value, b: Value) -> int | None:
    """Return -1, 0 or 1 for numbers, None for NaN. An integer is rounded to a double when it meets one, as in cel-go."""
    if type(a) is float or type(b) is float:
        limits = _beyond_limits(a, b)
        if limits:
            return limits
        a, b = float(a), float(b)  # type: ignore[arg-type]
        if a != a or b != b:
            return None
    return (a > b) - (a < b)  # type: ignore[operator, no-any-return]


def _beyond_limits(a: Value, b: Value) -> int:
    """Return the order of an integer and a double that no integer of its type reaches, otherwise 0."""
    if type(a) is float:
        return -_beyond_limits(b, a) if type(b) is not float else 0
    assert isinstance(b, float)
    low, high = (0.0, 2.0**64) if type(a) is Uint else (-(2.0**63), 2.0**63)
    return (b < low) - (b > high)


def compare(a: Value, b: Value) -> int | CelError:
    """Return -1, 0 or 1, or an error if the types have no order."""
    kind = type(a)
    other = type(b)
    if kind in _NUMBERS and other in _NUMBERS:
        if kind in _INTEGERS and other in _INTEGERS:
            return (a > b) - (a < b)  # type: ignore[operator, no-any-return]
        order = _order(a, b)
        return CelError("NaN values cannot be ordered") if order is None else order
    if kind is not other or kind not in _ORDERED:
        return NO_SUCH_OVERLOAD
    if kind is Duration or kind is Timestamp:
        a, b = a.nanoseconds, b.nanoseconds  # type: ignore[attr-defined]
    return (a > b) - (a < b)  # type: ignore[operator, no-any-return]
