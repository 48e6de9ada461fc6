"""Embedded API server: `Api` over HTTP on a local port, in this process and without files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
from pathlib import Path

from aiohttp import web

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.handlers.router import Router
from pyscheduler.embedded.housekeeping import delete_expired_events
from pyscheduler.embedded.kubeconfig import write_kubeconfig

_MAX_BODY = 3 * 2**20  # as the real server's request limit
_SHUTDOWN_SECONDS = 2.0
_HOUSEKEEPING_SECONDS = 60.0
_RECOUNT_SECONDS = 0.2


class ApiServerError(Exception):
    """The server cannot start; the message is one line with the cause and the remedy."""


class ApiServer:
    """Kubernetes API server in this process.

    It serves plain HTTP without authentication, so it listens on the loopback interface unless `host` is given, and
    rejects cross-origin requests of web pages. The token in its kubeconfig is for token reviews.
    `api` is the server without HTTP, for controllers and tests in this process.
    """

    def __init__(self, port: int = 0, host: str = "127.0.0.1", api: Api | None = None) -> None:
        self.api = api or Api()
        self._host, self._port = host, port
        self._runner: web.ServerRunner | None = None
        self._housekeeping: asyncio.Task[None] | None = None
        self._token = secrets.token_urlsafe()
        self._router = Router(self.api, host, lambda: f"{self._host}:{self._port}", self._token)

    @property
    def url(self) -> str:
        """URL of the server, valid after `start`."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen. ApiServerError if the address is not available or the server is running."""
        if self._runner is not None:
            raise ApiServerError(f"the API server at {self.url} is already running")
        server = web.Server(self._router.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise ApiServerError(self._listen_error(error)) from None
        self._runner = runner
        self._port = runner.addresses[0][1]
        self._housekeeping = asyncio.create_task(self._run_housekeeping())

    def _listen_error(self, error: OSError) -> str:
        place = f"{self._host}:{self._port}"
        if error.errno == errno.EADDRINUSE:
            return f"{place} is in use; choose another port, or 0 for any that is free"
        return f"the API server cannot listen on {place}: {error.strerror or error}"

    async def stop(self) -> None:
        """End all watches, close all connections and release the port. No-op if the server is not running."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._housekeeping
        self._router.watches.close()
        await runner.cleanup()

    def write_kubeconfig(self, path: str | Path) -> Path:
        """Write a kubeconfig for this server to `path`."""
        return write_kubeconfig(path, self.url, self._token)

    async def _run_housekeeping(self) -> None:
        while True:
            for _ in range(int(_HOUSEKEEPING_SECONDS / _RECOUNT_SECONDS)):
                await asyncio.sleep(_RECOUNT_SECONDS)
                self.api.sync_disruption_budgets()
            delete_expired_events(self.api.state)

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
