"""Counter of bindings and evictions in flight; the Event recorder yields to them."""

from __future__ import annotations

from types import TracebackType


class InFlightCounter:
    """Number of bindings in flight: `with in_flight:` around each, or `begin` and `end`."""

    __slots__ = ("begun", "bindings", "evictions")

    def __init__(self) -> None:
        self.bindings = 0
        self.begun = 0
        """Total number of bindings begun."""
        self.evictions = 0
        """Number of preemptors with evictions in flight."""

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
