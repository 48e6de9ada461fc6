"""What the threat model says is shown: every row names a test, every test that is named exists, and so do bounds."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from pyscheduler.core.queue.inflight import MOST_EVENTS
from pyscheduler.shell.kube import recorder, series
from tests.docs.pages import ROOT, rows, text_of, words_in_code
from tests.hostile import objects

PAGE = "docs/threat-model.md"
_TEST = re.compile(r"(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)\Z")
NAMED = [match for word in words_in_code(text_of(PAGE)) if (match := _TEST.match(word))]


@cache
def names_in(file: str) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("named", [pytest.param(match, id=match["name"]) for match in NAMED])
def test_a_test_that_is_named_exists(named: re.Match[str]) -> None:
    assert named["name"] in names_in(named["file"])


@pytest.mark.parametrize("heading", ["One object", "Many objects"])
def test_every_abuse_has_a_bound_and_a_test(heading: str) -> None:
    told = list(rows(PAGE, heading))
    assert len(told) > 5
    for what, bound, shown in told:
        assert what
        assert bound
        assert any(_TEST.match(word) for word in words_in_code(shown)), what


def test_every_test_of_abuse_is_named() -> None:
    abuses = {name for name in names_in("tests/hostile/test_abuse.py") if name.startswith("test_")}
    assert abuses <= {match["name"] for match in NAMED}


def test_the_bounds_are_those_of_the_code() -> None:
    page = text_of(PAGE)
    assert f"{MOST_EVENTS:,} events are kept" in page
    assert f"{recorder.CAPACITY:,} wait at most, of {series.MAX_NOTE:,} bytes each" in page
    prices = [hostile.cost for hostile in objects.PODS.values()]
    assert f"at {max(prices):,} plain pods at most" in page
