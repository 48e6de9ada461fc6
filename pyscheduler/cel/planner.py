"""Syntax tree to closures (cel-go's `interpreter/planner.go` with its optimizations, which the cost depends on)."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final, TypeAlias

from pyscheduler.cel.attributes import (
    AnyAttribute,
    Attribute,
    ComputedSelector,
    Constant,
    Selector,
    Ternary,
    go_type,
)
from pyscheduler.cel.calls import Function, call_code, dispatcher, list_function
from pyscheduler.cel.equality import equals
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions import operators
from pyscheduler.cel.functions.costs import LIST_COST, actual_size
from pyscheduler.cel.functions.kubernetes import FUNCTION_COSTS
from pyscheduler.cel.functions.registry import Library
from pyscheduler.cel.functions.standard import LIST_SINGLETONS, UNGUARDED
from pyscheduler.cel.go_text import print_value
from pyscheduler.cel.loops import MAP_COST, Loop, append_code, insert_code, loop_code, new_list, new_map
from pyscheduler.cel.macros import ACCUMULATOR
from pyscheduler.cel.regex import compile_regex
from pyscheduler.cel.source import CelSyntaxError
from pyscheduler.cel.syntax import (
    Comprehension,
    Expr,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
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

Planned: TypeAlias = Constant | Attribute | Ternary | Code
_CONVERSIONS: Final = frozenset(["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"])
_PRIMITIVES: Final = frozenset((bool, float, int, str, Uint))
_PATTERNS: Final = ("matches", "find", "findAll")
"""Functions whose second argument is a pattern; a constant one is compiled with the program."""


class _Unset:
    """A variable of `cel.bind` that is not evaluated yet."""


_UNSET: Final = _Unset()


class Planner:
    """Turns one tree into code; the variables of its comprehensions get numbers."""

    def __init__(self, functions: Library) -> None:
        self._functions = functions
        self._locals: list[tuple[str, Code]] = []
        self._numbers: list[tuple[str, int]] = []
        self.variables = 0

    def code(self, node: Expr) -> Code:
        """Return the code of a node. Raise CelSyntaxError if a constant part of it fails."""
        return _code(self._plan(node))

    def _plan(self, node: Expr) -> Planned:
        match node:
            case Literal():
                return Constant(node.value)
            case Ident():
                return Constant(node.constant) if node.constant is not None else self._variable(node.name)
            case Select():
                return self._select(node)
            case FunctionCall():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise AssertionError(node)

    def _variable(self, name: str) -> Attribute:
        for local, code in reversed(self._locals):
            if local == name:
                return Attribute(code)
        is_hidden = any(local == name.removeprefix(".") for local, _ in self._locals)
        return Attribute(_device, is_device=not is_hidden, is_counted=not is_hidden)

    def _attribute(self, node: Expr) -> AnyAttribute:
        """Return the attribute that a node is, or that selectors behind its value make of it."""
        planned = self._plan(node)
        return planned if isinstance(planned, Attribute | Ternary) else Attribute(_code(planned))

    def _select(self, node: Select) -> Planned:
        if node.constant is not None:
            return Constant(node.constant)
        attribute = self._attribute(node.operand)
        attribute.add(Selector(node.field, is_optional=False, is_test=node.is_test))
        attribute.is_test = attribute.is_test or node.is_test
        return attribute

    def _index(self, node: FunctionCall) -> Planned:
        operand, index = node.arguments
        attribute = self._attribute(operand)
        is_optional = node.function != "_[_]"
        planned = self._plan(index)
        if isinstance(planned, Constant):
            if type(planned.value) not in _PRIMITIVES:
                raise CelSyntaxError(f"program instantiation failed: invalid qualifier type: {go_type(planned.value)}")
            attribute.add(Selector(planned.value, is_optional))
        elif isinstance(planned, Attribute | Ternary):
            attribute.add(ComputedSelector(planned.resolver(), is_optional))
        else:
            attribute.add(ComputedSelector(planned, is_optional))
        return attribute

    def _call(self, node: FunctionCall) -> Planned:
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        overloads = node.overloads
        name = node.function
        parts = ([node.target] if node.target is not None else []) + node.arguments
        arguments = [self._plan(part) for part in parts]
        is_resolved = len(overloads) == 1
        cost = overloads[0].cost if is_resolved else FUNCTION_COSTS.get(name)
        function: Function
        if name in UNGUARDED:
            function = overloads[0].call
        elif name in LIST_SINGLETONS:
            function = list_function(name, overloads[0].call)
        else:
            function = dispatcher(name, overloads if is_resolved else self._functions[name], len(parts))
        if len(arguments) == 1 and isinstance(arguments[0], Constant) and name in _CONVERSIONS:
            return _converted(function(arguments[0].value))
        codes = [_code(argument) for argument in arguments]
        pattern = arguments[1] if name in _PATTERNS else None
        if isinstance(pattern, Constant) and isinstance(pattern.value, str):
            return call_code(_with_pattern(overloads[0].call, pattern.value), codes, cost, is_strict_in_order=True)
        is_strict_in_order = not is_resolved and name not in UNGUARDED and name not in LIST_SINGLETONS
        return call_code(function, codes, cost, is_strict_in_order)

    def _logic(self, node: FunctionCall) -> Planned:
        codes = tuple(self.code(part) for part in node.arguments)
        return _logic_code(codes, node.function == "_||_")

    def _ternary(self, node: FunctionCall) -> Planned:
        condition, when_true, when_false = node.arguments
        return Ternary(self.code(condition), self._branch(when_true), self._branch(when_false))

    def _branch(self, node: Expr) -> AnyAttribute:
        attribute = self._attribute(node)
        # cel-go resolves the attribute below `has()`, which for an optional selection is not a bool.
        attribute.is_test = False
        return attribute

    def _equal(self, node: FunctionCall) -> Planned:
        left, right = (self._plan(part) for part in node.arguments)
        is_negative = node.function == "_!=_"
        if isinstance(right, Constant) and type(right.value) is str:
            return _equal_text_code(_code(left), right.value, is_negative)
        return _equal_code(_code(left), _code(right), is_negative)

    def _in(self, node: FunctionCall) -> Planned:
        left, right = (self._plan(part) for part in node.arguments)
        ids = [overload.id for overload in node.overloads]
        if ids == ["in_list"] and isinstance(right, Constant):
            values = right.value
            assert isinstance(values, tuple)
            if not values:
                return Constant(False)
            if all(type(value) in _PRIMITIVES for value in values):
                return _member_code(_code(left), values)
        cost = node.overloads[0].cost if len(ids) == 1 else None
        return call_code(operators.contains, [_code(left), _code(right)], cost, is_strict_in_order=False)

    def _or(self, node: FunctionCall) -> Planned:
        assert node.target is not None
        optional = self.code(node.target)
        other = self.code(node.arguments[0])
        is_value = node.function == "orValue"

        def code(frame: Frame) -> Value:
            value = optional(frame)
            if type(value) is not Optional:
                return value if type(value) is CelError else NO_SUCH_OVERLOAD
            if value is NONE:
                return other(frame)
            return value.value if is_value else value

        return code

    def _add(self, node: FunctionCall) -> Planned:
        left, right = node.arguments
        if isinstance(left, Ident) and left.name == ACCUMULATOR and isinstance(right, ListLiteral):
            return append_code(self._number(ACCUMULATOR), self.code(right))
        cost = node.overloads[0].cost if len(node.overloads) == 1 else None
        return call_code(operators.add, [self.code(left), self.code(right)], cost, is_strict_in_order=False)

    def _insert(self, node: FunctionCall) -> Planned:
        if len(node.arguments) == 3:
            _, key, value = node.arguments
            return insert_code(self._number(ACCUMULATOR), self.code(key), self.code(value))
        function = dispatcher(node.function, self._functions[node.function], 2)
        codes = [self.code(part) for part in node.arguments]
        return call_code(function, codes, None, is_strict_in_order=len(node.overloads) != 1)

    def _number(self, name: str) -> int:
        return next(number for local, number in reversed(self._numbers) if local == name)

    def _list(self, node: ListLiteral) -> Planned:
        planned = [self._plan(element) for element in node.elements]
        if not node.optionals and all(isinstance(element, Constant) for element in planned):
            return Constant(tuple(element.value for element in planned if isinstance(element, Constant)))
        code = _list_code(tuple(_code(element) for element in planned), node.optionals)
        if node.optionals and all(isinstance(element, Constant) for element in planned):
            return _folded(code)
        return code

    def _map(self, node: MapLiteral) -> Planned:
        planned = [(self._plan(key), self._plan(value), is_optional) for key, value, is_optional in node.entries]
        code = _map_code(tuple((_code(key), _code(value), optional) for key, value, optional in planned))
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in planned):
            return _folded(code)
        return code

    def _comprehension(self, node: Comprehension) -> Planned:
        if isinstance(node.range, ListLiteral) and not node.range.elements and isinstance(node.condition, Literal):
            return self._let(node)
        initial = self._initial(node)
        range_code = self.code(node.range)
        numbers = [self._declare(node.accumulator), self._declare(node.variable)]
        numbers.append(self._declare(node.variable2) if node.variable2 else -1)
        is_endless = isinstance(node.condition, Literal) and node.condition.value is True
        condition = None if is_endless else self.code(node.condition)
        step = self.code(node.step)
        for _ in range(1 + bool(node.variable2)):
            self._forget()
        result = self.code(node.result)
        self._forget()
        accumulator, first, second = numbers
        return loop_code(Loop(range_code, (accumulator, first, second), initial, condition, step, result))

    def _initial(self, node: Comprehension) -> Code:
        """Return the code of the initial value; empty lists and maps are collected in place."""
        if isinstance(node.initial, ListLiteral) and not node.initial.elements:
            return new_list
        if isinstance(node.initial, MapLiteral) and not node.initial.entries:
            return new_map
        return self.code(node.initial)

    def _let(self, node: Comprehension) -> Planned:
        """Plan a comprehension without iterations. Its accumulator is evaluated at the first use, or never."""
        initial = self.code(node.initial)
        number = self._declare(node.accumulator)
        self._locals[-1] = (node.accumulator, _lazy_code(number, initial))
        result = self.code(node.result)
        self._forget()

        def code(frame: Frame) -> Value:
            frame.variables[number] = _UNSET
            return result(frame)

        return code

    def _declare(self, name: str) -> int:
        number = self.variables
        self.variables += 1
        self._locals.append((name, _variable_code(number)))
        self._numbers.append((name, number))
        return number

    def _forget(self) -> None:
        self._locals.pop()
        self._numbers.pop()


_SPECIAL: Final[dict[str, Callable[[Planner, FunctionCall], Planned]]] = {
    "_&&_": Planner._logic,
    "_||_": Planner._logic,
    "_?_:_": Planner._ternary,
    "_==_": Planner._equal,
    "_!=_": Planner._equal,
    "_[_]": Planner._index,
    "_[?_]": Planner._index,
    "_?._": Planner._index,
    "@in": Planner._in,
    "or": Planner._or,
    "orValue": Planner._or,
    "_+_": Planner._add,
    "cel.@mapInsert": Planner._insert,
}


def _device(frame: Frame) -> Value:
    return frame.device


def _variable_code(number: int) -> Code:
    return lambda frame: frame.variables[number]


def _lazy_code(number: int, initial: Code) -> Code:
    def code(frame: Frame) -> Value:
        value = frame.variables[number]
        if value is _UNSET:
            value = frame.variables[number] = initial(frame)
        return value

    return code


def _code(planned: Planned) -> Code:
    if isinstance(planned, Attribute | Ternary):
        return planned.code()
    if isinstance(planned, Constant):
        value = planned.value
        return lambda _frame: value
    return planned


def _converted(value: Value) -> Constant:
    """Return a conversion of a constant, which cel-go does when it builds the program."""
    if isinstance(value, CelError):
        raise CelSyntaxError(f"program instantiation failed: {value.message}")
    return Constant(value)


def _folded(code: Code) -> Planned:
    """Return the constant of a literal of constants. An error stays a constant, too."""
    return Constant(code(Frame(CelMap({}), 0, 0)))


def _with_pattern(function: Function, pattern: str) -> Function:
    """Return a function whose pattern is compiled with the program: cel-go drops the checks of types by that."""
    regex = compile_regex(pattern)
    if isinstance(regex, str):
        raise CelSyntaxError(f"program instantiation failed: {regex}")

    def call(text: Value, *rest: Value) -> Value:
        if type(text) is not str or any(type(count) is not int for count in rest[1:]):
            return NO_SUCH_OVERLOAD
        return function(text, *rest)

    return call


def _logic_code(codes: tuple[Code, ...], end: bool) -> Code:
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


def _equal_code(left: Code, right: Code, is_negative: bool) -> Code:
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


def _equal_text_code(left: Code, text: str, is_negative: bool) -> Code:
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


def _member_code(value: Code, elements: tuple[Value, ...]) -> Code:
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
        return for_numbers and type(a) in _PRIMITIVES and any(equals(a, element) is True for element in elements)

    return code


def _list_code(codes: tuple[Code, ...], optionals: frozenset[int]) -> Code:
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


def _map_code(codes: tuple[tuple[Code, Code, bool], ...]) -> Code:
    def code(frame: Frame) -> Value:
        entries: dict[object, Value] = {}
        frame.cost += MAP_COST
        for key_code, value_code, is_optional in codes:
            key = key_code(frame)
            if type(key) is CelError:
                return key
            value = value_code(frame)
            if type(value) is CelError:
                return value
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

    return code
