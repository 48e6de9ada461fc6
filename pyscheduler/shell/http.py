"""The scheduler's own HTTP server: is it alive, is it ready, what has it counted, what is it configured to do.

Endpoints, answers and query parameters (`verbose`, `exclude`) are those of Kubernetes components, so that probes and
habits carry over.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.shell.webserver import Answer, Question, WebServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Check = Callable[[], str | None]
"""None if all is well, otherwise what is not, in a few words."""
Page = Callable[[], Any]
"""Something that can be shown as JSON, made when it is asked for."""

ENDPOINTS: Final = ("healthz", "livez", "readyz")
_NOT_FOUND: Final = Answer(b"404 page not found\n", 404)


class ServerProblem(Exception):
    """The server cannot be started; the message is one line."""


class Checks(msgspec.Struct, frozen=True):
    """The checks by name; `live` is asked by /livez and /healthz, `live` and `ready` by /readyz."""

    live: Mapping[str, Check] = msgspec.field(default_factory=dict)
    ready: Mapping[str, Check] = msgspec.field(default_factory=dict)

    def of(self, endpoint: str) -> dict[str, Check]:
        """All that an endpoint asks, `ping` first: an answer at all is the first sign of life."""
        asked: dict[str, Check] = {"ping": lambda: None, **self.live}
        return asked | dict(self.ready) if endpoint == "readyz" else asked


class HttpServer:
    """Serves health, metrics and `pages` (paths such as /configz). Port 0 takes a free one, told by `port`."""

    def __init__(
        self,
        checks: Checks,
        registry: Callable[[], CollectorRegistry],
        bind_address: str = "0.0.0.0",
        port: int = 10259,
        ssl_context: ssl.SSLContext | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._address = bind_address
        self._checks = checks
        self._registry = registry
        self._pages = dict(pages or {})
        self._server = WebServer(self._answer, bind_address, port, ssl_context)

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

    def _answer(self, question: Question) -> Answer:
        _, endpoint, *rest = question.path.split("/")
        if endpoint in ENDPOINTS and len(rest) <= 1:
            return self._one_check(endpoint, rest[0]) if rest else self._health(endpoint, question)
        if question.path == "/metrics":
            # It brings a web server and e-mail along: nothing that a start should wait for.
            from prometheus_client.exposition import choose_encoder

            encode, content_type = choose_encoder(question.headers.get("accept", ""))
            return Answer(encode(self._registry()), content_type=content_type)
        if question.path in self._pages:
            body = msgspec.json.encode(self._pages[question.path](), enc_hook=str)
            return Answer(msgspec.json.format(body), content_type="application/json; charset=utf-8")
        return _NOT_FOUND

    def _health(self, endpoint: str, question: Question) -> Answer:
        excluded = question.query.get("exclude", ())
        checks = {name: check for name, check in self._checks.of(endpoint).items() if name not in excluded}
        problems = {name: check() for name, check in checks.items()}
        failed = any(problems.values())
        if not failed and "verbose" not in question.query:
            return Answer(b"ok")
        lines = [f"[-]{n} failed: {p}" if p else f"[+]{n} ok" for n, p in problems.items()]
        lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
        return Answer(("\n".join(lines) + "\n").encode(), 500 if failed else 200)

    def _one_check(self, endpoint: str, name: str) -> Answer:
        check = self._checks.of(endpoint).get(name)
        if check is None:
            return _NOT_FOUND
        problem = check()
        return Answer(f"failed: {problem}\n".encode(), 500) if problem else Answer(b"ok")
