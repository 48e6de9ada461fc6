"""Checks of literals after the type check (cel-go's `cel/validator.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.format_check import check_format
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
    """Report invalid durations, timestamps, patterns and formats, and lists and maps of several types."""

    def type_of_node(node: Expr) -> CelType:
        return inference.substitute(node.type, unbound_to_dyn=True)

    # Arguments of string.format may be of several types.
    pending = [(tree, False)]
    while pending:
        node, is_exempt = pending.pop()
        if isinstance(node, FunctionCall):
            is_exempt = is_exempt or node.function == "format"
            _check_call(node, type_of_node, issues)
        elif isinstance(node, ListLiteral) and not is_exempt:
            elements = [(element, index in node.optionals) for index, element in enumerate(node.elements)]
            _check_types(elements, type_of_node, issues, only_first=True)
        elif isinstance(node, MapLiteral) and not is_exempt:
            _check_types([(key, False) for key, _, _ in node.entries], type_of_node, issues)
            _check_types([(value, optional) for _, value, optional in node.entries], type_of_node, issues)
        pending += [(child, is_exempt) for child in reversed(children(node))]


def _check_call(node: FunctionCall, type_of_node: Callable[[Expr], CelType], issues: Issues) -> None:
    test = _LITERALS.get(node.function)
    if test is not None and node.arguments:
        argument = node.arguments[0]
        if isinstance(argument, Literal) and not test(argument.value):
            issues.report(argument.offset, f"invalid {node.function} argument")
    elif node.function == "format":
        check_format(node, type_of_node, issues)


def _check_types(
    parts: list[tuple[Expr, bool]],
    type_of_node: Callable[[Expr], CelType],
    issues: Issues,
    only_first: bool = False,
) -> None:
    expected: CelType | None = None
    for part, is_optional_part in parts:
        kind = type_of_node(part)
        if is_optional_part and is_optional(kind):
            kind = kind.parameters[0]
        if expected is None:
            expected = kind
        elif not is_equivalent(expected, kind):
            issues.report(part.offset, f"expected type '{format_type(expected)}' but found '{format_type(kind)}'")
            if only_first:
                return
