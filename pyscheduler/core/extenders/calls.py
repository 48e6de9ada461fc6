"""Calls to extenders during an attempt, written as generators.

Code that calls extenders yields the calls and is resumed with their results. The cluster may change while it is
suspended, so plugin results are computed again after each response.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.pod import Pod
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.extenders.extender import Extender, ExtenderCall, ExtenderResult

T = TypeVar("T")
ExtenderSteps = Generator[tuple[ExtenderCall, ...], ExtendersResponded, T]
"""A generator that yields extender calls and returns a T."""


class ExtenderSession:
    """One attempt to place `pod`, with the `extenders` interested in it in configuration order."""

    def __init__(self, pod: Pod, extenders: Sequence[Extender], begin: Callable[[float], Cycle], now: float) -> None:
        """`begin` creates the cycle of a step that starts at the given time."""
        self.pod = pod
        self.extenders = extenders
        self._begin = begin
        self.now = now
        """Time at which the current step started."""
        self.cycle = begin(now)
        """Cycle of the current step; the state that plugins stored in an earlier one may be outdated."""

    def call(self, *calls: ExtenderCall) -> ExtenderSteps[tuple[ExtenderResult, ...]]:
        """Make some calls concurrently and return one result for each."""
        responses = yield calls
        self.now = responses.at
        self.cycle = self._begin(responses.at)
        return responses.answers
