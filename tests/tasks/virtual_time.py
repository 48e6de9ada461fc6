"""An event loop on which hours pass at once: its clock jumps to what is due next when nothing else is to be done."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """Run a story that waits for nothing outside of this process."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(story)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        assert ready or timeout is not None, "the story waits for something that never comes"
        if not ready and timeout:
            self._loop.now += timeout
        return ready
