"""Equality and order of values (cel-go's `types.Equal` and the Comparer trait)."""

from __future__ import annotations

import math

from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import (
    MISSING,
    NO_SUCH_OVERLOAD,
    CelError,
    CelMap,
    DefaultMap,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
)

_NUMBERS = frozenset((int, Uint, float))


def equals(a: Value, b: Value) -> bool:
    """Return True if two values are equal. Numbers compare across types; values of other types are unequal."""
    kind = type(a)
    other = type(b)
    if kind is tuple and other is tuple:
        return len(a) == len(b) and all(map(equals, a, b))  # type: ignore[arg-type, call-overload]
    if isinstance(a, CelMap) and isinstance(b, CelMap):
        return len(a) == len(b) and all(equals(value, b.find(key)) for key, value in a.items())
    if kind is Optional and other is Optional:
        return equals(a.value, b.value)  # type: ignore[attr-defined]
    if kind is CelType and other is CelType:
        return bool(a.name == b.name)  # type: ignore[attr-defined]
    if kind is other or (kind in _NUMBERS and other in _NUMBERS):
        return bool(a == b)
    return False


_ORDERED = frozenset((str, bytes, bool, Duration, Timestamp))


def compare(a: Value, b: Value) -> int | CelError:
    """Return -1, 0 or 1, or an error if the types have no order."""
    kind = type(a)
    other = type(b)
    if kind in _NUMBERS and other in _NUMBERS:
        if a != a or b != b:  # noqa: PLR0124 - NaN
            return CelError("NaN values cannot be ordered")
        return (a > b) - (a < b)  # type: ignore[operator]
    if kind is not other or kind not in _ORDERED:
        return NO_SUCH_OVERLOAD
    if kind is Duration or kind is Timestamp:
        a, b = a.nanoseconds, b.nanoseconds  # type: ignore[attr-defined]
    return (a > b) - (a < b)  # type: ignore[operator]
