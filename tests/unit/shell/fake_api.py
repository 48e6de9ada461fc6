"""A scripted API server with the manners of bad ones: every ugly behaviour has a name here, and a test.

A test says what each path answers, in order; a watch for which nothing is scripted stays open and silent. Anything
else without a script is refused with 418, so that a call which the test did not expect is seen.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """An answer in chunks; `cut` breaks the connection at the end instead of ending the answer."""

    chunks: tuple[bytes, ...]
    cut: bool = False


class Hangup:
    """The connection is closed before any answer."""


@dataclass(frozen=True)
class Held:
    """An answer that waits until the test lets it go."""

    then: Reply | Stream | Hangup
    release: asyncio.Event = field(default_factory=asyncio.Event)


Answer = Reply | Stream | Hangup | Held


@dataclass(frozen=True)
class Call:
    """What the server was asked."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    content_type: str
    authorization: str
    accept: str = ""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def ok(body: Json) -> Reply:
    return Reply(body=msgspec.json.encode(body))


def refused(code: int, reason: str = "", message: str = "", retry_after: int | None = None) -> Reply:
    """A Status, as API servers refuse."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(code, msgspec.json.encode(status | {"reason": reason, "message": message}), headers)


def expired() -> Reply:
    return refused(410, "Expired", "too old resource version: 1 (9)")


def listed(*items: Json, version: int = 10, next: str = "") -> Reply:
    """A page of a list."""
    return ok({"metadata": {"resourceVersion": str(version), "continue": next}, "items": list(items)})


def event(kind: str, obj: Json) -> bytes:
    """A line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return event(
        "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}, "spec": {"containers": None}}
    )


def watch(*lines: bytes, cut: bool = False) -> Stream:
    return Stream(lines, cut)


class FakeApi:
    """`script(path, answers)` says what a path answers; `calls` is what was asked (without /version)."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.url = ""
        self.calling = asyncio.Condition()
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._runner: web.AppRunner | None = None
        self._closing = asyncio.Event()

    def script(self, path: str, *answers: Answer) -> None:
        self._scripts[path].extend(answers)

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def of(self, method: str, path: str = "") -> list[Call]:
        """The calls of one method, to paths that end like this."""
        return [call for call in self.calls if call.method == method and call.path.endswith(path)]

    async def called(self, times: int) -> None:
        """Wait until the server has been asked so often."""
        async with self.calling, asyncio.timeout(5):
            await self.calling.wait_for(lambda: len(self.calls) >= times)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version" and not self._scripts["/version"]:
            return web.json_response({"major": "1"})
        call = Call(
            request.method,
            request.path,
            dict(request.query),
            await request.read(),
            request.content_type,
            request.headers.get("Authorization", ""),
            request.headers.get("Accept", ""),
        )
        async with self.calling:
            self.calls.append(call)
            self.calling.notify_all()
        script = self._scripts[request.path]
        if not script and "watch" in request.query:
            return await self._silence(request)
        return await self._answer(request, script.popleft() if script else refused(418, "Unscripted", request.path))

    async def _answer(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        if isinstance(answer, Held):
            await answer.release.wait()
            return await self._answer(request, answer.then)
        if isinstance(answer, Reply):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        assert request.transport is not None
        if isinstance(answer, Hangup):
            request.transport.abort()
            return web.Response()
        return await self._stream(request, answer.chunks, answer.cut)

    async def _stream(self, request: web.Request, chunks: Iterable[bytes], cut: bool) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if cut:
            await asyncio.sleep(0.01)  # let the chunks out before the connection goes
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _silence(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self._closing.wait()
        return response
