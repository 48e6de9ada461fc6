"""Fake extender with scripted responses that records its calls."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import msgspec
from aiohttp import web


class FakeExtender:
    """`responses` by verb: bytes are sent as they are, an integer as the status, other values as JSON."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.calls: list[tuple[str, Any]] = []
        """Verbs and decoded bodies of the calls."""
        self.types: list[str] = []
        """Content types of the calls."""
        self.release_slow = asyncio.Event()
        """Calls of the verb `slow` wait until it is set."""
        self.called = asyncio.Event()
        """Set by the first call."""
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/scheduler/{verb}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        (address,) = self._runner.addresses
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{address[1]}/scheduler"

    async def stop(self) -> None:
        self.release_slow.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        self.calls.append((verb, msgspec.json.decode(await request.read())))
        self.types.append(request.content_type)
        self.called.set()
        if verb == "slow":
            await self.release_slow.wait()
        scripted = self.responses.get(verb, 404)
        if isinstance(scripted, int):
            return web.Response(status=scripted, text="scripted error")
        body = scripted if isinstance(scripted, bytes) else msgspec.json.encode(scripted)
        return web.Response(body=body, content_type="application/json")
