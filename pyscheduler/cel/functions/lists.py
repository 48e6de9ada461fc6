"""cel-go's extension for lists, version 3, with `first` and `last` of its optional types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Final

from pyscheduler.cel.equality import compare, equals
from pyscheduler.cel.functions.costs import compare_first, compare_second, create_result, flatten_first
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.limits import spend
from pyscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    TypeParam,
    list_of,
    optional_of,
)
from pyscheduler.cel.values import NONE, CelError, Duration, Optional, Timestamp, Uint, Value, type_of

_T: Final = TypeParam("T")
_LIST: Final = list_of(_T)
_V: Final = TypeParam("V")
COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""Types that have an order, in upstream's order."""
COMPARABLE_CLASSES: Final = frozenset((int, Uint, float, bool, Duration, Timestamp, str, bytes))
_MAX_RANGE: Final = 1_000_000
_INSERTION_SORT: Final = 12
"""Up to this length Go's sort.Slice is an insertion sort."""
List = tuple[Value, ...]


def _slice(values: List, start: int, end: int) -> List | CelError:
    if start < 0 or end < 0:
        return CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        return CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: Value = 1) -> List | CelError:
    """Flatten lists in a list; upstream disables the check of the arguments' types for this function only."""
    if not isinstance(values, tuple):
        arguments = "" if depth == 1 else str(type_of(depth))
        return CelError(f"no such overload: {type_of(values)}.flatten({arguments})")
    if type(depth) is not int:
        return CelError(f"no such overload: {type_of(values)}.flatten({type_of(depth)})")
    if depth < 0:
        return CelError("level must be non-negative")
    return _flattened(values, depth)


def _flattened(values: List, depth: int) -> List:
    result = values
    for _ in range(depth):
        if not any(isinstance(value, tuple) for value in result):
            break
        result = tuple(item for value in result for item in (value if isinstance(value, tuple) else (value,)))
    return result


def _sort(values: List) -> List | CelError:
    return sort_by_keys(values, values)


def sort_by_keys(values: List, keys: List) -> List | CelError:
    """Return the values in the order of their keys, which must be of one comparable type.

    Of more than 12 values, those with equal keys keep their order; Go's order is another one, which is not documented.
    """
    if len(values) != len(keys):
        return CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list,"
            f" but got {len(values)} and {len(keys)} elements respectively"
        )
    if not keys:
        return values
    kind = type(keys[0])
    if kind not in COMPARABLE_CLASSES:
        return CelError("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        return CelError("list elements must have the same type")
    indices: list[int] = list(range(len(keys)))
    if len(keys) > _INSERTION_SORT:
        indices.sort(key=cmp_to_key(partial(_order, keys)))
    else:
        _insertion_sort(indices, lambda a, b: compare(keys[a], keys[b]) == -1)
    return tuple(values[index] for index in indices)


def _order(keys: List, a: int, b: int) -> int:
    order = compare(keys[a], keys[b])
    return 0 if isinstance(order, CelError) else order


def _insertion_sort(items: list[int], less: Callable[[int, int], bool]) -> None:
    for start in range(1, len(items)):
        position = start
        while position and less(items[position], items[position - 1]):
            items[position], items[position - 1] = items[position - 1], items[position]
            position -= 1


def _range(size: int) -> List | CelError:
    if size < 0:
        return CelError(f"lists.range: size must be non-negative, got {size}")
    if size > _MAX_RANGE:
        return CelError(f"lists.range: size {size} exceeds maximum allowed ({_MAX_RANGE})")
    return tuple(range(size))


def _distinct(values: List) -> List:
    result: list[Value] = []
    for value in values:
        spend(len(result))
        if not any(equals(value, other) is True for other in result):
            result.append(value)
    return tuple(result)


def _first(values: List) -> Optional:
    return Optional(values[0]) if values else NONE


def _last(values: List) -> Optional:
    return Optional(values[-1]) if values else NONE


LISTS_LIBRARY: Final = {
    "slice": (Overload("list_slice", (_LIST, INT, INT), _LIST, _slice, True, create_result),),
    "flatten": (
        Overload("list_flatten", (list_of(_LIST),), _LIST, _flatten, True, flatten_first),
        Overload("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten, True, flatten_first),
    ),
    "sort": tuple(
        Overload(f"list_{t.name}_sort", (list_of(t),), list_of(t), _sort, True, compare_first) for t in COMPARABLE
    ),
    "@sortByAssociatedKeys": tuple(
        Overload(f"list_{t.name}_sortByAssociatedKeys", (_LIST, list_of(t)), _LIST, sort_by_keys, True, compare_second)
        for t in COMPARABLE
    ),
    "lists.range": (Overload("lists_range", (INT,), list_of(INT), _range, cost=create_result),),
    "reverse": (Overload("list_reverse", (_LIST,), _LIST, lambda values: values[::-1], True, create_result),),
    "distinct": (Overload("list_distinct", (_LIST,), _LIST, _distinct, True, compare_first),),
    "last": (Overload("list_last", (list_of(_V),), optional_of(_V), _last, True),),
    "first": (Overload("list_first", (list_of(_V),), optional_of(_V), _first, True),),
}
