"""/debug/pprof: sampling profiler, and stacks of threads and tasks, while the scheduler runs.

Python cannot produce Go's profile format, so these are texts. The profile counts the stacks sampled every few
milliseconds, one per line from the outermost call: the "folded stacks" of flame graph programs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from types import FrameType
from typing import Final

from pyscheduler.shell.serving.http import BadRequest, Page, number
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

PREFIX: Final = "/debug/pprof/"
PERIOD: Final = 0.01
"""Seconds between two samples."""
DEFAULT: Final = 30
LONGEST: Final = 300
"""Maximum seconds of a profile."""
_INDEX: Final = (
    "cmdline: the command line, its arguments separated by zero bytes",
    "goroutine: stacks of all threads and tasks",
    f"profile: sampled stacks of all threads; ?seconds={DEFAULT} sets the duration",
)


class Profiler:
    """Samples all other threads, for one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` runs the tasks that are shown, possibly in another thread; None for the running loop."""
        self._loop = loop
        self._busy = False

    def pages(self) -> Mapping[str, Page]:
        """Return the pages by path."""
        return {
            PREFIX: lambda _: ServerResponse("".join(f"{line}\n" for line in _INDEX).encode()),
            f"{PREFIX}cmdline": lambda _: ServerResponse("\0".join(sys.orig_argv).encode()),
            f"{PREFIX}goroutine": lambda _: ServerResponse("".join(_stacks(self._loop)).encode()),
            f"{PREFIX}profile": self._profile,
        }

    def _profile(self, request: ServerRequest) -> ServerResponse:
        seconds = number(request, "seconds", DEFAULT, LONGEST)
        if not seconds:
            raise BadRequest("a profile takes at least 1 second")
        if self._busy:
            return ServerResponse(b"Could not enable CPU profiling: cpu profiling already in use\n", 500)
        return ServerResponse(self._sample(float(seconds)))

    async def _sample(self, seconds: float) -> AsyncIterator[bytes]:
        self._busy = True
        enough = threading.Event()
        try:
            # Sample in a thread, so that other pages are served meanwhile. The client may disconnect before the end.
            counts = await asyncio.to_thread(sample, seconds, enough)
        finally:
            self._busy = False
            enough.set()
        yield "".join(f"{stack} {count}\n" for stack, count in counts.most_common()).encode()


def sample(seconds: float, enough: threading.Event) -> Counter[str]:
    """Count the stacks of all other threads for `seconds`, or until `enough` is set."""
    counts: Counter[str] = Counter()
    own = threading.get_ident()
    for _ in range(max(1, round(seconds / PERIOD))):
        if enough.wait(PERIOD):
            break
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                counts[";".join((names.get(ident, str(ident)), *_calls(frame)))] += 1
    return counts


def _calls(frame: FrameType | None) -> list[str]:
    calls: list[str] = []
    while frame is not None:
        code = frame.f_code
        calls.append(f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})")
        frame = frame.f_back
    return calls[::-1]


def _stacks(loop: asyncio.AbstractEventLoop | None) -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}\n"
    for task in asyncio.all_tasks(loop):
        stack = "".join(traceback.format_stack(frames[-1])) if (frames := task.get_stack(limit=1)) else ""
        yield f"task {task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}\n{stack}\n"
