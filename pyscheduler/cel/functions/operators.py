"""Arithmetic, order, membership and size. These functions have no type guards: they see any value at run time.

A value that lacks the operation gives "no such overload: <function>", one that has it with another operand gives
"no such overload" (cel-go's traits). Strings, durations and timestamps are receivers, which give the short text.
"""

from __future__ import annotations

import math
from typing import Final

from pyscheduler.cel.equality import compare, equals
from pyscheduler.cel.limits import spend
from pyscheduler.cel.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    NANOSECONDS,
    NO_SUCH_OVERLOAD,
    UINT_MAX,
    CelError,
    CelMap,
    Duration,
    Timestamp,
    Uint,
    Value,
    type_of,
)

INT_OVERFLOW: Final = CelError("integer overflow")
UINT_OVERFLOW: Final = CelError("unsigned integer overflow")
TIMESTAMP_OVERFLOW: Final = CelError("timestamp overflow")
DIVISION_BY_ZERO: Final = CelError("division by zero")
MODULUS_BY_ZERO: Final = CelError("modulus by zero")
MIN_TIMESTAMP: Final = -62135596800 * NANOSECONDS
MAX_TIMESTAMP: Final = 253402300800 * NANOSECONDS - 1
_RECEIVERS: Final = frozenset((str, Duration, Timestamp))


def _mismatch(function: str, left: Value, operation: frozenset[type]) -> CelError:
    kind = type(left)
    if kind in operation or kind in _RECEIVERS:
        return NO_SUCH_OVERLOAD
    return CelError(f"no such overload: {function}")


def no_such_method(function: str, target: Value) -> CelError:
    """Return the error of a function that the target's type does not have at all."""
    return _mismatch(function, target, frozenset())


def _int(number: int) -> Value:
    return number if INT_MIN <= number <= INT_MAX else INT_OVERFLOW


def _uint(number: int) -> Value:
    return Uint(number) if 0 <= number <= UINT_MAX else UINT_OVERFLOW


def _duration(nanoseconds: int) -> Value:
    return Duration(nanoseconds) if INT_MIN <= nanoseconds <= INT_MAX else INT_OVERFLOW


def _timestamp(nanoseconds: int, offset: int) -> Value:
    return Timestamp(nanoseconds, offset) if MIN_TIMESTAMP <= nanoseconds <= MAX_TIMESTAMP else TIMESTAMP_OVERFLOW


_ADDERS: Final = frozenset((bytes, float, Duration, int, tuple, str, Timestamp, Uint))


def add(a: Value, b: Value) -> Value:
    """Return the sum or the concatenation."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return _int(a + b)  # type: ignore[operator]
        if kind is str or kind is float or kind is bytes:
            return a + b  # type: ignore[operator]
        if kind is tuple:
            # The cost is 1 whatever the length, so doubling would exhaust memory.
            spend(len(a) + len(b))  # type: ignore[arg-type]
            return a + b  # type: ignore[operator]
        if kind is Uint:
            return _uint(int(a) + int(b))  # type: ignore[call-overload]
    if isinstance(a, Duration):
        if isinstance(b, Duration):
            return _duration(a.nanoseconds + b.nanoseconds)
        if isinstance(b, Timestamp):
            return _timestamp(a.nanoseconds + b.nanoseconds, b.offset)
    if isinstance(a, Timestamp) and isinstance(b, Duration):
        return _timestamp(a.nanoseconds + b.nanoseconds, a.offset)
    return _mismatch("_+_", a, _ADDERS)


_SUBTRACTORS: Final = frozenset((float, Duration, int, Timestamp, Uint))


def subtract(a: Value, b: Value) -> Value:
    """Return the difference."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return _int(a - b)  # type: ignore[operator]
        if kind is float:
            return a - b  # type: ignore[operator]
        if kind is Uint:
            return _uint(int(a) - int(b))  # type: ignore[call-overload]
    if isinstance(a, Duration) and isinstance(b, Duration):
        return _duration(a.nanoseconds - b.nanoseconds)
    if isinstance(a, Timestamp):
        if isinstance(b, Timestamp):
            return _duration(a.nanoseconds - b.nanoseconds)
        if isinstance(b, Duration):
            if b.nanoseconds == INT_MIN:
                return INT_OVERFLOW
            return _timestamp(a.nanoseconds - b.nanoseconds, a.offset)
    return _mismatch("_-_", a, _SUBTRACTORS)


_MULTIPLIERS: Final = frozenset((float, int, Uint))


def multiply(a: Value, b: Value) -> Value:
    """Return the product."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return _int(a * b)  # type: ignore[operator]
        if kind is float:
            return a * b  # type: ignore[operator]
        if kind is Uint:
            return _uint(int(a) * int(b))  # type: ignore[call-overload]
    return _mismatch("_*_", a, _MULTIPLIERS)


def divide(a: Value, b: Value) -> Value:
    """Return the quotient, of integers rounded toward zero."""
    kind = type(a)
    if kind is type(b):
        if kind is float:
            return _divide_doubles(a, b)  # type: ignore[arg-type]
        if kind is int or kind is Uint:
            if b == 0:
                return DIVISION_BY_ZERO
            quotient = abs(int(a)) // abs(int(b))  # type: ignore[call-overload]
            if kind is Uint:
                return Uint(quotient)
            return _int(quotient if (a < 0) == (b < 0) else -quotient)  # type: ignore[operator]
    return _mismatch("_/_", a, _MULTIPLIERS)


def _divide_doubles(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


_MODDERS: Final = frozenset((int, Uint))


def modulo(a: Value, b: Value) -> Value:
    """Return the remainder, which has the sign of the dividend."""
    kind = type(a)
    if kind is type(b) and kind in _MODDERS:
        if b == 0:
            return MODULUS_BY_ZERO
        rest = abs(int(a)) % abs(int(b))  # type: ignore[call-overload]
        if kind is Uint:
            return Uint(rest)
        if a == INT_MIN and b == -1:
            return INT_OVERFLOW
        return -rest if a < 0 else rest  # type: ignore[operator]
    return _mismatch("_%_", a, _MODDERS)


def negate(a: Value) -> Value:
    """Return the negative number or duration."""
    if type(a) is int:
        return _int(-a)
    if type(a) is float:
        return -a
    if isinstance(a, Duration):
        return _duration(-a.nanoseconds)
    return _mismatch("-_", a, frozenset((bool,)))


def logical_not(a: Value) -> Value:
    """Return the opposite of a bool."""
    return not a if type(a) is bool else NO_SUCH_OVERLOAD


_COMPARERS: Final = frozenset((bool, bytes, float, Duration, int, str, Timestamp, Uint))


def less(a: Value, b: Value) -> Value:
    """Return True if `a` is less than `b`."""
    order = compare(a, b)
    return order < 0 if type(order) is int else _order_error("_<_", a, order)


def less_equals(a: Value, b: Value) -> Value:
    """Return True if `a` is at most `b`."""
    order = compare(a, b)
    return order <= 0 if type(order) is int else _order_error("_<=_", a, order)


def greater(a: Value, b: Value) -> Value:
    """Return True if `a` is greater than `b`."""
    order = compare(a, b)
    return order > 0 if type(order) is int else _order_error("_>_", a, order)


def greater_equals(a: Value, b: Value) -> Value:
    """Return True if `a` is at least `b`."""
    order = compare(a, b)
    return order >= 0 if type(order) is int else _order_error("_>=_", a, order)


def _order_error(function: str, a: Value, error: Value) -> Value:
    return error if type(a) in _COMPARERS else _mismatch(function, a, _COMPARERS)


def contains(a: Value, b: Value) -> Value:
    """Return True if a list has an element or a map has a key (`a in b`)."""
    if type(b) is tuple:
        spend(len(b))
        return any(equals(a, element) is True for element in b)
    if isinstance(b, CelMap):
        # A map with defaults contains only the keys that it has.
        return CelMap.find(b, a) is not MISSING
    return NO_SUCH_OVERLOAD


_SIZERS: Final = frozenset((str, bytes, tuple))


def size(a: Value) -> Value:
    """Return the number of characters, bytes, elements or entries."""
    if type(a) in _SIZERS or isinstance(a, CelMap):
        return len(a)  # type: ignore[arg-type]
    return _mismatch("size", a, frozenset())


def type_name(a: Value) -> Value:
    """Return the type of a value (`type(x)`)."""
    return type_of(a)


def identity(a: Value) -> Value:
    """Return the value (`dyn(x)`)."""
    return a
