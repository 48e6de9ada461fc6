"""The scheduler's own HTTP server: is it alive, is it ready, what has it counted, what is it configured to do.

Endpoints, answers and query parameters (`verbose`, `exclude`) are those of Kubernetes components, so that probes and
habits carry over.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Check = Callable[[], str | None]
"""None if all is well, otherwise what is not, in a few words."""
Page = Callable[[], Any]
"""Something that can be shown as JSON, made when it is asked for."""

ENDPOINTS: Final = ("healthz", "livez", "readyz")
_CLOSE_WITHIN = 1.0


class ServerProblem(Exception):
    """The server cannot be started; the message is one line."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks by name; `live` is asked by /livez and /healthz, `live` and `ready` by /readyz."""

    live: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)

    def of(self, endpoint: str) -> dict[str, Check]:
        """All that an endpoint asks, `ping` first: an answer at all is the first sign of life."""
        asked: dict[str, Check] = {"ping": lambda: None, **self.live}
        return asked | dict(self.ready) if endpoint == "readyz" else asked


class HttpServer:
    """Serves health, metrics and `pages` (paths such as /configz). Port 0 takes a free one, told by `port`."""

    def __init__(
        self,
        checks: Checks,
        registry: CollectorRegistry,
        bind_address: str = "0.0.0.0",
        port: int = 10259,
        ssl_context: ssl.SSLContext | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self.port = port
        self._address = bind_address
        self._ssl = ssl_context
        self._checks = checks
        self._registry = registry
        app = web.Application()
        for endpoint in ENDPOINTS:
            app.router.add_get(f"/{endpoint}", self._health(endpoint))
            app.router.add_get(f"/{endpoint}/{{check}}", self._one_check(endpoint))
        app.router.add_get("/metrics", self._metrics)
        for path, page in (pages or {}).items():
            app.router.add_get(path, _shown(page))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_WITHIN)

    async def start(self) -> None:
        """Listen. ServerProblem if the address is taken or not ours."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, self.port, ssl_context=self._ssl)
        try:
            await site.start()
        except OSError as problem:
            await self._runner.cleanup()
            reason = " ".join((problem.strerror or str(problem)).split()).lower()
            raise ServerProblem(
                f"cannot serve health and metrics on {self._address}:{self.port}: {reason}; "
                "choose another with --bind-address and --secure-port"
            ) from None
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening and answer what is under way."""
        await self._runner.cleanup()

    def _health(self, endpoint: str) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            excluded = request.query.getall("exclude", [])
            checks = {name: check for name, check in self._checks.of(endpoint).items() if name not in excluded}
            problems = {name: check() for name, check in checks.items()}
            failed = any(problems.values())
            if not failed and "verbose" not in request.query:
                return web.Response(text="ok")
            lines = [f"[-]{n} failed: {p}" if p else f"[+]{n} ok" for n, p in problems.items()]
            lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
            return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)

        return handle

    def _one_check(self, endpoint: str) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            check = self._checks.of(endpoint).get(request.match_info["check"])
            if check is None:
                return web.Response(text="404 page not found\n", status=404)
            problem = check()
            return web.Response(text=f"failed: {problem}\n", status=500) if problem else web.Response(text="ok")

        return handle

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _shown(page: Page) -> _Handler:
    async def handle(_: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(page(), enc_hook=str))
        return web.Response(body=body, content_type="application/json")

    return handle
