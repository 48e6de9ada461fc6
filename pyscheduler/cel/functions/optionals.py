"""Optional values, and the function that the map macros insert entries with (cel-go's `cel/library.go`)."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.operators import MIN_TIMESTAMP
from pyscheduler.cel.functions.registry import Library, Overload
from pyscheduler.cel.go_text import print_value
from pyscheduler.cel.types import BOOL, DYN, INT, STRING, TypeParam, list_of, map_of, optional_of
from pyscheduler.cel.values import (
    MISSING,
    NONE,
    CelError,
    CelMap,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    encode_key,
)

_ZEROS: Final = frozenset((bool, int, Uint, float, str, bytes, tuple))


def _lazy(*_arguments: Value) -> Value:
    """Stand for a function that the evaluator implements, because it does not evaluate each argument."""
    raise AssertionError


def _is_zero(value: Value) -> bool:
    if type(value) in _ZEROS or value is None:
        return not value
    if isinstance(value, CelMap):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == MIN_TIMESTAMP
    return isinstance(value, Duration) and value.nanoseconds == 0


def _of_non_zero(value: Value) -> Value:
    return NONE if _is_zero(value) else Optional(value)


def _value(optional: Optional) -> Value:
    return CelError("optional.none() dereference") if optional is NONE else optional.value


def _unwrap(values: tuple[Value, ...]) -> Value:
    result: list[Value] = []
    for value in values:
        if not isinstance(value, Optional):
            return CelError(f"value {print_value(value)} is not optional")
        if value is not NONE:
            result.append(value.value)
    return tuple(result)


def insert_entry(target: CelMap, key: Value, value: Value) -> CelMap | CelError:
    """Return a map with one more entry, or an error if it has the key."""
    if target.find(key) is not MISSING:
        return CelError(f"insert failed: key {print_value(key)} already exists")
    return CelMap({**target.entries, encode_key(key): value})


def _insert_map(target: CelMap, update: CelMap) -> CelMap | CelError:
    for key, value in update.items():
        result = insert_entry(target, key, value)
        if isinstance(result, CelError):
            return result
        target = result
    return target


_K: Final = TypeParam("K")
_V: Final = TypeParam("V")
_LIST: Final = list_of(_V)
_MAP: Final = map_of(_K, _V)
_OPTIONAL: Final = optional_of(_V)

OPTIONALS_LIBRARY: Final[Library] = {
    "optional.of": [Overload("optional_of", (_V,), _OPTIONAL, Optional)],
    "optional.ofNonZeroValue": [Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero)],
    "optional.none": [Overload("optional_none", (), _OPTIONAL, lambda: NONE)],
    "value": [Overload("optional_value", (_OPTIONAL,), _V, _value, is_member=True)],
    "hasValue": [Overload("optional_hasValue", (_OPTIONAL,), BOOL, lambda value: value is not NONE, is_member=True)],
    "or": [Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _lazy, is_member=True)],
    "orValue": [Overload("optional_orValue_value", (_OPTIONAL, _V), _V, _lazy, is_member=True)],
    "_?._": [Overload("select_optional_field", (DYN, STRING), _OPTIONAL, _lazy)],
    "_[?_]": [
        Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL, _lazy),
        Overload("optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL, _lazy),
        Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL, _lazy),
        Overload("optional_map_optindex_optional_value", (optional_of(_MAP), _K), _OPTIONAL, _lazy),
    ],
    "_[_]": [
        Overload("index_list", (_LIST, INT), _V, _lazy),
        Overload("index_map", (_MAP, _K), _V, _lazy),
        Overload("optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL, _lazy),
        Overload("optional_map_index_value", (optional_of(_MAP), _K), _OPTIONAL, _lazy),
    ],
    "optional.unwrap": [Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap)],
    "unwrapOpt": [Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap, is_member=True)],
    "cel.@mapInsert": [
        Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert_entry),
        Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_map),
    ],
}
