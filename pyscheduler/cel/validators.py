"""Checks of literals after the type check (cel-go's `cel/validator.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyscheduler.cel.functions.conversions import to_duration, to_timestamp
from pyscheduler.cel.inference import Inference, format_type, is_equivalent, is_optional
from pyscheduler.cel.regex import compile_regex
from pyscheduler.cel.source import Issues
from pyscheduler.cel.syntax import Expr, FunctionCall, ListLiteral, Literal, MapLiteral, children
from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import CelError, Value


def _is_pattern(value: Value) -> bool:
    return not isinstance(value, str) or not isinstance(compile_regex(value), str)


_LITERALS: Final[dict[str, Callable[[Value], bool]]] = {
    "duration": lambda value: not isinstance(to_duration(value), CelError),
    "timestamp": lambda value: not isinstance(to_timestamp(value), CelError),
    "matches": _is_pattern,
}
"""Tests of the first argument, if it is a literal. That of `matches(text, pattern)` is the text, as in cel-go."""


def validate(tree: Expr, inference: Inference, issues: Issues) -> None:
    """Report invalid durations, timestamps and patterns, and lists and maps of several types."""
    for node in _nodes(tree):
        if isinstance(node, FunctionCall) and node.function in _LITERALS and node.arguments:
            argument = node.arguments[0]
            if isinstance(argument, Literal) and not _LITERALS[node.function](argument.value):
                issues.report(argument.offset, f"invalid {node.function} argument")
        elif isinstance(node, ListLiteral):
            elements = [(element, index in node.optionals) for index, element in enumerate(node.elements)]
            _check_types(elements, inference, issues, only_first=True)
        elif isinstance(node, MapLiteral):
            _check_types([(key, False) for key, _, _ in node.entries], inference, issues)
            _check_types([(value, optional) for _, value, optional in node.entries], inference, issues)


def _nodes(tree: Expr) -> Iterator[Expr]:
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(children(node))


def _check_types(
    parts: list[tuple[Expr, bool]], inference: Inference, issues: Issues, only_first: bool = False
) -> None:
    expected: CelType | None = None
    for part, is_optional_part in parts:
        kind = inference.substitute(part.type, unbound_to_dyn=True)
        if is_optional_part and is_optional(kind):
            kind = kind.parameters[0]
        if expected is None:
            expected = kind
        elif not is_equivalent(expected, kind):
            issues.report(part.offset, f"expected type '{format_type(expected)}' but found '{format_type(kind)}'")
            if only_first:
                return
