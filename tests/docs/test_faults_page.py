"""The fault matrix names existing tests, and every fault test is named there."""

from __future__ import annotations

import ast

from tests.docs.pages import ROOT, rows, words_in_code

FOLDER = ROOT / "tests" / "faults"
HELPERS = {"test_proxy.py", "test_cluster_check.py"}
"""Tests of the helpers of fault tests."""
HEADINGS = ("Calls", "Connections that die without a sign", "Watches", "The cluster", "The scheduler", "Plugins")
NAMED = {word for heading in HEADINGS for row in rows("docs/faults.md", heading) for word in words_in_code(row[2])}


def fault_tests() -> set[str]:
    files = (path for path in FOLDER.glob("test_*.py") if path.name not in HELPERS)
    return {f"{path.name}::{name}" for path in files for name in _tests(path.read_text())}


def _tests(source: str) -> list[str]:
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef))
    return [function.name for function in functions if function.name.startswith("test_")]


def test_every_test_in_the_matrix_exists() -> None:
    assert fault_tests() >= NAMED
    assert NAMED


def test_every_fault_test_is_in_the_matrix() -> None:
    assert fault_tests() <= NAMED
