"""Fake API server for pods; like kube-apiserver it ends a watch after its timeout, with a bookmark just before."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from aiohttp import web

from pyscheduler.testing.builders import PodBuilder
from tests.unit.kube.fake_api import bookmark, event, listed

BOOKMARK_BEFORE_END = 2.0


class WatchServer:
    """Fake API server; use it as an async context manager."""

    def __init__(self) -> None:
        self.port = 0
        self.bookmarks = True
        self.lists = self.watches = 0
        self._pods: list[dict[str, Any]] = []
        self._version = 10
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._adding: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        app = web.Application()
        for path in ("/api/v1/pods", "/api/v1/namespaces/default/pods"):
            app.router.add_get(path, self._serve_pods)
        app.router.add_route("*", "/version", self._serve_version)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, keepalive_timeout=3600.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def add(self, pod: PodBuilder) -> None:
        self._version += 1
        self._pods.append(pod.version(self._version).manifest)
        task = asyncio.create_task(self._notify())
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _serve_version(self, _: web.Request) -> web.Response:
        return web.json_response({"major": "1"})

    async def _serve_pods(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            return web.Response(body=listed(*self._pods, version=self._version).body)
        self.watches += 1
        response = web.StreamResponse()
        await response.prepare(request)
        await self._watch(response, int(request.query["resourceVersion"]), int(request.query["timeoutSeconds"]))
        return response

    async def _watch(self, response: web.StreamResponse, since: int, seconds: int) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while True:
            for manifest in self._pods:
                if int(manifest["metadata"]["resourceVersion"]) > since:
                    since = int(manifest["metadata"]["resourceVersion"])
                    await response.write(event("ADDED", manifest))
            left = end - asyncio.get_running_loop().time()
            if left <= 0.0:
                return
            try:
                async with asyncio.timeout(left - BOOKMARK_BEFORE_END if left > BOOKMARK_BEFORE_END else left):
                    async with self._changed:
                        await self._changed.wait()
            except TimeoutError:
                if self.bookmarks and left > BOOKMARK_BEFORE_END:
                    await response.write(bookmark(self._version))
