"""Bindings go first: how the writer of events learns that it is to wait."""

from __future__ import annotations

from types import TracebackType


class Traffic:
    """Counts the bindings on their way: `with traffic:` around each."""

    __slots__ = ("bindings",)

    def __init__(self) -> None:
        self.bindings = 0

    def __enter__(self) -> None:
        self.bindings += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bindings -= 1
