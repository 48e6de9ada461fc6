"""Access to the main loop's state for pages that are served in another thread.

The scheduler's state is consistent only between two attempts, so it is read on the main loop. While that is blocked,
pages that need it return 503, and metrics are served with their last values.
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
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATIENCE: Final = 1.0
"""Seconds that a page waits for the loop: far longer than its longest burst, and less than a scrape timeout."""
BLOCKED: Final = ServerResponse(b"the scheduling loop is blocked, try again later\n", 503)
T = TypeVar("T")


class LoopBlocked(Exception):
    """The loop did not run the call in time, and will not run it later."""


class MainLoop:
    """Main loop as seen from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float = PATIENCE) -> None:
        self.loop = loop
        self._patience = patience

    async def call(self, work: Callable[[], T]) -> T:
        """Return the result of `work()`, run on the loop. LoopBlocked if the loop does not run it in time."""
        result: Future[T] = Future()
        self.loop.call_soon_threadsafe(_call, work, result)
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.wrap_future(result)
        except TimeoutError:
            raise LoopBlocked from None

    def page(self, make: Callable[[ServerRequest], T], respond: Callable[[T], ServerResponse]) -> AsyncPage:
        """Return a page with `respond(value)`, where `make` returns the value on the main loop."""

        async def page(request: ServerRequest) -> ServerResponse:
            try:
                return respond(await self.call(partial(make, request)))
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

    async def __call__(self, request: ServerRequest) -> ServerResponse:
        """Serve the metrics in the format of the Accept header."""
        with suppress(LoopBlocked):
            self._copies = await self._main.call(self._metrics.copies)
        return metrics_page(lambda: self._registry)(request)

    @cached_property
    def _registry(self) -> CollectorRegistry:
        from pyscheduler.shell.prometheus_text import build_registry

        return build_registry(lambda: [*self._copies, *(metric.copy() for metric in self._metrics.of_threads)])
