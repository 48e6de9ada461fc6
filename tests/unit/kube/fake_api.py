"""Scripted API server that can misbehave: broken streams, hangups, delayed responses.

A test scripts the responses of each path, in order; an unscripted watch stays open and silent. All other unscripted
calls get 418, so that an unexpected call is noticed.
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
    """A complete response."""

    status: int = 200
    body: bytes = b"{}"
    headers: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """A response in chunks; `cut` breaks the connection instead of ending the response."""

    chunks: tuple[bytes, ...]
    cut: bool = False


class Hangup:
    """Close the connection without a response."""


@dataclass(frozen=True)
class Held:
    """A response that waits until the test sets `release`."""

    then: Reply | Stream | Hangup
    release: asyncio.Event = field(default_factory=asyncio.Event)


Answer = Reply | Stream | Hangup | Held


@dataclass(frozen=True)
class Call:
    """A received call."""

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
    """Return an error response with a Status."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(code, msgspec.json.encode(status | {"reason": reason, "message": message}), headers)


def expired() -> Reply:
    return refused(410, "Expired", "too old resource version: 1 (9)")


def listed(*items: Json, version: int = 10, next: str = "") -> Reply:
    """Return a page of a list."""
    return ok({"metadata": {"resourceVersion": str(version), "continue": next}, "items": list(items)})


def event(kind: str, obj: Json) -> bytes:
    """Return a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return event(
        "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}, "spec": {"containers": None}}
    )


def watch(*lines: bytes, cut: bool = False) -> Stream:
    return Stream(lines, cut)


class FakeApi:
    """Fake API server: `script` sets the responses of a path; `calls` holds the received calls except /version."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.url = ""
        self.calling = asyncio.Condition()
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._lists: dict[str, Answer] = {}
        self._runner: web.AppRunner | None = None
        self._closing = asyncio.Event()

    def script(self, path: str, *answers: Answer) -> None:
        self._scripts[path].extend(answers)

    def always_list(self, path: str, answer: Answer) -> None:
        """Answer each list of a path so, also after a lost connection."""
        self._lists[path] = answer

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
        """Return the calls of a method to paths that end with `path`."""
        return [call for call in self.calls if call.method == method and call.path.endswith(path)]

    async def called(self, times: int) -> None:
        """Wait until the server has received that many calls."""
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
        if not script and request.method == "GET" and request.path in self._lists:
            return await self._answer(request, self._lists[request.path])
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
            await asyncio.sleep(0.01)  # send the chunks before closing the connection
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _silence(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self._closing.wait()
        return response
