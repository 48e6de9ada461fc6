"""Expressions of a hostile tenant that are too deep or too large to compile; `test_limits.py` has those to evaluate."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from pyscheduler.cel import CelSyntaxError, compile_selector
from tests.unit.cel.devices import DEVICE, evaluate

CANCELLED = "operation cancelled: actual cost limit exceeded"


def nested(depth: int, wrap: Callable[[str, int], str], inner: str) -> str:
    for level in range(depth):
        inner = wrap(inner, level)
    return inner


def doubled(depth: int, double: Callable[[str], str], first: str, result: str) -> str:
    """Return an expression with variables, each of which is twice the one before."""
    expression = result
    for level in reversed(range(depth)):
        expression = f"cel.bind(v{level + 1}, {double(f'v{level}')}, {expression})"
    return f"cel.bind(v0, {first}, {expression})"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("(" * 250 + "true" + ")" * 250, "expression recursion limit exceeded: 250", id="brackets"),
        pytest.param("[" * 5000, "expression recursion limit exceeded: 250", id="open brackets"),
        pytest.param("true ? true : " * 700 + "true", "expression recursion limit exceeded: 250", id="ternaries"),
        pytest.param("+".join("1" * 3000) + " == 1", "max recursion depth exceeded", id="sums"),
        pytest.param("device" + ".a" * 4000, "max recursion depth exceeded", id="selections"),
        pytest.param(nested(600, lambda s, _: f"[1].all(x,{s})", "true"), "recursion", id="macros"),
        pytest.param("optional.of(1)" + ".optMap(x,x)" * 700 + ".hasValue()", "too large", id="macros that copy"),
        pytest.param(doubled(100, lambda v: f"{{{v}: {v}}}", "{1: 1}", "true"), "too large", id="types that double"),
        pytest.param("9" * 10_000 + " == 1", "invalid int literal", id="digits"),
        pytest.param("@" * 10_000, "more errors were truncated", id="errors"),
    ],
)
def test_expression_is_refused(expression: str, text: str) -> None:
    with pytest.raises(CelSyntaxError, match=text):
        compile_selector(expression)


def test_concatenation_in_a_loop_is_cancelled() -> None:
    assert evaluate("cel.bind(l, lists.range(100000), lists.range(9000).map(x, l + l) == [])") == CANCELLED


def test_cancellation_is_not_absorbed() -> None:
    endless = "lists.range(1000).all(x, lists.range(1000).all(y, true))"
    assert evaluate(f"{endless} || true") == CANCELLED


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 249 + "true" + ")" * 249, id="brackets"),
        pytest.param("true ? true : " * 240 + "true", id="ternaries"),
        pytest.param("+".join("1" * 249) + " == 249", id="sums"),
        pytest.param(nested(60, lambda s, _: f"[1].all(x,{s})", "true"), id="macros"),
    ],
)
def test_deep_expression_within_the_limit_is_evaluated(expression: str) -> None:
    limit = sys.getrecursionlimit()
    assert compile_selector(expression).evaluate(DEVICE) is True
    assert sys.getrecursionlimit() == limit
