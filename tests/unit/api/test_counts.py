"""Messages have the noun of a number in its form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pyscheduler.api.counts import counted

ROOT = Path(__file__).parents[3]
PLURAL_AFTER_A_COUNT = re.compile(
    r" (more |such )?(hollow nodes|nodes|objects|pods|tasks|members|jobs|orphans|queues|results)\b"
)


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "node") == text


def plurals(file: Path) -> Iterator[str]:
    """Yield the f-strings with a number before a fixed plural."""
    texts = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.JoinedStr)]
    pairs = [(text, *pair) for text in texts for pair in pairwise(text.values)]
    for text, value, after in pairs:
        words = str(after.value) if isinstance(after, ast.Constant) else ""
        if isinstance(value, ast.FormattedValue) and PLURAL_AFTER_A_COUNT.match(words):
            yield f"{file.name}: {ast.unparse(text)}"


def test_commands_print_no_fixed_plural_after_a_count() -> None:
    of_a_total = re.compile(r"\{total[^}]*\} (pods|tasks) have")  # "1 of 1 pods"
    limits = re.compile(r"more than \{MAX_")
    found = [text for file in (ROOT / "pyscheduler/cli").rglob("*.py") for text in plurals(file)]
    assert [text for text in found if not of_a_total.search(text) and not limits.search(text)] == []
