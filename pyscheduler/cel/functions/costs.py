"""Run-time cost of calls (cel-go's common/cost.go and ext/lists.go, Kubernetes' library/cost.go).

Costs are also computed for calls with an argument that is an error: cel-go counts the call all the same.
"""

from __future__ import annotations

import math
from typing import Final

from pyscheduler.cel.functions.registry import Cost
from pyscheduler.cel.go_text import utf8
from pyscheduler.cel.limits import spend
from pyscheduler.cel.values import CelError, CelMap, Opaque, Optional, Uint, Value

LIST_COST: Final = 10
"""Cost of a call that creates a list."""
_STRING_FACTOR: Final = 0.1
_REGEX_FACTOR: Final = 0.25
_SIZED: Final = frozenset((str, bytes, tuple))
_MAX_COST: Final = 2**64 - 1
_GO_TYPES: Final = {
    bool: ("types.Bool", "Add"),
    bytes: ("types.Bytes", "Contains"),
    float: ("types.Double", "Contains"),
    int: ("types.Int", "Contains"),
    str: ("types.String", "Contains"),
    type(None): ("types.Null", "Add"),
    CelError: ("*types.Err", "Add"),
    Optional: ("*types.Optional", "Add"),
    Uint: ("types.Uint", "Contains"),
}
"""Go's types, and the first method that they lack of a list."""


class InternalError(Exception):
    """A panic in cel-go's cost tracker; it ends the evaluation, and && and || do not absorb it."""


def actual_size(value: Value) -> int:
    """Return characters of a string, bytes, elements of a list or map, bytes of an address; 1 for other values."""
    if type(value) in _SIZED or isinstance(value, CelMap):
        return len(value)  # type: ignore[arg-type]
    return int(getattr(value, "size", 1)) if isinstance(value, Opaque) else 1


def traversal(size: int) -> int:
    """Return the cost of traversing a string once."""
    return math.ceil(size * _STRING_FACTOR)


def fixed(cost: int) -> Cost:
    """Return the cost function of calls that cost the same each."""
    return lambda _arguments, _result: cost


def traverse_first(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the first argument once."""
    return traversal(actual_size(arguments[0]))


def traverse_first_twice(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the first argument and build a result of its size."""
    return traversal(actual_size(arguments[0]) * 2)


def traverse_result_twice(_arguments: tuple[Value, ...], result: Value) -> int:
    """Traverse the result and build it."""
    return traversal(actual_size(result) * 2)


def traverse_tree(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the first argument with all that it contains."""
    return _tree(arguments[0])


def _tree(value: Value) -> int:
    spend(1)
    if isinstance(value, str):
        return int(len(utf8(value)) * _STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * _STRING_FACTOR)
    if isinstance(value, tuple):
        return sum(map(_tree, value))
    if isinstance(value, CelMap):
        return sum(_tree(key) + _tree(entry) for key, entry in value.items())
    return 1


def match_first(arguments: tuple[Value, ...], _result: Value) -> int:
    """Match the first argument against the pattern that is the second."""
    return pattern_cost(actual_size(arguments[0]), actual_size(arguments[1]))


def pattern_cost(text_size: int, pattern_size: int) -> int:
    """Return the cost of a regular expression; the text counts one character more, so that no cost is zero."""
    return math.ceil((1.0 + text_size) * _STRING_FACTOR) * math.ceil(pattern_size * _REGEX_FACTOR)


def create_list(size: int, factor: float = 1.0) -> int:
    """Return the cost of a call that creates a list from `size` steps; a negative factor counts as 1."""
    return min(int(float(size) * (1.0 if factor < 0 else factor)) + 1 + LIST_COST, _MAX_COST)


def create_result(_arguments: tuple[Value, ...], result: Value) -> int:
    """Create a list of the result's size."""
    return create_list(actual_size(result))


def flatten_first(arguments: tuple[Value, ...], _result: Value) -> int:
    """Visit the elements of the first argument once for each level of the second."""
    depth = arguments[1] if len(arguments) > 1 else 1
    if type(depth) is not int:
        raise InternalError(f"internal error: interface conversion: ref.Val is {_go_type(depth)[0]}, not types.Int")
    return create_list(actual_size(arguments[0]), float(depth))


def compare_first(arguments: tuple[Value, ...], _result: Value) -> int:
    """Compare each element of the first argument with each other one."""
    return _compare_elements(arguments[0])


def compare_second(arguments: tuple[Value, ...], _result: Value) -> int:
    """Compare each element of the second argument with each other one."""
    return _compare_elements(arguments[1])


def _compare_elements(values: Value) -> int:
    if not isinstance(values, tuple):
        name, method = _go_type(values)
        raise InternalError(
            f"internal error: interface conversion: {name} is not traits.Lister: missing method {method}"
        )
    factor = 2.0 + (_STRING_FACTOR if values and type(values[0]) in (str, bytes) else 0.0)
    return create_list(len(values) ** 2, factor)


def _go_type(value: Value) -> tuple[str, str]:
    return _GO_TYPES.get(type(value), (f"types.{type(value).__name__}", "Add"))


def multiply_sizes(factor: int) -> Cost:
    """Return the cost function of calls that compare each element of one list with each of another."""
    return lambda arguments, _result: 1 + actual_size(arguments[0]) * actual_size(arguments[1]) * factor
