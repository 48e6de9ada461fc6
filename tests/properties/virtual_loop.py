"""An event loop whose time passes only when nobody has anything to do, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingWillHappen(RuntimeError):
    """Everybody waits for somebody."""


class _Leap(selectors.DefaultSelector):
    """Instead of waiting it moves the clock on."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingWillHappen("no timer is set and nothing is to be done")
        self.loop.at += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`at` is its time in seconds; no I/O, no threads."""

    def __init__(self) -> None:
        self.at = 0.0
        leap = _Leap()
        leap.loop = self
        super().__init__(leap)

    def time(self) -> float:
        return self.at


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time; what it has started and left is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
