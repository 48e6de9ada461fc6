"""Progress of a long command on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self, TextIO, TypeVar

from pyscheduler.clock import Clock, SystemClock

T = TypeVar("T")

QUIET_SECONDS: Final = 2.0
"""Time without output: a command that is quicker needs no progress."""
BAR_SECONDS: Final = 0.1
LINE_SECONDS: Final = 5.0
"""Time between two drawings of the bar, and between two lines."""
_CELLS: Final = 24
_CLEAR: Final = "\r\x1b[K"


class ProgressBar:
    """Progress of one command. As a context manager it removes its bar at the end."""

    def __init__(self, title: str, *, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._title, self._clock = title, clock or SystemClock()
        self._stream = stream if stream is not None else sys.stderr
        self._is_terminal = self._stream.isatty()
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
        if now < self._next:
            return
        self._next = now + (BAR_SECONDS if self._is_terminal else LINE_SECONDS)
        text = f"{self._title}: {what}, {done:,} of {total:,}, {now - self._started:.0f} s"
        if not self._is_terminal:
            self._write(f"{text}\n")
            return
        filled = _CELLS * min(done, total) // (total or 1)
        line = f"[{'#' * filled}{'-' * (_CELLS - filled)}] {text}"
        self._write(_CLEAR + line[: shutil.get_terminal_size().columns - 1])
        self._is_drawn = True

    def track(self, items: Iterable[T], what: str, total: int) -> Iterator[T]:
        """Yield the items, and report their number in between."""
        for number, item in enumerate(items):
            self.show(what, number, total)
            yield item

    def clear(self) -> None:
        """Remove the bar, so that other output does not continue its line."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
