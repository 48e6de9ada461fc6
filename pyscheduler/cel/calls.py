"""Code of calls: evaluation of the arguments, dispatch on their types at run time, and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions.registry import Cost, Overload
from pyscheduler.cel.limits import CancelledError
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import (
    CelError,
    CelMap,
    Duration,
    Timestamp,
    Uint,
    Value,
    type_of,
)

Function: TypeAlias = Callable[..., Value]
_CLASSES: Final[dict[str, type]] = {
    "bool": bool,
    "bytes": bytes,
    "double": float,
    "duration": Duration,
    "int": int,
    "null": type(None),
    "string": str,
    "timestamp": Timestamp,
    "type": CelType,
    "uint": Uint,
}


def accepts(kind: CelType, value: Value) -> bool:
    """Return True if a value can be passed as a type. Only the first entry of a list or map is looked at, as in cel-go."""
    if kind.kind in ("dyn", "any", "type_param"):
        return True
    expected = _CLASSES.get(kind.kind)
    if expected is not None:
        return type(value) is expected
    if kind.kind == "list":
        return type(value) is tuple and (not value or accepts(kind.parameters[0], value[0]))
    if kind.kind == "map":
        if not isinstance(value, CelMap):
            return False
        first = next(value.items(), None)
        return first is None or all(map(accepts, kind.parameters, first))
    return type_of(value).name == kind.name


def dispatcher(name: str, overloads: Sequence[Overload], count: int) -> Function:
    """Return the function that calls the first overload whose types the arguments have."""
    candidates = [overload for overload in overloads if len(overload.arguments) == count]
    if len(candidates) == 1 and count <= 2:
        return _guarded(name, candidates[0])

    def call(*arguments: Value) -> Value:
        for overload in candidates:
            if all(map(accepts, overload.arguments, arguments)):
                return overload.call(*arguments)
        return no_such_overload(name, arguments)

    return call


def _guarded(name: str, overload: Overload) -> Function:
    """Return the function of one overload with up to two arguments."""
    function = overload.call
    if not overload.arguments:
        return function
    first, second = overload.arguments[0], overload.arguments[-1]
    # Most parameters have a type with a class of its own.
    first_class = _CLASSES.get(first.kind)

    def call_one(a: Value) -> Value:
        if type(a) is first_class or accepts(first, a):
            return function(a)
        return no_such_overload(name, (a,))

    def call_two(a: Value, b: Value) -> Value:
        if accepts(first, a) and accepts(second, b):
            return function(a, b)
        return no_such_overload(name, (a, b))

    return call_one if len(overload.arguments) == 1 else call_two


def list_function(name: str, function: Function) -> Function:
    """Return a function that takes any list as its first argument, whatever the types of its overloads are."""

    def call(*arguments: Value) -> Value:
        return function(*arguments) if type(arguments[0]) is tuple else no_such_overload(name, arguments)

    return call


def no_such_overload(name: str, arguments: Sequence[Value]) -> CelError:
    """Return the error of arguments that no overload takes."""
    types = ", ".join(type_of(argument).name for argument in arguments)
    return CelError(f"no such overload: {name}({types})")


def call_code(function: Function, arguments: Sequence[Code], cost: Cost | None, is_strict_in_order: bool) -> Code:
    """Return the code of a call.

    cel-go evaluates both arguments of a binary function and counts the call even if one is an error. Other functions
    (`is_strict_in_order`) stop at the first error, and are not counted if that is not the last argument.
    """
    if is_strict_in_order or len(arguments) not in (1, 2):
        return _many(function, tuple(arguments), cost)
    if len(arguments) == 1:
        return _unary(function, arguments[0], cost)
    return _binary(function, arguments[0], arguments[1], cost)


def charge(frame: Frame, cost: Cost | None, arguments: tuple[Value, ...], result: Value) -> None:
    """Add the cost of a call; raise CancelledError above the limit."""
    if cost is None:
        frame.cost += 1
        return
    frame.cost += cost(arguments, result)
    if frame.cost > frame.limit:
        raise CancelledError


def _unary(function: Function, argument: Code, cost: Cost | None) -> Code:
    def code(frame: Frame) -> Value:
        a = argument(frame)
        result = a if type(a) is CelError else function(a)
        charge(frame, cost, (a,), result)
        return result

    return code


def _binary(function: Function, left: Code, right: Code, cost: Cost | None) -> Code:
    def code(frame: Frame) -> Value:
        a = left(frame)
        b = right(frame)
        if type(a) is CelError:
            result = a
        elif type(b) is CelError:
            result = b
        else:
            result = function(a, b)
        charge(frame, cost, (a, b), result)
        return result

    return code


def _many(function: Function, arguments: tuple[Code, ...], cost: Cost | None) -> Code:
    last = len(arguments) - 1

    def code(frame: Frame) -> Value:
        values: list[Value] = []
        for index, argument in enumerate(arguments):
            value = argument(frame)
            values.append(value)
            if type(value) is CelError:
                if index == last:
                    charge(frame, cost, tuple(values), value)
                return value
        result = function(*values)
        charge(frame, cost, tuple(values), result)
        return result

    return code
