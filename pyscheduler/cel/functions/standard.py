"""Declarations of the standard functions and operators (cel-go's `common/stdlib/standard.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.functions import conversions, operators, regexes
from pyscheduler.cel.functions.costs import actual_size, match_first, traversal, traverse_first
from pyscheduler.cel.functions.registry import Cost, Library, Overload
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
    CelType,
    TypeParam,
    list_of,
    map_of,
    type_of_type,
)
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, Value

_A: Final = TypeParam("A")
_LIST: Final = list_of(_A)
_MAP: Final = map_of(_A, TypeParam("B"))
_NUMBERS: Final = {"int64": INT, "uint64": UINT, "double": DOUBLE}


def _smaller(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the smaller one of two values."""
    return traversal(min(actual_size(arguments[0]), actual_size(arguments[1])))


def _both(arguments: tuple[Value, ...], _result: Value) -> int:
    """Copy both values."""
    return traversal(actual_size(arguments[0]) + actual_size(arguments[1]))


def _second(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the second value."""
    return traversal(actual_size(arguments[1]))


def _product(arguments: tuple[Value, ...], _result: Value) -> int:
    """Search the second value at each place of the first."""
    return traversal(actual_size(arguments[0])) * traversal(actual_size(arguments[1]))


def _elements(arguments: tuple[Value, ...], _result: Value) -> int:
    """Compare a value with each element of a list."""
    return actual_size(arguments[1])


def _order(name: str, call: Callable[[Value, Value], Value]) -> list[Overload]:
    """Return the overloads of one order, in cel-go's sequence."""
    result = [Overload(f"{name}_bool", (BOOL, BOOL), BOOL, call)]
    for left, left_type in _NUMBERS.items():
        rights = (left, *(right for right in ("double", "int64", "uint64") if right != left))
        for right in rights:
            id = f"{name}_{left}" if left == right else f"{name}_{left}_{right}"
            result.append(Overload(id, (left_type, _NUMBERS[right]), BOOL, call))
    result += [Overload(f"{name}_{kind}", (t, t), BOOL, call, cost=_smaller) for kind, t in _TEXTS.items()]
    result += [Overload(f"{name}_{kind}", (t, t), BOOL, call) for kind, t in _TIMES.items()]
    return result


_TEXTS: Final = {"string": STRING, "bytes": BYTES}
_TIMES: Final = {"timestamp": TIMESTAMP, "duration": DURATION}


def _arithmetic(name: str, call: Callable[[Value, Value], Value], kinds: str) -> list[Overload]:
    return [Overload(f"{name}_{kind}", (_NUMBERS[kind], _NUMBERS[kind]), _NUMBERS[kind], call) for kind in kinds.split()]


def _conversion(
    to: str, result: CelType, call: Callable[[Value], Value], kinds: str, costs: dict[str, Cost] | None = None
) -> list[Overload]:
    return [
        Overload(f"{kind}_to_{to}", (_KINDS[kind],), result, call, cost=(costs or {}).get(kind)) for kind in kinds.split()
    ]


_KINDS: Final = _NUMBERS | _TEXTS | _TIMES | {"bool": BOOL}


def _text_function(test: Callable[[str, str], bool]) -> Callable[[Value, Value], Value]:
    def call(text: Value, part: Value) -> Value:
        if type(text) is not str or type(part) is not str:
            return NO_SUCH_OVERLOAD
        return test(text, part)

    return call


def matches(text: Value, pattern: Value) -> Value:
    """Return True if a pattern in RE2's syntax matches a part of the text."""
    if type(text) is not str:
        return operators.no_such_method("matches", text)
    if type(pattern) is not str:
        return NO_SUCH_OVERLOAD
    return regexes.matches(text, pattern)


def _not_strictly_false(value: Value) -> Value:
    return value if type(value) is bool else True


def _sized(kind: str, t: CelType) -> list[Overload]:
    return [
        Overload(f"size_{kind}", (t,), INT, operators.size),
        Overload(f"{kind}_size", (t,), INT, operators.size, is_member=True),
    ]


def _evaluated(*_arguments: Value) -> Value:
    """Stand for an operator that the evaluator implements."""
    raise AssertionError


STANDARD_LIBRARY: Final[Library] = {
    "_?_:_": [Overload("conditional", (BOOL, _A, _A), _A, _evaluated)],
    "_&&_": [Overload("logical_and", (BOOL, BOOL), BOOL, _evaluated)],
    "_||_": [Overload("logical_or", (BOOL, BOOL), BOOL, _evaluated)],
    "!_": [Overload("logical_not", (BOOL,), BOOL, operators.logical_not)],
    "@not_strictly_false": [Overload("not_strictly_false", (BOOL,), BOOL, _not_strictly_false)],
    "_==_": [Overload("equals", (_A, _A), BOOL, _evaluated)],
    "_!=_": [Overload("not_equals", (_A, _A), BOOL, _evaluated)],
    "_+_": [
        Overload("add_bytes", (BYTES, BYTES), BYTES, operators.add, cost=_both),
        Overload("add_double", (DOUBLE, DOUBLE), DOUBLE, operators.add),
        Overload("add_duration_duration", (DURATION, DURATION), DURATION, operators.add),
        Overload("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP, operators.add),
        Overload("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, operators.add),
        Overload("add_int64", (INT, INT), INT, operators.add),
        Overload("add_list", (_LIST, _LIST), _LIST, operators.add),
        Overload("add_string", (STRING, STRING), STRING, operators.add, cost=_both),
        Overload("add_uint64", (UINT, UINT), UINT, operators.add),
    ],
    "_/_": _arithmetic("divide", operators.divide, "double int64 uint64"),
    "_%_": _arithmetic("modulo", operators.modulo, "int64 uint64"),
    "_*_": _arithmetic("multiply", operators.multiply, "double int64 uint64"),
    "-_": [
        Overload("negate_double", (DOUBLE,), DOUBLE, operators.negate),
        Overload("negate_int64", (INT,), INT, operators.negate),
    ],
    "_-_": [
        Overload("subtract_double", (DOUBLE, DOUBLE), DOUBLE, operators.subtract),
        Overload("subtract_duration_duration", (DURATION, DURATION), DURATION, operators.subtract),
        Overload("subtract_int64", (INT, INT), INT, operators.subtract),
        Overload("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, operators.subtract),
        Overload("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, operators.subtract),
        Overload("subtract_uint64", (UINT, UINT), UINT, operators.subtract),
    ],
    "_<_": _order("less", operators.less),
    "_<=_": _order("less_equals", operators.less_equals),
    "_>_": _order("greater", operators.greater),
    "_>=_": _order("greater_equals", operators.greater_equals),
    "@in": [
        Overload("in_list", (_A, _LIST), BOOL, operators.contains, cost=_elements),
        Overload("in_map", (_A, _MAP), BOOL, operators.contains),
    ],
    "size": [*_sized("bytes", BYTES), *_sized("list", _LIST), *_sized("map", _MAP), *_sized("string", STRING)],
    "type": [Overload("type", (_A,), type_of_type(_A), operators.type_name)],
    "bool": _conversion("bool", BOOL, conversions.to_bool, "bool string"),
    "bytes": _conversion("bytes", BYTES, conversions.to_bytes, "bytes string", {"string": traverse_first}),
    "double": _conversion("double", DOUBLE, conversions.to_double, "double int64 string uint64"),
    "duration": _conversion("duration", DURATION, conversions.to_duration, "duration string"),
    "dyn": [Overload("to_dyn", (_A,), DYN, operators.identity)],
    "int": _conversion("int64", INT, conversions.to_int, "int64 double duration string timestamp uint64"),
    "string": _conversion(
        "string",
        STRING,
        conversions.to_string,
        "string bool bytes double duration int64 timestamp uint64",
        {"bytes": traverse_first},
    ),
    "timestamp": _conversion("timestamp", TIMESTAMP, conversions.to_timestamp, "timestamp int64 string"),
    "uint": _conversion("uint64", UINT, conversions.to_uint, "uint64 double int64 string"),
    "contains": [
        Overload(
            "contains_string", (STRING, STRING), BOOL, _text_function(str.__contains__), is_member=True, cost=_product
        )
    ],
    "endsWith": [
        Overload("ends_with_string", (STRING, STRING), BOOL, _text_function(str.endswith), is_member=True, cost=_second)
    ],
    "startsWith": [
        Overload(
            "starts_with_string", (STRING, STRING), BOOL, _text_function(str.startswith), is_member=True, cost=_second
        )
    ],
    "matches": [
        Overload("matches", (STRING, STRING), BOOL, matches, cost=match_first),
        Overload("matches_string", (STRING, STRING), BOOL, matches, is_member=True, cost=match_first),
    ],
}

UNGUARDED: Final = frozenset(
    (
        *["!_", "@not_strictly_false", "_+_", "_/_", "_%_", "_*_", "-_", "_-_", "_<_", "_<=_", "_>_", "_>=_", "@in"],
        *["flatten", "size", "type", "dyn", "contains", "endsWith", "startsWith", "matches"],
    )
)
"""Functions that are called with values of any type: they check themselves, as those without type guards in cel-go."""

LIST_SINGLETONS: Final = frozenset(("sort", "@sortByAssociatedKeys"))
"""Functions that are called with any list, because cel-go binds them once for all their overloads."""
