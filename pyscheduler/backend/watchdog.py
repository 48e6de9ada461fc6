"""Watchdog of the event loop: a thread that reports what blocks it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import Final

from pyscheduler.backend.problems import Problems

_log = logging.getLogger(__name__)
_PART: Final = "event loop"


class LoopWatchdog:
    """Logs the stack of the event loop's thread once a callback has blocked it for `seconds`."""

    def __init__(self, problems: Problems, seconds: float) -> None:
        self._problems, self._seconds = problems, seconds
        self._stop = threading.Event()
        self._passed = threading.Event()
        self._loop_thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._watch, name="task backend: watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread soon."""
        self._stop.set()
        self._passed.set()

    def _watch(self) -> None:
        while not self._stop.wait(self._seconds):
            self._passed.clear()
            began = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._passed.set)
            except RuntimeError:  # the loop is closed
                return
            if self._passed.wait(self._seconds) or self._stop.is_set():
                continue
            place = self._place()
            self._problems.report(_PART, f"blocked for more than {self._seconds:g} s by {place}")
            _log.warning("the event loop has been blocked for %g s by %s", self._seconds, place)
            self._passed.wait()
            self._problems.clear(_PART)
            _log.warning("the event loop was blocked for %.1f s by %s", time.monotonic() - began, place)

    def _place(self) -> str:
        """Return function, file and line of the innermost frame that is not of asyncio or the interpreter."""
        frame = sys._current_frames().get(self._loop_thread)
        stack = traceback.extract_stack(frame)
        innermost = stack[-1]
        return f"{innermost.name} ({innermost.filename}:{innermost.lineno})"
