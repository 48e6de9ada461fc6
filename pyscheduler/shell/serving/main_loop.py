"""Access to state of the main loop, for pages that are made in another thread.

The scheduler's memory changes between two attempts, so it is read there. While the loop is blocked, pages that need it
are refused, and metrics are served as they were last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler.shell.counting import Metric
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.serving.http import AsyncPage, metrics_page
from pyscheduler.shell.serving.webserver import Request, Response

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATIENCE: Final = 1.0
"""Seconds that a page waits for the loop: far longer than its longest turn, and below what scrapes wait."""
BLOCKED: Final = Response(b"the scheduling loop is blocked, try again later\n", 503)
T = TypeVar("T")


class LoopBlocked(Exception):
    """The loop has not run the call in time, and will not run it any more."""


class MainLoop:
    """An event loop as seen from the loop of another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float = PATIENCE) -> None:
        self.loop = loop
        self._patience = patience

    async def call(self, work: Callable[[], T]) -> T:
        """Return what `work` returns on the loop. LoopBlocked if the loop does not get to it in time."""
        result: Future[T] = Future()
        self.loop.call_soon_threadsafe(_call, work, result)
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.wrap_future(result)
        except TimeoutError:
            raise LoopBlocked from None

    def page(self, make: Callable[[Request], T], answer: Callable[[T], Response]) -> AsyncPage:
        """A page of what `make` returns on the loop, turned into an `answer` in the thread that serves it."""

        async def page(request: Request) -> Response:
            try:
                return answer(await self.call(partial(make, request)))
            except LoopBlocked:
                return BLOCKED

        return page


def _call(work: Callable[[], T], result: Future[T]) -> None:
    if not result.set_running_or_notify_cancel():
        return
    try:
        result.set_result(work())
    except Exception as error:
        result.set_exception(error)


class MetricsPage:
    """/metrics, served from copies; while the loop is blocked, from the last ones."""

    def __init__(self, metrics: Metrics, main: MainLoop) -> None:
        self._metrics = metrics
        self._main = main
        self._copies: Sequence[Metric] = ()

    async def __call__(self, request: Request) -> Response:
        """Serve the metrics in the format of the Accept header."""
        with suppress(LoopBlocked):
            self._copies = await self._main.call(self._metrics.copies)
        return metrics_page(lambda: self._registry)(request)

    @cached_property
    def _registry(self) -> CollectorRegistry:
        from pyscheduler.shell.prometheus_text import build_registry

        return build_registry(lambda: [*self._copies, *(metric.copy() for metric in self._metrics.of_threads)])
