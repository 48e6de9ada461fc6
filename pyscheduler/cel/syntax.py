"""Syntax tree of an expression. The checker adds the type of each node, and what names and calls refer to."""

from __future__ import annotations

from typing import TypeAlias

from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.types import ERROR, CelType
from pyscheduler.cel.values import Value


class _SyntaxNode:
    """A node: `offset` is the place in characters that its errors name, which for operators is that of the operator."""

    __slots__ = ("offset", "type")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.type: CelType = ERROR


class Literal(_SyntaxNode):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, offset: int, value: Value) -> None:
        super().__init__(offset)
        self.value = value


class Ident(_SyntaxNode):
    """A name. The checker sets `constant` if it is that of a type."""

    __slots__ = ("constant", "name")

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name
        self.constant: CelType | None = None


class Select(_SyntaxNode):
    """A field of an operand, or with `is_test` its presence. A qualified type name has a `constant`, like `Ident`."""

    __slots__ = ("constant", "field", "is_test", "operand")

    def __init__(self, offset: int, operand: Expr, field: str, is_test: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.is_test = is_test
        self.constant: CelType | None = None


class FunctionCall(_SyntaxNode):
    """A call. The checker sets the overloads that the types allow, and drops a target that is part of the name."""

    __slots__ = ("arguments", "function", "overloads", "target")

    def __init__(self, offset: int, function: str, target: Expr | None, arguments: list[Expr]) -> None:
        super().__init__(offset)
        self.function = function
        self.target = target
        self.arguments = arguments
        self.overloads: tuple[Overload, ...] = ()


class ListLiteral(_SyntaxNode):
    """A list; the elements whose index is in `optionals` are left out if they have no value."""

    __slots__ = ("elements", "optionals")

    def __init__(self, offset: int, elements: list[Expr], optionals: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.elements = elements
        self.optionals = optionals


class MapLiteral(_SyntaxNode):
    """A map of key, value and whether the entry is optional."""

    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[tuple[Expr, Expr, bool]]) -> None:
        super().__init__(offset)
        self.entries = entries


class StructLiteral(_SyntaxNode):
    """A message. No type that selectors can name has fields, so the checker reports each one."""

    __slots__ = ("name",)

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name


class Comprehension(_SyntaxNode):
    """A loop over a list or a map with an accumulator, which macros expand to."""

    __slots__ = ("accumulator", "condition", "initial", "range", "result", "step", "variable", "variable2")

    def __init__(
        self,
        offset: int,
        range: Expr,
        variables: tuple[str, str],
        accumulator: str,
        body: tuple[Expr, Expr, Expr, Expr],
    ) -> None:
        """`body` is the initial value, the condition, the step and the result; `variables` end with "" for one."""
        super().__init__(offset)
        self.range = range
        self.variable, self.variable2 = variables
        self.accumulator = accumulator
        self.initial, self.condition, self.step, self.result = body


Expr: TypeAlias = Literal | Ident | Select | FunctionCall | ListLiteral | MapLiteral | StructLiteral | Comprehension


def children(node: Expr) -> list[Expr]:
    """Return the direct subexpressions in the order of evaluation."""
    match node:
        case Select():
            return [node.operand]
        case FunctionCall():
            return ([node.target] if node.target is not None else []) + node.arguments
        case ListLiteral():
            return list(node.elements)
        case MapLiteral():
            return [part for key, value, _ in node.entries for part in (key, value)]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
        case _:
            return []


def qualified_name(node: Expr) -> str | None:
    """Return the name of a chain of identifiers `a.b.c`, or None for another expression."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(fields)])
