"""Expressions that do not compile, with Kubernetes' texts."""

from __future__ import annotations

import pytest

from pyscheduler.cel import CelSyntaxError, compile_selector

OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def compile_error(expression: str) -> str:
    with pytest.raises(CelSyntaxError) as caught:
        compile_selector(expression)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        pytest.param("1 +", 4, f"Syntax error: mismatched input '<EOF>' expecting {OPERAND}", id="operand is missing"),
        pytest.param("(1", 3, "Syntax error: missing ')' at '<EOF>'", id="bracket is missing"),
        pytest.param("1 2", 3, "Syntax error: extraneous input '2' expecting <EOF>", id="operator is missing"),
        pytest.param("a.", 3, "Syntax error: no viable alternative at input '.'", id="field is missing"),
        pytest.param("if", 1, "reserved identifier: if", id="reserved word"),
        pytest.param("99999999999999999999 == 1", 1, "invalid int literal", id="int beyond 64 bits"),
        pytest.param(r"b'\u00e9' == b''", 1, "unable to unescape string", id="unicode escape of bytes"),
        pytest.param("x == 1", 1, "undeclared reference to 'x' (in container '')", id="variable"),
        pytest.param("foo(1)", 4, "undeclared reference to 'foo' (in container '')", id="function"),
        pytest.param("device.model", 7, "undefined field 'model'", id="field of the device"),
        pytest.param(
            "1 + 'a' == 2", 3, "found no matching overload for '_+_' applied to '(int, string)'", id="operator"
        ),
        pytest.param("1 && true", 1, "expected type 'bool' but found 'int'", id="term of a logical operator"),
        pytest.param("[1, 'a'] == []", 5, "expected type 'int' but found 'string'", id="list of several types"),
        pytest.param("[1].all(1, true)", 9, "argument must be a simple name", id="variable of a macro"),
        pytest.param("duration('1') == duration('1s')", 10, "invalid duration argument", id="duration"),
        pytest.param("'a'.matches('(')", 13, "invalid matches argument", id="pattern"),
        pytest.param("has(device)", 5, "invalid argument to has() macro", id="presence of a variable"),
    ],
)
def test_error_names_its_place(expression: str, column: int, message: str) -> None:
    mark = "." * (column - 1) + "^"
    expected = f"compilation failed: ERROR: <input>:1:{column}: {message}\n | {expression}\n | {mark}"
    assert compile_error(expression) == expected


def test_errors_are_sorted_by_place() -> None:
    error = compile_error("x == 1 ||\n y == 2")
    assert error == (
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n"
        " | x == 1 ||\n"
        " | ^\n"
        "ERROR: <input>:2:2: undeclared reference to 'y' (in container '')\n"
        " |  y == 2\n"
        " | .^"
    )


def test_dots_are_wide_below_wide_characters() -> None:
    assert compile_error("'é' == x").endswith("\n | 'é' == x\n | .．.....^")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.attributes", "must evaluate to bool or the unknown type, not map(string, map(string, dyn))"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_error_without_a_place(expression: str, message: str) -> None:
    assert compile_error(expression) == message
