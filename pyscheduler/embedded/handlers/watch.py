"""Streaming of watches: lines as they arrive, bookmarks while idle, the end at the timeout."""

from __future__ import annotations

import asyncio

from aiohttp import web

from pyscheduler.embedded.columns.table import TableView
from pyscheduler.embedded.handlers.request import METADATA, TABLE
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import ServerState
from pyscheduler.embedded.verbs.read import ListOptions
from pyscheduler.embedded.watching import Line, Watcher, metadata_line, object_line, table_line

BOOKMARK_SECONDS = 30.0
DEFAULT_SECONDS = 3600.0


class WatchHandler:
    """Handler of watch requests; it tracks open watches, so that a stopping server can end them."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._open: set[Watcher] = set()

    def close(self) -> None:
        """End every watch."""
        for watch in tuple(self._open):
            watch.close()

    async def serve(
        self, request: web.BaseRequest, resource: Resource, namespace: str, options: ListOptions, view: str
    ) -> web.StreamResponse:
        """Serve one watch request until it ends."""
        changed = asyncio.Event()
        watch = Watcher(self._state, resource, namespace, options, changed.set)
        watch.open()
        self._open.add(watch)
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
        try:
            await response.prepare(request)
            await self._stream(response, watch, changed, self._line(request, resource, view), options)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            watch.close()
            self._open.discard(watch)
        return response

    def _line(self, request: web.BaseRequest, resource: Resource, view: str) -> Line:
        if view == TABLE:
            include = request.query.get("includeObject", "Metadata")
            return table_line(TableView(resource, self._state.now(), include), self._state.now)
        return metadata_line if view == METADATA else object_line(resource)

    async def _stream(
        self, response: web.StreamResponse, watch: Watcher, changed: asyncio.Event, line: Line, options: ListOptions
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + (options.timeout or DEFAULT_SECONDS)
        while True:
            changed.clear()
            if not watch.idle:
                await response.write(watch.lines(line))
                continue
            if watch.ended or loop.time() >= end:
                return
            wait = min(end - loop.time(), BOOKMARK_SECONDS)
            try:
                async with asyncio.timeout(wait):
                    await changed.wait()
            except TimeoutError:
                if options.bookmarks:
                    await response.write(watch.bookmark())
