"""HTTPS endpoints of the scheduler: health, metrics, configuration, debugging.

Paths and responses are kube-scheduler's, so that probes, scrapers and scripts work unchanged. A page is a path with a
function that creates the response; the authorization filter runs before it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.webserver import WebServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Page = Callable[[ServerRequest], ServerResponse]
"""Returns the response to an authorized request. BadRequest for an invalid query."""
AsyncPage = Callable[[ServerRequest], Awaitable[ServerResponse]]
"""A Page that runs work in other threads."""
Guard = Callable[[ServerRequest, bool], Awaitable[ServerResponse | None]]
"""Receives a request and True if its page exists; returns an error response, or None if it is allowed."""

JSON: Final = "application/json; charset=utf-8"
_NOT_FOUND: Final = ServerResponse(b"404 page not found\n", 404)
_READS: Final = ("GET", "HEAD")


class ServerProblem(Exception):
    """The server cannot start; the message is one line."""


class BadRequest(ValueError):
    """The query is invalid; the message is the response."""


class HttpServer:
    """Serves pages by path, or by `METHOD /path` for other methods than GET and HEAD; port 0 picks a free one."""

    def __init__(
        self,
        pages: Mapping[str, Page | AsyncPage],
        guard: Guard,
        bind_address: str = "0.0.0.0",
        port: int = 10259,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
    ) -> None:
        self._address = bind_address
        self._pages = dict(pages)
        self._guard = guard
        self._server = WebServer(self._respond, bind_address, port, tls)

    @property
    def port(self) -> int:
        """The port, once started."""
        return self._server.port

    async def start(self) -> None:
        """Listen. ServerProblem if the address is in use or not local."""
        try:
            await self._server.start()
        except OSError as problem:
            # A name that does not resolve has a negative number, of which os.strerror knows nothing.
            number = problem.errno or 0
            known = os.strerror(number) if number > 0 else problem.strerror or str(problem)
            reason = known.partition(" (while ")[0].lower()
            raise ServerProblem(
                f"cannot serve health and metrics on {self._address}:{self.port}: {reason}; "
                "choose another with --bind-address and --secure-port"
            ) from None

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        await self._server.stop()

    async def _respond(self, request: ServerRequest) -> ServerResponse:
        served = request.path in self._pages
        refusal = await self._guard(request, served)
        if refusal is not None:
            return refusal
        if not served:
            return _NOT_FOUND
        page = self._pages.get(request.path if request.method in _READS else f"{request.method} {request.path}")
        if page is None:
            return ServerResponse(b"only GET and HEAD\n", 405)
        try:
            response = page(request)
            return response if isinstance(response, ServerResponse) else await response
        except BadRequest as problem:
            return ServerResponse(f"{problem}\n".encode(), 400)


def json_page(make: Callable[[ServerRequest], Any]) -> Page:
    """Return a page with the result of `make` as indented JSON."""

    def page(request: ServerRequest) -> ServerResponse:
        return json_response(make(request))

    return page


def json_response(value: Any) -> ServerResponse:
    """Return a response with a value as indented JSON."""
    return ServerResponse(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)), content_type=JSON)


def metrics_page(registry: Callable[[], CollectorRegistry]) -> Page:
    """Return a page with the metrics in the format of the Accept header."""

    def page(request: ServerRequest) -> ServerResponse:
        # prometheus_client imports a web server and e-mail modules, which would slow down the start.
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return ServerResponse(encode(registry()), content_type=content_type)

    return page


def number(request: ServerRequest, name: str, default: int, most: int) -> int:
    """Return a number in the query, at most `most`. BadRequest if it is not a number."""
    given = request.query.get(name, [str(default)])[-1]
    if not (given.isascii() and given.isdigit()) or len(given) > len(str(most)) + 9:
        raise BadRequest(f"{name}={given!r} is not a number")
    return min(int(given), most)
