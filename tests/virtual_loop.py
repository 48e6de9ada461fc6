"""An event loop with virtual time, which jumps to the next timer when no task is ready."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """All tasks are blocked and no timer is set."""


class _TimeSelector(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise DeadlockError("deadlock: no timer is set and no task is ready")
            self.loop.at += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`at` is the time in seconds. Coroutines wait only for timers and for each other."""

    def __init__(self) -> None:
        self.at = 0.0
        selector = _TimeSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.at


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time and cancel the tasks that it leaves behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
