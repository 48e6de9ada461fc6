"""Progress of a long command on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self, TextIO, TypeVar

from pyscheduler.clock import Clock, SystemClock

T = TypeVar("T")

QUIET_SECONDS: Final = 2.0
"""Time without output: a command that is quicker needs no progress."""
BAR_SECONDS: Final = 0.1
LINE_SECONDS: Final = 5.0
"""Time between two drawings of the bar, and between two lines."""
STEP_SECONDS: Final = 1.0
"""Time between two drawings during a step that reports nothing itself."""
_CELLS: Final = 24
_CLEAR: Final = "\r\x1b[K"


class ProgressBar:
    """Progress of one command. As a context manager it removes its bar at the end.

    Without `lines` nothing is written without a terminal, for commands that print a line per step themselves.
    """

    def __init__(
        self, title: str, *, stream: TextIO | None = None, clock: Clock | None = None, lines: bool = True
    ) -> None:
        self._title, self._clock = title, clock or SystemClock()
        self._stream = stream if stream is not None else sys.stderr
        self._is_terminal = self._stream.isatty()
        self._is_silent = not self._is_terminal and not lines
        self._started = self._clock.now()
        self._next = self._started + QUIET_SECONDS
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` steps are finished; most calls write nothing."""
        now = self._clock.now()
        if now < self._next or self._is_silent:
            return
        self._next = now + (BAR_SECONDS if self._is_terminal else LINE_SECONDS)
        text, figures = f"{self._title}: {what}", f", {done:,} of {total:,}, {now - self._started:.0f} s"
        if not self._is_terminal:
            self._write(f"{text}{figures}\n")
            return
        filled = _CELLS * min(done, total) // (total or 1)
        cells, columns = f"[{'#' * filled}{'-' * (_CELLS - filled)}] ", shutil.get_terminal_size().columns - 1
        room = max(0, columns - len(cells) - len(figures))
        shortened = text if len(text) <= room else f"{text[: room - 1]}…" if room else ""
        self._write(_CLEAR + f"{cells}{shortened}{figures}"[:columns])
        self._is_drawn = True

    def track(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        """Yield the items, and report their number in between."""
        for number, item in enumerate(items):
            self.show(what, number, total)
            yield item

    @asynccontextmanager
    async def step(self, what: str, done: int, total: int) -> AsyncIterator[None]:
        """Show the step until it ends, with the time that passes, and remove the bar then."""
        repeated = asyncio.create_task(self._repeat(what, done, total))
        try:
            yield
        finally:
            repeated.cancel()
            await asyncio.wait([repeated])
            self.clear()

    async def _repeat(self, what: str, done: int, total: int) -> None:
        while not self._is_silent:
            self.show(what, done, total)
            await self._clock.sleep(STEP_SECONDS)

    def write_line(self, text: str) -> None:
        """Write a line that stays, in place of the bar."""
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the bar, so that other output does not continue its line."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
