"""Extender calls of one attempt, written as generators: they yield the calls and are resumed with the results."""

from __future__ import annotations

from collections.abc import Generator, Sequence
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

    def __init__(self, pod: Pod, extenders: Sequence[Extender], cycle: Cycle) -> None:
        self.pod = pod
        self.extenders = extenders
        self.cycle = cycle
        """Cycle of the current step, which started at its `now`; state that plugins stored before may be stale."""

    def call(self, *calls: ExtenderCall) -> ExtenderSteps[tuple[ExtenderResult, ...]]:
        """Make some calls concurrently and return one result for each."""
        responses = yield calls
        last = self.cycle
        self.cycle = Cycle(
            responses.at, last.profile, last.uid, last.attempt, last.seed, last.call_observer, last.timer
        )
        self.cycle.is_resize = last.is_resize
        return responses.results
