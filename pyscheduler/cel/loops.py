"""Code of comprehensions: the loop, and the accumulators that lists and maps are collected in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyscheduler.cel.attributes import go_type
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions.optionals import insert_entry
from pyscheduler.cel.limits import CancelledError
from pyscheduler.cel.values import MISSING, CelError, CelMap, Value, encode_key

MAP_COST: Final = 30
"""Cost of a literal of a map, as cel-go's `MapCreateBaseCost`; that of a list is `functions.costs.LIST_COST`."""


class Loop(NamedTuple):
    """Parts of a comprehension. `condition` is None if it is constant true."""

    range: Code
    numbers: tuple[int, int, int]
    """Numbers of the accumulator and of the two variables; the last is -1 if there is one variable."""
    initial: Code
    condition: Code | None
    step: Code
    result: Code


def loop_code(loop: Loop) -> Code:
    """Return the code of a comprehension."""
    accumulator, first, second = loop.numbers
    values_of, initial, condition, step, result = loop.range, loop.initial, loop.condition, loop.step, loop.result

    def code(frame: Frame) -> Value:
        values = values_of(frame)
        if type(values) is CelError:
            return values
        variables = frame.variables
        iterable = _pairs(values) if second >= 0 else _elements(values)
        if isinstance(iterable, CelError):
            return iterable
        variables[accumulator] = initial(frame)
        for value in iterable:
            if second >= 0:
                variables[first], variables[second] = value  # type: ignore[misc]
            else:
                variables[first] = value
            if condition is not None and condition(frame) is False:
                break
            variables[accumulator] = step(frame)
            if frame.cost > frame.limit:
                raise CancelledError
        value = result(frame)
        return tuple(value) if type(value) is list else value

    return code


def _elements(values: Value) -> Iterable[Value] | CelError:
    if type(values) is tuple:
        return values
    if isinstance(values, CelMap):
        return values.keys()
    return CelError(f"got '{go_type(values)}', expected iterable type")


def _pairs(values: Value) -> Iterable[tuple[Value, Value]] | CelError:
    if type(values) is tuple:
        return enumerate(values)
    if isinstance(values, CelMap):
        return values.items()
    return CelError(f"unsupported comprehension range type: {go_type(values)}")


def new_list(_frame: Frame) -> Value:
    """Return an empty list to append to; the loop makes a tuple of it in the end."""
    return []


def new_map(_frame: Frame) -> Value:
    """Return an empty map to insert into."""
    return CelMap({})


def append_code(accumulator: int, elements: Code) -> Code:
    """Return the code of `@result + [element]`, which appends in place."""

    def code(frame: Frame) -> Value:
        collected = frame.variables[accumulator]
        added = elements(frame)
        # 1 for the variable and 1 for the call.
        frame.cost += 2
        if type(collected) is CelError:
            return collected
        if type(added) is CelError:
            return added
        assert isinstance(collected, list)
        collected += added  # type: ignore[arg-type]
        return collected

    return code


def insert_code(accumulator: int, key: Code, value: Code) -> Code:
    """Return the code of `cel.@mapInsert(@result, key, value)`, which inserts in place."""

    def code(frame: Frame) -> Value:
        collected = frame.variables[accumulator]
        frame.cost += 1
        if type(collected) is CelError:
            return collected
        k = key(frame)
        if type(k) is CelError:
            return k
        v = value(frame)
        frame.cost += 1
        if type(v) is CelError:
            return v
        assert isinstance(collected, CelMap)
        return insert_in_place(collected, k, v)

    return code


def insert_in_place(target: CelMap, key: Value, value: Value) -> Value:
    """Insert into a map that nothing else refers to yet; return it, or an error if it has the key."""
    if target.find(key) is not MISSING:
        return insert_entry(target, key, value)
    assert isinstance(target.entries, dict)
    target.entries[encode_key(key)] = value
    return target
