"""/debug/pprof: where the time goes, looked at from outside while the scheduler runs on.

Go's profiles cannot be had from Python, so these are texts. The profile is a count of stacks as they were seen every
few milliseconds, one a line from the outermost call in: what flame graph programs take ("folded stacks").
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
from pyscheduler.shell.serving.webserver import Request, Response

PREFIX: Final = "/debug/pprof/"
PERIOD: Final = 0.01
"""Seconds between two looks."""
DEFAULT: Final = 30
LONGEST: Final = 300
"""Seconds that a profile may take, however many are asked for."""
_INDEX: Final = (
    "cmdline: the command line, its arguments divided by zero bytes",
    "goroutine: what every thread and every task is doing",
    f"profile: where the time goes; ?seconds={DEFAULT} says for how long to look",
)


class Profiler:
    """Looks at all threads but its own, for one who asks at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the loop of the tasks that are shown, maybe another thread's; None for the running one."""
        self._loop = loop
        self._busy = False

    def pages(self) -> Mapping[str, Page]:
        """The pages by path."""
        return {
            PREFIX: lambda _: Response("".join(f"{line}\n" for line in _INDEX).encode()),
            f"{PREFIX}cmdline": lambda _: Response("\0".join(sys.orig_argv).encode()),
            f"{PREFIX}goroutine": lambda _: Response("".join(_doing(self._loop)).encode()),
            f"{PREFIX}profile": self._profile,
        }

    def _profile(self, request: Request) -> Response:
        seconds = number(request, "seconds", DEFAULT, LONGEST)
        if not seconds:
            raise BadRequest("a profile takes a second at least")
        if self._busy:
            return Response(b"Could not enable CPU profiling: cpu profiling already in use\n", 500)
        return Response(self._folded(float(seconds)))

    async def _folded(self, seconds: float) -> AsyncIterator[bytes]:
        self._busy = True
        enough = threading.Event()
        try:
            # A thread looks, so that other pages are served meanwhile. The client may go away before it ends.
            counts = await asyncio.to_thread(sample, seconds, enough)
        finally:
            self._busy = False
            enough.set()
        yield "".join(f"{stack} {count}\n" for stack, count in counts.most_common()).encode()


def sample(seconds: float, enough: threading.Event) -> Counter[str]:
    """The stacks of all other threads, counted for so many seconds, or until it is enough."""
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


def _doing(loop: asyncio.AbstractEventLoop | None) -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}\n"
    for task in asyncio.all_tasks(loop):
        stack = "".join(traceback.format_stack(frames[-1])) if (frames := task.get_stack(limit=1)) else ""
        yield f"task {task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}\n{stack}\n"
