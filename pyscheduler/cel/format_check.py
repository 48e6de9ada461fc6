"""Static check of `"literal".format([...])` (cel-go's `stringFormatValidator`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.functions.string_format import Clause, FormatError, clause_error, interpolate
from pyscheduler.cel.source import Issues
from pyscheduler.cel.syntax import Expr, FunctionCall, ListLiteral, Literal, MapLiteral
from pyscheduler.cel.types import CelType

_KINDS: Final = {
    "s": frozenset(["list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"]),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "x": frozenset(("int", "uint", "string", "bytes")),
    "o": frozenset(("int", "uint")),
}
"""Kinds of types that a clause accepts; X is as x."""


def check_format(call: FunctionCall, type_of_node: Callable[[Expr], CelType], issues: Issues) -> None:
    """Report a clause that is invalid or does not fit its argument, and arguments without a clause."""
    text, arguments = call.target, call.arguments[0] if len(call.arguments) == 1 else None
    if not isinstance(text, Literal) or not isinstance(text.value, str) or not isinstance(arguments, ListLiteral):
        return
    used = 0
    offset = call.offset

    def formatter(clause: Clause, index: int) -> str:
        nonlocal used, offset
        used += 1
        bad = _first_bad(clause.letter.lower(), arguments.elements[index], type_of_node)
        if bad is not None:
            offset = bad.offset
            raise clause_error(clause.letter, type_of_node(bad).name)
        return ""

    try:
        interpolate(text.value, len(arguments.elements), formatter)
    except FormatError as error:
        issues.report(offset, str(error))
        return
    if len(arguments.elements) > used:
        counts = f"(expected {used}, got {len(arguments.elements)})"
        issues.report(call.offset, f"too many arguments supplied to string.format {counts}")


def _first_bad(letter: str, node: Expr, type_of_node: Callable[[Expr], CelType]) -> Expr | None:
    """Return the argument if its type does not fit, or for %s the first such part of a literal."""
    kind = type_of_node(node).kind
    if kind != "dyn" and kind not in _KINDS[letter]:
        return node
    if letter != "s":
        return None
    parts: list[Expr] = []
    if isinstance(node, ListLiteral):
        parts = node.elements
    elif isinstance(node, MapLiteral):
        parts = [part for key, value, _ in node.entries for part in (key, value)]
    return next((bad for part in parts if (bad := _first_bad(letter, part, type_of_node)) is not None), None)
