"""Kubernetes' library for regular expressions, and the standard function `matches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.functions.costs import match_first
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.regex import Regex, compile_regex
from pyscheduler.cel.types import INT, STRING, list_of
from pyscheduler.cel.values import CelError, Value


def with_regex(pattern: str, prefix: str, use: Callable[[Regex], Value]) -> Value:
    """Return the result for a compiled expression, or an error with the prefix."""
    compiled = compile_regex(pattern)
    return CelError(f"{prefix}{compiled}") if isinstance(compiled, str) else use(compiled)


def matches(text: str, pattern: str) -> Value:
    """Return True if a part of the text matches the pattern."""
    return with_regex(pattern, "", lambda regex: regex.search(text))


def _find(text: str, pattern: str) -> Value:
    def find(regex: Regex) -> str:
        found = regex.find(text)
        return text[found[0] : found[1]] if found else ""

    return with_regex(pattern, "Illegal regex: ", find)


def _find_all(text: str, pattern: str, count: int = -1) -> Value:
    return with_regex(pattern, "Illegal regex: ", lambda regex: tuple(regex.find_all(text, count)))


REGEX_LIBRARY: Final = {
    "find": (Overload("string_find_string", (STRING, STRING), STRING, _find, True, match_first),),
    "findAll": (
        Overload("string_find_all_string", (STRING, STRING), list_of(STRING), _find_all, True, match_first),
        Overload("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all, True, match_first),
    ),
}
