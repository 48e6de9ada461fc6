"""The scheduler's own HTTP server: is it alive, is it ready, what has it counted, what is it configured to do.

Endpoints and answers are those of kube-scheduler, so that probes, scrapes and habits carry over. A page is a path and
what makes its answer; before any is made, the guard is asked whether whoever asks may have it.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.shell.serving.webserver import Request, Response, WebServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Page = Callable[[Request], Response]
"""Makes the answer to a request that may be asked. BadRequest if its query cannot be understood."""
AsyncPage = Callable[[Request], Awaitable[Response]]
"""A Page that waits for other threads."""
Guard = Callable[[Request, bool], Awaitable[Response | None]]
"""Told a request and whether it is about a page: what to say instead of an answer, None to give it."""

JSON: Final = "application/json; charset=utf-8"
_NOT_FOUND: Final = Response(b"404 page not found\n", 404)
_READS: Final = ("GET", "HEAD")


class ServerProblem(Exception):
    """The server cannot be started; the message is one line."""


class BadRequest(ValueError):
    """The query says something that the page cannot understand; the message is for whoever asked."""


class HttpServer:
    """Serves pages by their path, or by `METHOD /path` where something is done; port 0 takes a free one."""

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
        self._server = WebServer(self._answer, bind_address, port, tls)

    @property
    def port(self) -> int:
        """Where it listens, once started."""
        return self._server.port

    async def start(self) -> None:
        """Listen. ServerProblem if the address is taken or not ours."""
        try:
            await self._server.start()
        except OSError as problem:
            reason = " ".join((problem.strerror or str(problem)).split()).lower()
            raise ServerProblem(
                f"cannot serve health and metrics on {self._address}:{self.port}: {reason}; "
                "choose another with --bind-address and --secure-port"
            ) from None

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.stop()

    async def _answer(self, request: Request) -> Response:
        served = request.path in self._pages
        refusal = await self._guard(request, served)
        if refusal is not None:
            return refusal
        if not served:
            return _NOT_FOUND
        page = self._pages.get(request.path if request.method in _READS else f"{request.method} {request.path}")
        if page is None:
            return Response(b"only GET and HEAD\n", 405)
        try:
            answer = page(request)
            return answer if isinstance(answer, Response) else await answer
        except BadRequest as problem:
            return Response(f"{problem}\n".encode(), 400)


def json_page(make: Callable[[Request], Any]) -> Page:
    """A page that shows what `make` gives, as JSON that a person can read."""

    def page(request: Request) -> Response:
        return json_answer(make(request))

    return page


def json_answer(value: Any) -> Response:
    """A value as JSON that a person can read."""
    return Response(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)), content_type=JSON)


def metrics_page(registry: Callable[[], CollectorRegistry]) -> Page:
    """The metrics in the form that is asked for."""

    def page(request: Request) -> Response:
        # It brings a web server and e-mail along: nothing that a start should wait for.
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry()), content_type=content_type)

    return page


def number(request: Request, name: str, default: int, most: int) -> int:
    """A number of the query, no more than `most`. BadRequest if it is none."""
    given = request.query.get(name, [str(default)])[-1]
    if not (given.isascii() and given.isdigit()) or len(given) > len(str(most)) + 9:
        raise BadRequest(f"{name}={given!r} is not a number")
    return min(int(given), most)
