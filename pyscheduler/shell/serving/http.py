"""The scheduler's own HTTP server: is it alive, is it ready, what has it counted, what is it configured to do.

Endpoints and answers are those of kube-scheduler, so that probes, scrapes and habits carry over. A page is a path and
what makes its answer; before any is made, the guard is asked whether whoever asks may have it.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.shell.serving.webserver import Answer, Question, WebServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Page = Callable[[Question], Answer]
"""Makes the answer to a question that may be asked. BadQuestion if its query cannot be understood."""
AsyncPage = Callable[[Question], Awaitable[Answer]]
"""A Page that waits for other threads."""
Guard = Callable[[Question, bool], Awaitable[Answer | None]]
"""Told a question and whether it is about a page: what to say instead of an answer, None to give it."""

JSON: Final = "application/json; charset=utf-8"
_NOT_FOUND: Final = Answer(b"404 page not found\n", 404)
_READS: Final = ("GET", "HEAD")


class ServerProblem(Exception):
    """The server cannot be started; the message is one line."""


class BadQuestion(ValueError):
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

    async def _answer(self, question: Question) -> Answer:
        served = question.path in self._pages
        refusal = await self._guard(question, served)
        if refusal is not None:
            return refusal
        if not served:
            return _NOT_FOUND
        page = self._pages.get(question.path if question.method in _READS else f"{question.method} {question.path}")
        if page is None:
            return Answer(b"only GET and HEAD\n", 405)
        try:
            answer = page(question)
            return answer if isinstance(answer, Answer) else await answer
        except BadQuestion as problem:
            return Answer(f"{problem}\n".encode(), 400)


def json_page(make: Callable[[Question], Any]) -> Page:
    """A page that shows what `make` gives, as JSON that a person can read."""

    def page(question: Question) -> Answer:
        return json_answer(make(question))

    return page


def json_answer(value: Any) -> Answer:
    """A value as JSON that a person can read."""
    return Answer(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)), content_type=JSON)


def metrics_page(registry: Callable[[], CollectorRegistry]) -> Page:
    """The metrics in the form that is asked for."""

    def page(question: Question) -> Answer:
        # It brings a web server and e-mail along: nothing that a start should wait for.
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(question.headers.get("accept", ""))
        return Answer(encode(registry()), content_type=content_type)

    return page


def number(question: Question, name: str, default: int, most: int) -> int:
    """A number of the query, no more than `most`. BadQuestion if it is none."""
    given = question.query.get(name, [str(default)])[-1]
    if not (given.isascii() and given.isdigit()) or len(given) > len(str(most)) + 9:
        raise BadQuestion(f"{name}={given!r} is not a number")
    return min(int(given), most)
