"""YAML reader: JSON values, lines and duplicate keys."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.config.yaml_reader import Document, read


def only(text: str) -> Document:
    documents = read(text)
    assert len(documents) == 1
    return documents[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, null]", {"a": 1, "b": ["x", 2.5, True, None]}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("on: yes\n1: 2", {"on": True, "1": 2}),
        ('{"a": {"b": "c"}}', {"a": {"b": "c"}}),
        ("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}}),
        ("a: &a [1]\nb: *a", {"a": [1], "b": [1]}),
        ("x: {<<: [{a: 1, b: 1}, {b: 2, c: 2}]}", {"x": {"a": 1, "b": 1, "c": 2}}),
    ],
)
def test_values_are_json_values(text: str, value: Any) -> None:
    document = only(text)
    assert document.value == value
    assert document.problems == []


def test_every_path_has_its_line() -> None:
    text = "a:\n  b:\n  - c: 1\n  - d\n"
    assert only(text).lines == {"": 1, "a": 1, "a.b": 2, "a.b[0]": 3, "a.b[0].c": 3, "a.b[1]": 4}


def test_lines_are_counted_across_documents() -> None:
    assert [d.lines["a"] for d in read("a: 1\n---\n---\na: 2\n")] == [1, 4]


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a: 1\nb: 2\na: 3", "a: is given twice (first on line 1)", 3),
        ("x:\n- {a: 1, a: 1}", "x[0].a: is given twice (first on line 2)", 2),
        ("a: &a [*a]", "a[0]: the alias refers to a node that contains it", 1),
        ("? [a]\n: 1", "a key must be plain text", 1),
        ("a: !python/object:os.system x", "a: could not determine a constructor for the tag", 1),
        ("a: !!int many", 'a: "many" cannot be read as int', 1),
        ("a: !!bool maybe", 'a: "maybe" cannot be read as bool', 1),
        ("<<: 5", "<< must name a mapping", 1),
    ],
)
def test_invalid_value_is_a_problem_with_its_line(text: str, problem: str, line: int) -> None:
    (found,) = only(text).problems
    assert str(found).startswith(problem)
    assert found.line == line
