"""Bindings go first, and what makes room for them: how the writer of Events learns that it is to wait."""

from __future__ import annotations

from types import TracebackType


class InFlightCounter:
    """Counts the bindings on their way: `with in_flight:` around each, or `begin` and `end`."""

    __slots__ = ("begun", "bindings", "evictions")

    def __init__(self) -> None:
        self.bindings = 0
        self.begun = 0
        """How many there have been ever."""
        self.evictions = 0
        """Pods for which room is being made."""

    def begin(self) -> None:
        self.bindings += 1
        self.begun += 1

    def end(self) -> None:
        self.bindings -= 1

    def __enter__(self) -> None:
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
