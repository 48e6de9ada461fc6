"""An attempt's talk with extenders, written down as if they answered at once.

Whatever has to ask them is a generator: it yields the calls to be made, and is resumed with what came of them. In
between the cluster moves on, so that all that plugins have said is asked for anew after each answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.pod import Pod
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.extender import Extender, ExtenderCall, ExtenderResult

T = TypeVar("T")
ExtenderSteps = Generator[tuple[ExtenderCall, ...], ExtendersResponded, T]
"""Something that asks extenders, and comes to a T."""


class ExtenderSession:
    """One attempt to place `pod`, and the `extenders` whose business it is, in the order in which they are asked."""

    def __init__(self, pod: Pod, extenders: Sequence[Extender], begin: Callable[[float], Cycle], now: float) -> None:
        """`begin` makes the cycle of a step that begins at some time."""
        self.pod = pod
        self.extenders = extenders
        self._begin = begin
        self.now = now
        """When the newest step began."""
        self.cycle = begin(now)
        """Its cycle: what plugins noted in an earlier one was true of the cluster as it was then."""

    def call(self, *calls: ExtenderCall) -> ExtenderSteps[tuple[ExtenderResult, ...]]:
        """Make some calls together; one answer for each."""
        consulted = yield calls
        self.now = consulted.at
        self.cycle = self._begin(consulted.at)
        return consulted.answers
