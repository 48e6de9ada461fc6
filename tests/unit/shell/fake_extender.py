"""An extender that says what a test has it say, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import msgspec
from aiohttp import web


class FakeExtender:
    """`says` has the answer by verb: bytes as they are, other values as JSON, a number as a status."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []
        """Verbs with the bodies that came with them."""
        self.types: list[str] = []
        """The content types of the calls."""
        self.thinking = asyncio.Event()
        """Until it is set, `slow` is not answered."""
        self.called = asyncio.Event()
        """Set once a call has come."""
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
        self.thinking.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        self.asked.append((verb, msgspec.json.decode(await request.read())))
        self.types.append(request.content_type)
        self.called.set()
        if verb == "slow":
            await self.thinking.wait()
        said = self.says.get(verb, 404)
        if isinstance(said, int):
            return web.Response(status=said, text="nothing for you")
        body = said if isinstance(said, bytes) else msgspec.json.encode(said)
        return web.Response(body=body, content_type="application/json")
