"""Watchdog of the event loop: a thread that reports what blocks it."""

from __future__ import annotations

import asyncio
import asyncio.events
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyscheduler.backend.problems import Problems

_log = logging.getLogger(__name__)
_PART: Final = "event loop"
_LOOP_FILE: Final = asyncio.events.__file__
"""File of the frame in which the event loop calls a callback or the next step of a task."""
_STANDARD_LIBRARY: Final = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"


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
        frame = sys._current_frames().get(self._loop_thread)
        return blocking_code(traceback.extract_stack(frame))


def blocking_code(stack: Sequence[traceback.FrameSummary]) -> str:
    """Return function, file and line of the code that the event loop has called, and of its innermost call.

    The innermost frame alone is often in a library or the standard library, the outer ones are those that run the loop.
    """
    begin = max((index + 1 for index, frame in enumerate(stack) if frame.filename == _LOOP_FILE), default=0)
    called = stack[begin:] or stack
    own = [frame for frame in called if _is_owners(frame.filename)]
    code, innermost = own[0] if own else called[-1], called[-1]
    inside = f", in {_text(innermost)}" if innermost is not code else ""
    return f"{_text(code)}{inside}"


def _is_owners(file: str) -> bool:
    is_standard = file.startswith(("<frozen", _STANDARD_LIBRARY)) and "-packages" not in file
    return not (is_standard or file.startswith(_PACKAGE))


def _text(frame: traceback.FrameSummary) -> str:
    return f"{frame.name} ({frame.filename}:{frame.lineno})"
