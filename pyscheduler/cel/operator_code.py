"""Code of the operators and literals that the evaluator implements itself."""

from __future__ import annotations

from math import ceil
from typing import Final

from pyscheduler.cel.attributes import check_hashable
from pyscheduler.cel.equality import equals
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions.costs import LIST_COST, actual_size
from pyscheduler.cel.go_text import print_value
from pyscheduler.cel.limits import spend
from pyscheduler.cel.loops import MAP_COST
from pyscheduler.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    CelMap,
    Opaque,
    Optional,
    Uint,
    Value,
    decode_key,
    encode_key,
)

PRIMITIVES: Final = frozenset((bool, float, int, str, Uint))
"""Classes of constant keys, and of the elements that `x in [constants]` looks up."""


def logic_code(codes: tuple[Code, ...], end: bool) -> Code:
    """Return the code of `&&` (ends at False) or `||` (ends at True), which absorb errors of the other terms."""

    def code(frame: Frame) -> Value:
        error: CelError | None = None
        for term in codes:
            value = term(frame)
            if value is end:
                return end
            if type(value) is not bool and error is None:
                error = value if type(value) is CelError else NO_SUCH_OVERLOAD
        return (not end) if error is None else error

    return code


def _size(value: Value) -> int:
    """Return the size that the cost of equality depends on, which looks into optionals."""
    while type(value) is Optional and value is not NONE:
        value = value.value
    return actual_size(value)


def equal_code(left: Code, right: Code, is_negative: bool) -> Code:
    def code(frame: Frame) -> Value:
        a = left(frame)
        b = right(frame)
        if not is_negative and isinstance(a, Opaque):
            frame.cost += 1
        else:
            frame.cost += ceil(min(_size(a), _size(b)) * 0.1)
        if type(a) is CelError:
            return a
        if type(b) is CelError:
            return b
        result = equals(a, b)
        return result is not True if is_negative else result

    return code


def equal_text_code(left: Code, text: str, is_negative: bool) -> Code:
    """Return the code of a comparison with a constant string."""
    size = len(text)

    def code(frame: Frame) -> Value:
        value = left(frame)
        if type(value) is str:
            frame.cost += ceil(min(len(value), size) * 0.1)
            return (value == text) is not is_negative
        if not is_negative and isinstance(value, Opaque):
            frame.cost += 1
        else:
            frame.cost += ceil(min(_size(value), size) * 0.1)
        if type(value) is CelError:
            return value
        result = equals(value, text)
        return result is not True if is_negative else result

    return code


def member_code(value: Code, elements: tuple[Value, ...]) -> Code:
    """Return the code of `x in [constants]`, which has no cost."""
    keys = frozenset(encode_key(element) for element in elements)
    for_numbers = any(type(element) in (int, float, Uint) for element in elements)

    def code(frame: Frame) -> Value:
        a = value(frame)
        if type(a) is str:
            return a in keys
        if type(a) is CelError:
            return a
        if type(a) is bool:
            return encode_key(a) in keys
        check_hashable(a)
        if not for_numbers or type(a) not in PRIMITIVES:
            return False
        spend(len(elements))
        return any(equals(a, element) is True for element in elements)

    return code


def list_code(codes: tuple[Code, ...], optionals: frozenset[int]) -> Code:
    def code(frame: Frame) -> Value:
        elements: list[Value] = []
        for index, element in enumerate(codes):
            value = element(frame)
            if type(value) is CelError:
                frame.cost += LIST_COST
                return value
            if index in optionals:
                if type(value) is not Optional:
                    frame.cost += LIST_COST
                    return _not_optional("list element", value)
                if value is NONE:
                    continue
                value = value.value
            elements.append(value)
        frame.cost += LIST_COST
        return tuple(elements)

    return code


def _not_optional(what: str, value: Value) -> CelError:
    return CelError(f"cannot initialize optional {what} from non-optional value {print_value(value)}")


def map_code(codes: tuple[tuple[Code, Code, bool], ...]) -> Code:
    def entries_code(frame: Frame) -> Value:
        entries: dict[object, Value] = {}
        for key_code, value_code, is_optional in codes:
            key = key_code(frame)
            if type(key) is CelError:
                return key
            value = value_code(frame)
            if type(value) is CelError:
                return value
            check_hashable(key)
            encoded = encode_key(key)
            if is_optional:
                if type(value) is not Optional:
                    return _not_optional(f"entry '{print_value(decode_key(encoded))}'", value)
                if value is NONE:
                    entries.pop(encoded, None)
                    continue
                value = value.value
            entries[encoded] = value
        return CelMap(entries)

    def code(frame: Frame) -> Value:
        result = entries_code(frame)
        frame.cost += MAP_COST
        return result

    return code
