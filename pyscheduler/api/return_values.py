"""Validation of the return values of plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

FILTER_RETURNS: Final = "None or Rejection"
"""Expected return values of Filter and some other extension points, for messages."""


class InvalidReturnValue(TypeError):
    """Return value of a plugin method that is invalid at its extension point."""

    def __init__(self, method: Callable[..., Any], answer: object, expected: str, *, shown: str = "") -> None:
        """Compose the message. `shown` replaces the description of the value if its type does not show the problem."""
        super().__init__(f"{method.__name__} returned {shown or _described(answer)}, expected {expected}")
        code = getattr(method, "__code__", None)
        self.at = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        """`file:line` of the method, "" if unknown."""


def _described(answer: object) -> str:
    if answer is None:
        return "None"
    if inspect.iscoroutine(answer):
        answer.close()  # or Python warns that it was never awaited
        return "a coroutine"
    name = type(answer).__name__
    return f"{answer!r} ({name})" if type(answer) in (int, float) else name


def check_score(method: Callable[..., Any], score: object) -> None:
    """Raise InvalidReturnValue unless the score is an integer."""
    if isinstance(score, bool) or not isinstance(score, int | np.integer):
        raise InvalidReturnValue(method, score, "a whole number")
