"""Type checker (cel-go's `checker/checker.go`): sets the types of a syntax tree and the overloads of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyscheduler.cel.functions.registry import Library, Overload
from pyscheduler.cel.inference import (
    Inference,
    TypeTooLargeError,
    check_size,
    format_type,
    is_dyn,
    is_optional,
    most_general,
)
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
    qualified_name,
)
from pyscheduler.cel.types import BOOL, DYN, ERROR, INT, CelType, list_of, map_of, optional_of, type_of_type
from pyscheduler.cel.values import type_of

_LOGIC: Final = ("_&&_", "_||_")


class Declarations:
    """Variables with their types, fields of messages, names of types, and functions."""

    def __init__(
        self,
        variables: Mapping[str, CelType],
        fields: Mapping[str, Mapping[str, CelType]],
        types: Mapping[str, CelType],
        functions: Library,
    ) -> None:
        self.variables = variables
        self.fields = fields
        self.types = types
        self.functions = functions


def check(tree: Expr, declarations: Declarations, issues: Issues) -> Inference:
    """Set the types of the tree and report what does not fit. The result has what type parameters stand for."""
    checker = _Checker(declarations, issues)
    try:
        checker.check(tree)
    except TypeTooLargeError:
        issues.report(tree.offset, "type of an expression is too large")
    return checker.inference


class _Checker:
    def __init__(self, declarations: Declarations, issues: Issues) -> None:
        self.inference = Inference()
        self._declarations = declarations
        self._report = issues.report
        self._locals: list[tuple[str, CelType]] = []

    def check(self, node: Expr) -> None:
        match node:
            case Literal():
                node.type = type_of(node.value)
            case Ident():
                self._ident(node)
            case Select():
                self._select(node)
            case FunctionCall():
                self._call(node)
            case ListLiteral():
                self._list(node)
            case MapLiteral():
                self._map(node)
            case StructLiteral():
                self._struct(node)
            case Comprehension():
                self._comprehension(node)

    def _undeclared(self, node: Expr, name: str) -> None:
        self._report(node.offset, f"undeclared reference to '{name}' (in container '')")
        node.type = ERROR

    def _mismatch(self, node: Expr, expected: CelType, actual: CelType) -> None:
        self._report(node.offset, f"expected type '{format_type(expected)}' but found '{format_type(actual)}'")

    def _local(self, name: str) -> CelType | None:
        return next((kind for local, kind in reversed(self._locals) if local == name), None)

    def _ident(self, node: Ident) -> None:
        local = self._local(node.name)
        if local is not None:
            node.type = local
            return
        name = node.name.removeprefix(".")
        if name in self._declarations.variables:
            node.type = self._declarations.variables[name]
        elif name in self._declarations.types:
            node.constant = self._declarations.types[name]
            node.type = type_of_type(node.constant)
        else:
            self._undeclared(node, node.name)

    def _select(self, node: Select) -> None:
        name = None if node.is_test else qualified_name(node)
        if name is not None and self._local(name.split(".", 1)[0]) is None:
            constant = self._declarations.types.get(name.removeprefix("."))
            if constant is not None:
                node.constant = constant
                node.type = type_of_type(constant)
                return
        kind = self._field(node, node.operand, node.field)
        node.type = BOOL if node.is_test else self.inference.substitute(kind)

    def _field(self, node: Expr, operand: Expr, field: str, is_optional_select: bool = False) -> CelType:
        """Return the type of a field of an operand."""
        self.check(operand)
        target = self.inference.substitute(operand.type)
        is_wrapped = is_optional(target)
        if is_wrapped:
            target = target.parameters[0]
        result = DYN
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "struct":
            result = self._message_field(node, target.name, field)
        elif target.kind == "type_param":
            self.inference.is_assignable(DYN, target)
        elif not is_dyn(target) and target.kind != "error":
            self._report(node.offset, f"type '{format_type(target)}' does not support field selection")
        return optional_of(result) if is_wrapped or is_optional_select else result

    def _message_field(self, node: Expr, message: str, field: str) -> CelType:
        fields = self._declarations.fields.get(message)
        if fields is None:
            self._report(node.offset, f"unexpected failed resolution of '{message}'")
        elif field in fields:
            return fields[field]
        else:
            self._report(node.offset, f"undefined field '{field}'")
        return ERROR

    def _call(self, node: FunctionCall) -> None:
        if node.function == "_?._":
            operand, field = node.arguments
            assert isinstance(field, Literal)
            assert isinstance(field.value, str)
            node.type = self.inference.substitute(self._field(node, operand, field.value, is_optional_select=True))
            return
        for argument in node.arguments:
            self.check(argument)
        functions = self._declarations.functions
        name = node.function.removeprefix(".")
        if node.target is not None:
            prefix = qualified_name(node.target)
            qualified = None if prefix is None else f"{prefix}.{node.function}".removeprefix(".")
            if qualified is not None and qualified in functions:
                node.target = None
                name = qualified
            else:
                self.check(node.target)
        if name not in functions:
            self._undeclared(node, node.function)
            return
        node.function = name
        if name in _LOGIC:
            self._logic(node)
        else:
            self._resolve(node, functions[name])

    def _logic(self, node: FunctionCall) -> None:
        node.type = BOOL
        for argument in node.arguments:
            if not self.inference.is_assignable(argument.type, BOOL):
                self._mismatch(argument, BOOL, argument.type)
                node.type = ERROR

    def _resolve(self, node: FunctionCall, overloads: Sequence[Overload]) -> None:
        """Set the overloads that fit, and the type of the first, or `dyn` if they differ."""
        is_member = node.target is not None
        kinds = [part.type for part in ([node.target] if node.target is not None else []) + node.arguments]
        fitting: list[Overload] = []
        result: CelType | None = None
        for overload in overloads:
            if overload.is_member != is_member or len(overload.arguments) != len(kinds):
                continue
            declared, *parameters = self.inference.instantiate((overload.result, *overload.arguments))
            if not self.inference.all_assignable(kinds, parameters):
                continue
            fitting.append(overload)
            kind = self.inference.substitute(declared)
            if result is None:
                result = kind
            elif not is_dyn(result) and kind != result:
                result = DYN
        if result is None:
            names = [format_type(self.inference.substitute(kind, unbound_to_dyn=True)) for kind in kinds]
            target = f"{names.pop(0)}." if is_member else ""
            signature = f"{target}({', '.join(names)})"
            self._report(node.offset, f"found no matching overload for '{node.function}' applied to '{signature}'")
            node.type = ERROR
            return
        node.overloads = tuple(fitting)
        node.type = result

    def _join(self, before: CelType | None, kind: CelType) -> CelType:
        """Return the type of the entries of a literal. That they agree is checked by `validators.py`."""
        if before is None:
            return kind
        return most_general(before, kind) if self.inference.is_assignable(before, kind) else DYN

    def _unwrapped(self, node: Expr) -> CelType:
        """Return the type of the value of an optional entry."""
        if is_optional(node.type):
            return node.type.parameters[0]
        if not is_dyn(node.type):
            self._mismatch(node, optional_of(node.type), node.type)
        return node.type

    def _list(self, node: ListLiteral) -> None:
        kind: CelType | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            kind = self._join(kind, self._unwrapped(element) if index in node.optionals else element.type)
        node.type = check_size(list_of(self.inference.new_parameter() if kind is None else kind))

    def _map(self, node: MapLiteral) -> None:
        key_kind: CelType | None = None
        value_kind: CelType | None = None
        for key, value, is_optional_entry in node.entries:
            self.check(key)
            key_kind = self._join(key_kind, key.type)
            self.check(value)
            value_kind = self._join(value_kind, self._unwrapped(value) if is_optional_entry else value.type)
        if key_kind is None or value_kind is None:
            key_kind, value_kind = self.inference.new_parameter(), self.inference.new_parameter()
        node.type = check_size(map_of(key_kind, value_kind))

    def _struct(self, node: StructLiteral) -> None:
        name = node.name.removeprefix(".")
        if name in self._declarations.types or name in self._declarations.fields:
            self._report(node.offset, f"'{name}' is not a message type")
            node.type = ERROR
        else:
            self._undeclared(node, node.name)

    def _comprehension(self, node: Comprehension) -> None:
        self.check(node.range)
        self.check(node.initial)
        range_kind = self.inference.substitute(node.range.type)
        accumulator = node.initial.type
        self._locals.append((node.accumulator, accumulator))
        first, second = self._variables(node, range_kind)
        depth = len(self._locals)
        self._locals.append((node.variable, first))
        if node.variable2:
            self._locals.append((node.variable2, second))
        self.check(node.condition)
        self._assert(node.condition, BOOL)
        self.check(node.step)
        self._assert(node.step, accumulator)
        del self._locals[depth:]
        self.check(node.result)
        self._locals.pop()
        node.type = self.inference.substitute(node.result.type)

    def _variables(self, node: Comprehension, kind: CelType) -> tuple[CelType, CelType]:
        """Return the types of the variables; the second counts for two variables only."""
        if kind.kind == "list":
            return (INT, kind.parameters[0]) if node.variable2 else (kind.parameters[0], ERROR)
        if kind.kind == "map":
            return kind.parameters[0], kind.parameters[1]
        if is_dyn(kind) or kind.kind in ("error", "type_param"):
            self.inference.is_assignable(DYN, kind)
            return DYN, DYN
        name = format_type(kind)
        message = f"expression of type '{name}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._report(node.range.offset, message)
        return ERROR, ERROR

    def _assert(self, node: Expr, kind: CelType) -> None:
        if not self.inference.is_assignable(kind, node.type):
            self._mismatch(node, kind, node.type)
