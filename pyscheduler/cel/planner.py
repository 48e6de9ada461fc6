"""Syntax tree to closures (cel-go's `interpreter/planner.go` with its optimizations, which the cost depends on)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyscheduler.cel.attributes import (
    AnyAttribute,
    Attribute,
    ComputedSelector,
    Constant,
    KeySelector,
    Ternary,
    go_type,
)
from pyscheduler.cel.calls import Function, call_code, dispatcher, list_function
from pyscheduler.cel.environment import UNDEFINED_TYPES
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions import operators
from pyscheduler.cel.functions.costs import InternalError
from pyscheduler.cel.functions.kubernetes import FUNCTION_COSTS
from pyscheduler.cel.functions.registry import Library
from pyscheduler.cel.functions.standard import LIST_SINGLETONS, UNGUARDED
from pyscheduler.cel.loops import ComprehensionCode, append_code, insert_code, loop_code, new_list, new_map
from pyscheduler.cel.macros import ACCUMULATOR
from pyscheduler.cel.operator_code import (
    PRIMITIVES,
    equal_code,
    equal_text_code,
    list_code,
    logic_code,
    map_code,
    member_code,
)
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
    qualified_name,
)
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    CelMap,
    Optional,
    Value,
)

Planned: TypeAlias = Constant | Attribute | Ternary | Code
_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_PATTERNS: Final = ("matches", "find", "findAll")
"""Functions whose second argument is a pattern; a constant one is compiled with the program."""


class _Unset:
    """A variable of `cel.bind` that is not evaluated yet."""


_UNSET: Final = _Unset()


class Planner:
    """Turns one tree into code; the variables of its comprehensions get numbers."""

    def __init__(self, functions: Library, variables: Mapping[str, Code] | None = None) -> None:
        """Plan with `functions`; `variables` replace the variable `device`."""
        self._functions, self._global = functions, variables
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
                return self._variable(node.name) if node.constant is None else _type(node.name, node.constant)
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
        if self._global is not None:
            return Attribute(self._global[name.removeprefix(".")])
        is_hidden = any(local == name.removeprefix(".") for local, _ in self._locals)
        return Attribute(_device, is_device=not is_hidden, is_counted=not is_hidden)

    def _attribute(self, node: Expr) -> AnyAttribute:
        """Return the attribute that a node is, or that selectors behind its value make of it."""
        planned = self._plan(node)
        return planned if isinstance(planned, Attribute | Ternary) else Attribute(_code(planned))

    def _select(self, node: Select) -> Planned:
        if node.constant is not None:
            return _type(qualified_name(node) or "", node.constant)
        attribute = self._attribute(node.operand)
        attribute.add(KeySelector(node.field, is_optional=False, is_test=node.is_test))
        attribute.is_test = attribute.is_test or node.is_test
        return attribute

    def _index(self, node: FunctionCall) -> Planned:
        operand, index = node.arguments
        attribute = self._attribute(operand)
        is_optional = node.function != "_[_]"
        planned = self._plan(index)
        if isinstance(planned, Constant):
            if type(planned.value) not in PRIMITIVES:
                raise CelSyntaxError(f"program instantiation failed: invalid qualifier type: {go_type(planned.value)}")
            attribute.add(KeySelector(planned.value, is_optional))
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
        # Functions that cel-go dispatches at run time or binds without regard to the number of arguments.
        is_strict_in_order = name == "format" or not (is_resolved or name in UNGUARDED or name in LIST_SINGLETONS)
        return call_code(function, codes, cost, is_strict_in_order)

    def _logic(self, node: FunctionCall) -> Planned:
        codes = tuple(self.code(part) for part in node.arguments)
        return logic_code(codes, node.function == "_||_")

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
            return equal_text_code(_code(left), right.value, is_negative)
        return equal_code(_code(left), _code(right), is_negative)

    def _in(self, node: FunctionCall) -> Planned:
        left, right = (self._plan(part) for part in node.arguments)
        ids = [overload.id for overload in node.overloads]
        if ids == ["in_list"] and isinstance(right, Constant):
            values = right.value
            assert isinstance(values, tuple)
            if not values:
                return Constant(False)
            if all(type(value) in PRIMITIVES for value in values):
                return member_code(_code(left), values)
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
        code = list_code(tuple(_code(element) for element in planned), node.optionals)
        if node.optionals and all(isinstance(element, Constant) for element in planned):
            return _folded(code)
        return code

    def _map(self, node: MapLiteral) -> Planned:
        planned = [(self._plan(key), self._plan(value), is_optional) for key, value, is_optional in node.entries]
        code = map_code(tuple((_code(key), _code(value), optional) for key, value, optional in planned))
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in planned):
            return _folded(code)
        return code

    def _comprehension(self, node: Comprehension) -> Planned:
        is_empty = isinstance(node.range, ListLiteral) and not node.range.elements
        if is_empty and isinstance(node.condition, Literal) and node.condition.value is False:
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
        return loop_code(ComprehensionCode(range_code, (accumulator, first, second), initial, condition, step, result))

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


def _type(name: str, kind: CelType) -> Constant:
    if name.removeprefix(".") in UNDEFINED_TYPES:
        raise CelSyntaxError(f"program instantiation failed: reference to undefined type: {name}")
    return Constant(kind)


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
    try:
        return Constant(code(Frame(CelMap({}), 0, 0)))
    except InternalError as error:
        raise CelSyntaxError(f"program instantiation failed: {error}") from None


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
