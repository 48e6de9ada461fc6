"""Answers of plugins that are none: what was returned, and what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

FILTER_RETURNS: Final = "None or Rejection"
"""The return values of Filter and some other extension points."""


class InvalidReturnValue(TypeError):
    """A plugin's method returned something that its extension point has no use for."""

    def __init__(self, method: Callable[..., Any], answer: object, expected: str, *, shown: str = "") -> None:
        """`shown` replaces the type in the message, where the type alone does not show what is wrong."""
        super().__init__(f"{method.__name__} returned {shown or _described(answer)}, expected {expected}")
        code = getattr(method, "__code__", None)
        self.at = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        """`file:line` of the method."""


def _described(answer: object) -> str:
    if answer is None:
        return "None"
    if inspect.iscoroutine(answer):
        answer.close()  # or Python warns that it was never awaited
        return "a coroutine"
    name = type(answer).__name__
    return f"{answer!r} ({name})" if type(answer) in (int, float) else name


def check_score(method: Callable[..., Any], score: object) -> None:
    """InvalidReturnValue unless the score of one node is a whole number."""
    if isinstance(score, bool) or not isinstance(score, int | np.integer):
        raise InvalidReturnValue(method, score, "a whole number")
