"""Validation of the return values of plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.texts import text_of

LEAST_SCORE: Final = -MAX_INT64 - 1
"""Least raw score."""
FILTER_RETURNS: Final = "None or Rejection"
"""Expected return values of Filter and some other extension points, for messages."""


class InvalidReturnValue(TypeError):
    """Return value of a plugin method that is invalid at its extension point."""

    def __init__(self, method: Callable[..., Any], answer: object, expected: str, *, shown: str = "") -> None:
        """Compose the message. `shown` replaces the description of the value if its type does not show the problem."""
        name = getattr(method, "__name__", type(method).__name__)  # a hint may be a functools.partial
        super().__init__(f"{name} returned {shown or _described(answer)}, expected {expected}")
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
    return f"{text_of(answer, repr)} ({name})" if type(answer) in (int, float) else name


def check_score(method: Callable[..., Any], score: object) -> None:
    """Raise InvalidReturnValue unless the score is an integer of 64 bits."""
    if isinstance(score, bool) or not isinstance(score, int | np.integer):
        raise InvalidReturnValue(method, score, "a whole number")
    if not LEAST_SCORE <= score <= MAX_INT64:
        raise InvalidReturnValue(method, score, "a whole number of 64 bits")


def checked_scores(method: Callable[..., Any], scores: Sequence[int]) -> NDArray[np.int64]:
    """Return an array of scores. Raise InvalidReturnValue if one is no integer of 64 bits."""
    try:
        if {*map(type, scores)} <= {int}:
            return np.array(scores, np.int64)
    except OverflowError:
        pass  # the check names the score
    for score in scores:
        check_score(method, score)
    return np.array(scores, np.int64)
