"""Macros: calls that become comprehensions (cel-go's `parser/macro.go`, `ext/comprehensions.go`, `ext/bindings.go`,
`ext/lists.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pyscheduler.cel.source import Issues
from pyscheduler.cel.syntax import (
    Comprehension,
    Expr,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    children,
)
from pyscheduler.cel.values import Value

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
_UNUSED: Final = "#unused"
_SORTED: Final = "@__sortBy_input__"
MAX_COPIED_NODES: Final = 20_000
"""Nodes that the macros of one expression may copy: each `optMap` doubles its target, so a chain would grow without
bound."""


class MacroError(Exception):
    """A macro with wrong arguments, and the offset of the argument at fault."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class ExpressionTooLargeError(Exception):
    """An expression whose macros copy more than MAX_COPIED_NODES."""


_Expander: TypeAlias = Callable[[FunctionCall], Expr | None]


class CopyBudget:
    """Nodes that macros may still copy."""

    def __init__(self) -> None:
        self.left = MAX_COPIED_NODES

    def spend(self, tree: Expr) -> None:
        """Count the nodes of a tree; raise ExpressionTooLargeError above the limit."""
        pending = [tree]
        while pending:
            pending += children(pending.pop())
            self.left -= 1
            if self.left < 0:
                raise ExpressionTooLargeError


def expand(call: FunctionCall, issues: Issues, budget: CopyBudget) -> Expr:
    """Return the expansion of a call, or the call if it is none of a macro."""
    if call.target is not None and call.function in ("optMap", "optFlatMap"):
        budget.spend(call.target)
    key = (call.function, len(call.arguments), call.target is not None)
    expander = _MACROS.get(key)
    if expander is None:
        return call
    try:
        return expander(call) or call
    except MacroError as error:
        issues.report(error.offset, str(error))
        return call


def _has(call: FunctionCall) -> Expr:
    argument = call.arguments[0]
    if not isinstance(argument, Select):
        raise MacroError(argument.offset, "invalid argument to has() macro")
    return Select(call.offset, argument.operand, argument.field, is_test=True)


def _variables(call: FunctionCall, count: int, message: str) -> tuple[str, str]:
    """Return the names of one or two variables, the second is "" if there is one."""
    names: list[str] = []
    for argument in call.arguments[:count]:
        if not isinstance(argument, Ident):
            raise MacroError(argument.offset, message)
        names.append(argument.name)
    if count == 2 and names[0] == names[1]:
        raise MacroError(call.arguments[1].offset, f"duplicate variable name: {names[0]}")
    for name, argument in zip(names, call.arguments, strict=False):
        if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise MacroError(argument.offset, "iteration variable overwrites accumulator variable")
    return names[0], names[1] if count == 2 else ""


class _NodeFactory:
    """Builds nodes at the place of a macro."""

    def __init__(self, call: FunctionCall) -> None:
        self._offset = call.offset
        assert call.target is not None
        self._target = call.target

    def literal(self, value: Value) -> Expr:
        return Literal(self._offset, value)

    def result(self) -> Expr:
        return Ident(self._offset, ACCUMULATOR)

    def call(self, function: str, *arguments: Expr) -> Expr:
        return FunctionCall(self._offset, function, None, list(arguments))

    def append(self, element: Expr) -> Expr:
        return self.call("_+_", self.result(), ListLiteral(self._offset, [element]))

    def when(self, predicate: Expr | None, step: Expr) -> Expr:
        return step if predicate is None else self.call("_?_:_", predicate, step, self.result())

    def loop(self, variables: tuple[str, str], initial: Expr, condition: Expr, step: Expr, result: Expr) -> Expr:
        body = (initial, condition, step, result)
        return Comprehension(self._offset, self._target, variables, ACCUMULATOR, body)

    def collect(self, variables: tuple[str, str], initial: Expr, step: Expr) -> Expr:
        return self.loop(variables, initial, self.literal(True), step, self.result())

    def list(self) -> Expr:
        return ListLiteral(self._offset, [])

    def map(self) -> Expr:
        return MapLiteral(self._offset, [])


def _all(count: int) -> _Expander:
    def build(call: FunctionCall) -> Expr:
        variables = _variables(call, count, "argument must be a simple name")
        new = _NodeFactory(call)
        condition = new.call("@not_strictly_false", new.result())
        step = new.call("_&&_", new.result(), call.arguments[count])
        return new.loop(variables, new.literal(True), condition, step, new.result())

    return build


def _exists(count: int) -> _Expander:
    def build(call: FunctionCall) -> Expr:
        variables = _variables(call, count, "argument must be a simple name")
        new = _NodeFactory(call)
        condition = new.call("@not_strictly_false", new.call("!_", new.result()))
        step = new.call("_||_", new.result(), call.arguments[count])
        return new.loop(variables, new.literal(False), condition, step, new.result())

    return build


def _exists_one(count: int) -> _Expander:
    def build(call: FunctionCall) -> Expr:
        variables = _variables(call, count, "argument must be a simple name")
        new = _NodeFactory(call)
        step = new.when(call.arguments[count], new.call("_+_", new.result(), new.literal(1)))
        result = new.call("_==_", new.result(), new.literal(1))
        return new.loop(variables, new.literal(0), new.literal(True), step, result)

    return build


def _filter(call: FunctionCall) -> Expr:
    variables = _variables(call, 1, "argument is not an identifier")
    new = _NodeFactory(call)
    return new.collect(variables, new.list(), new.when(call.arguments[1], new.append(call.arguments[0])))


def _map(call: FunctionCall) -> Expr:
    variables = _variables(call, 1, "argument is not an identifier")
    new = _NodeFactory(call)
    *predicate, transform = call.arguments[1:]
    return new.collect(variables, new.list(), new.when(predicate[0] if predicate else None, new.append(transform)))


def _transform_list(call: FunctionCall) -> Expr:
    variables = _variables(call, 2, "argument must be a simple name")
    new = _NodeFactory(call)
    *predicate, transform = call.arguments[2:]
    return new.collect(variables, new.list(), new.when(predicate[0] if predicate else None, new.append(transform)))


def _transform_map(call: FunctionCall) -> Expr:
    variables = _variables(call, 2, "argument must be a simple name")
    new = _NodeFactory(call)
    *predicate, transform = call.arguments[2:]
    insert = new.call("cel.@mapInsert", new.result(), Ident(call.offset, variables[0]), transform)
    return new.collect(variables, new.map(), new.when(predicate[0] if predicate else None, insert))


def _transform_map_entry(call: FunctionCall) -> Expr:
    variables = _variables(call, 2, "argument must be a simple name")
    new = _NodeFactory(call)
    *predicate, transform = call.arguments[2:]
    insert = new.call("cel.@mapInsert", new.result(), transform)
    return new.collect(variables, new.map(), new.when(predicate[0] if predicate else None, insert))


def _let(offset: int, name: str, value: Expr, result: Expr) -> Expr:
    """Return a comprehension without iterations: its accumulator is a variable of the result."""
    body = (value, Literal(offset, False), Ident(offset, name), result)
    return Comprehension(offset, ListLiteral(offset, []), (_UNUSED, ""), name, body)


def _bind(call: FunctionCall) -> Expr | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    variable, value, result = call.arguments
    if not isinstance(variable, Ident):
        raise MacroError(variable.offset, "cel.bind() variable names must be simple identifiers")
    return _let(call.offset, variable.name, value, result)


def _opt_map(call: FunctionCall) -> Expr:
    return _on_value(call, "optMap", lambda value: FunctionCall(call.offset, "optional.of", None, [value]))


def _opt_flat_map(call: FunctionCall) -> Expr:
    return _on_value(call, "optFlatMap", lambda value: value)


def _on_value(call: FunctionCall, name: str, wrap: Callable[[Expr], Expr]) -> Expr:
    """Return `target.hasValue() ? wrap(expression) : optional.none()`."""
    variable, expression = call.arguments
    if not isinstance(variable, Ident):
        raise MacroError(variable.offset, f"{name}() variable name must be a simple identifier")
    assert call.target is not None
    has_value = FunctionCall(call.offset, "hasValue", call.target, [])
    value = FunctionCall(call.offset, "value", _copy(call.target), [])
    none = FunctionCall(call.offset, "optional.none", None, [])
    found = wrap(_let(call.offset, variable.name, value, expression))
    return FunctionCall(call.offset, "_?_:_", None, [has_value, found, none])


def _sort_by(call: FunctionCall) -> Expr:
    assert call.target is not None
    if not isinstance(call.target, ListLiteral | Select | Ident | Comprehension | FunctionCall):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(call.target.offset, message)
    keys = _map(FunctionCall(call.offset, "map", Ident(call.offset, _SORTED), call.arguments))
    result = FunctionCall(call.offset, "@sortByAssociatedKeys", Ident(call.offset, _SORTED), [keys])
    return _let(call.offset, _SORTED, call.target, result)


def _copy(node: Expr) -> Expr:
    """Return a copy of a tree, whose nodes the checker describes on their own."""
    match node:
        case Literal():
            return Literal(node.offset, node.value)
        case Ident():
            return Ident(node.offset, node.name)
        case Select():
            return Select(node.offset, _copy(node.operand), node.field, node.is_test)
        case FunctionCall():
            target = None if node.target is None else _copy(node.target)
            return FunctionCall(node.offset, node.function, target, [_copy(part) for part in node.arguments])
        case ListLiteral():
            return ListLiteral(node.offset, [_copy(part) for part in node.elements], node.optionals)
        case MapLiteral():
            entries = [(_copy(key), _copy(value), optional) for key, value, optional in node.entries]
            return MapLiteral(node.offset, entries)
        case StructLiteral():
            return StructLiteral(node.offset, node.name)
        case Comprehension():
            parts = (node.initial, node.condition, node.step, node.result)
            initial, condition, step, result = map(_copy, parts)
            variables = (node.variable, node.variable2)
            body = (initial, condition, step, result)
            return Comprehension(node.offset, _copy(node.range), variables, node.accumulator, body)


_MACROS: Final[dict[tuple[str, int, bool], _Expander]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(1),
    ("all", 3, True): _all(2),
    ("exists", 2, True): _exists(1),
    ("exists", 3, True): _exists(2),
    ("exists_one", 2, True): _exists_one(1),
    ("exists_one", 3, True): _exists_one(2),
    ("existsOne", 3, True): _exists_one(2),
    ("filter", 2, True): _filter,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("sortBy", 2, True): _sort_by,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
}
"""Expanders by the name, the number of arguments, and whether there is a target."""
