"""Regular expressions: what the recorded outcomes do not show, such as their time."""

from __future__ import annotations

import re
from random import Random

import pytest

from pyscheduler.cel import limits
from pyscheduler.cel.regex import Regex, compile_regex
from pyscheduler.cel.regex_syntax import MAX_INSTRUCTIONS

_PARTS = (
    "a",
    "b",
    "ab",
    "a*",
    "b+",
    "(a|b)",
    "(?:ab)*",
    "a??",
    "b*?",
    "[ab]",
    "[^a]",
    "^",
    "$",
    r"\b",
    "(a|ab)",
    "a{2}",
)


@pytest.fixture(autouse=True)
def _evaluation() -> None:
    limits.start()


def _regex(pattern: str) -> Regex:
    compiled = compile_regex(pattern)
    assert isinstance(compiled, Regex), compiled
    return compiled


def test_first_match_is_that_of_a_backtracking_engine() -> None:
    rng = Random(7)
    for _ in range(3000):
        pattern = "".join(rng.choice(_PARTS) for _ in range(rng.randint(1, 5)))
        pattern = f"(?:{pattern})|{rng.choice(_PARTS)}" if rng.random() < 0.3 else pattern
        text = "".join(rng.choice("ab ") for _ in range(rng.randint(0, 7)))
        expected = re.search(pattern.replace("$", r"\Z"), text)
        assert _regex(pattern).find(text) == (expected.span() if expected else None), (pattern, text)
        assert _regex(pattern).search(text) == bool(expected), (pattern, text)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x"])
def test_pattern_that_takes_exponential_time_by_backtracking_takes_few_steps(pattern: str) -> None:
    assert not _regex(pattern).search("a" * 2000 + "!")


def test_expression_of_many_copies_is_too_large() -> None:
    assert compile_regex("(a{100}){10}" * 100) == (
        f"error parsing regexp: expression too large: `{'(a{100}){10}' * 100}`"
    )
    assert isinstance(compile_regex("a{1000}"), Regex)
    assert MAX_INSTRUCTIONS < 100_000


def test_search_stops_at_the_limit_of_steps() -> None:
    with pytest.raises(limits.CancelledError):
        _regex("(a?){900}b").find("a" * 5000)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("(?i)ſ", "S", True, id="long s is an s in another case"),
        pytest.param("(?i)[k]", "\u212a", True, id="so is the Kelvin sign a k"),
        pytest.param("(?i)ß", "ẞ", True, id="capital sharp s"),
        pytest.param(r"\w", "é", False, id="words are ASCII"),
        pytest.param("(?s).", "\n", True, id="a dot matches a newline with s"),
        pytest.param(".", "\n", False, id="a dot matches no newline"),
        pytest.param("(?m)^b$", "a\nb\nc", True, id="lines with m"),
        pytest.param("^b$", "a\nb\nc", False, id="the text without m"),
        pytest.param(r"\Qa.b\E+", "a.bbb", True, id="quoted text"),
        pytest.param(r"[[:^alpha:]]", "abc", False, id="negated POSIX class"),
        pytest.param(r"\p{^Lu}", "A", False, id="negated category"),
    ],
)
def test_pattern_matches_as_in_go(pattern: str, text: str, matches: bool) -> None:
    assert _regex(pattern).search(text) is matches
