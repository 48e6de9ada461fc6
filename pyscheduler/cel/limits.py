"""Limit of the work of one evaluation that cel-go's cost does not count.

A variable may hold a list twice, another one that list twice, and so on: comparing, printing or traversing the last one
visits more elements than there is time for, at a cost of 1. Functions that visit nested values call `spend`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_STEPS: Final = 1_000_000
MAX_CHARACTERS: Final = 10_000_000
"""Characters of the longest string: functions that multiply sizes cost as much as their arguments only."""


_MAX_FRAMES: Final = 20_000


@contextmanager
def deep_stack() -> Iterator[None]:
    """Allow as many nested calls as the deepest expression takes: up to 250 levels of several calls each.

    Python's calls of Python functions take no space on the stack of the process. RecursionError is still possible, and
    handled, if two threads do this at a time.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _MAX_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class CancelledError(Exception):
    """An evaluation that exceeds its cost limit, or the limit of steps. `&&` and `||` do not absorb it."""


class _StepBudget:
    """Steps that the current evaluation may still do. One evaluation runs at a time in a thread of the core."""

    __slots__ = ("evaluation", "left")

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self.evaluation = 0


_STEPS: Final = _StepBudget()


def start() -> None:
    """Begin an evaluation."""
    _STEPS.left = MAX_STEPS
    _STEPS.evaluation += 1


def evaluation() -> int:
    """Return the number of the current evaluation; another one has another number."""
    return _STEPS.evaluation


def spend(steps: int) -> None:
    """Count visited elements; raise CancelledError above the limit."""
    _STEPS.left -= steps
    if _STEPS.left < 0:
        raise CancelledError


def spent() -> int:
    """Return the steps of the current or last evaluation, or of the last compilation."""
    return MAX_STEPS - _STEPS.left


def check_size(characters: int) -> None:
    """Raise CancelledError for a string that is too long to build."""
    if characters > MAX_CHARACTERS:
        raise CancelledError
