"""Kubernetes' library for lists, version 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.equality import compare, equals
from pyscheduler.cel.functions.costs import traverse_tree
from pyscheduler.cel.functions.lists import COMPARABLE, COMPARABLE_CLASSES, List
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, UINT, TypeParam, list_of
from pyscheduler.cel.values import (
    INT_MAX,
    INT_MIN,
    NO_SUCH_OVERLOAD,
    UINT_MAX,
    CelError,
    Duration,
    Uint,
    Value,
)

_A: Final = TypeParam("A")


def _is_sorted(values: List) -> bool | CelError:
    for index, value in enumerate(values):
        if type(value) not in COMPARABLE_CLASSES:
            return NO_SUCH_OVERLOAD
        if index and compare(values[index - 1], value) == 1:
            return False
    return True


def _extreme(name: str, replaced_if: int) -> Callable[[List], Value]:
    """Return a function that keeps the element that no later one replaces; elements without an order are skipped."""

    def extreme(values: List) -> Value:
        if not values:
            return CelError(f"{name} called on empty list")
        if any(type(value) not in COMPARABLE_CLASSES for value in values):
            return NO_SUCH_OVERLOAD
        result = values[0]
        for value in values[1:]:
            if compare(result, value) == replaced_if:
                result = value
        return result

    return extreme


def _sum_int(values: List) -> Value:
    return _sum(values, int, 0, lambda n: n if INT_MIN <= n <= INT_MAX else CelError("integer overflow"))


def _sum_uint(values: List) -> Value:
    return _sum(values, Uint, 0, lambda n: Uint(n) if n <= UINT_MAX else CelError("unsigned integer overflow"))


def _sum_double(values: List) -> Value:
    return _sum(values, float, 0.0, lambda n: n)


def _sum_duration(values: List) -> Value:
    total = 0
    for value in values:
        if not isinstance(value, Duration):
            return NO_SUCH_OVERLOAD
        total += value.nanoseconds
        if not INT_MIN <= total <= INT_MAX:
            return CelError("integer overflow")
    return Duration(total)


def _sum(values: List, kind: type, zero: int | float, check: Callable[[float], Value]) -> Value:
    """Add up values of one type; each partial sum is checked, as upstream adds one after the other."""
    total: Value = check(zero)
    for value in values:
        if type(value) is not kind:
            return NO_SUCH_OVERLOAD
        total = check(total + value)  # type: ignore[operator]
        if isinstance(total, CelError):
            return total
    return total


def _index_of(values: List, wanted: Value) -> int:
    return next((i for i, value in enumerate(values) if equals(value, wanted) is True), -1)


def _last_index_of(values: List, wanted: Value) -> int:
    return next((i for i in range(len(values) - 1, -1, -1) if equals(values[i], wanted) is True), -1)


def _includes(target: Value, wanted: Value) -> bool:
    if isinstance(target, tuple):
        return any(equals(value, wanted) is True for value in target)
    return equals(target, wanted) is True


_SUMS: Final = ((INT, "int", _sum_int), (UINT, "uint", _sum_uint), (DOUBLE, "double", _sum_double))
_NAMES: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_TYPES: Final = tuple(zip(COMPARABLE, _NAMES, strict=True))

KUBERNETES_LISTS_LIBRARY: Final = {
    "isSorted": tuple(
        Overload(f"list_{name}_is_sorted_bool", (list_of(t),), BOOL, _is_sorted, True, traverse_tree)
        for t, name in _TYPES
    ),
    "sum": tuple(
        Overload(f"list_{name}_sum_{name}", (list_of(t),), t, call, True, traverse_tree)
        for t, name, call in (*_SUMS, (DURATION, "duration", _sum_duration))
    ),
    "max": tuple(
        Overload(f"list_{name}_max_{name}", (list_of(t),), t, _extreme("max", -1), True, traverse_tree)
        for t, name in _TYPES
    ),
    "min": tuple(
        Overload(f"list_{name}_min_{name}", (list_of(t),), t, _extreme("min", 1), True, traverse_tree)
        for t, name in _TYPES
    ),
    "indexOf": (Overload("list_a_index_of_int", (list_of(_A), _A), INT, _index_of, True, traverse_tree),),
    "lastIndexOf": (Overload("list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of, True, traverse_tree),),
    "includes": (Overload("list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes, True, traverse_tree),),
}
