"""Steps of the placement of a group: generators that yield after some members, so that no call is long."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]

MEMBERS_PER_STEP: Final = 16
"""Members that are placed in a step, at 40 µs to 1 ms each; counted, not timed, so that a replay has the same steps."""


def exhaust(steps: Steps[T]) -> T:
    """Run all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
