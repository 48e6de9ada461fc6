"""HTTP proxy between the scheduler and the API server that injects faults by rules.

It implements as much of HTTP/1.1 as needed to match requests. Requests without a rule pass unchanged; a fault loses,
delays or truncates the real response of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, urlsplit

import aiohttp

from tests.faults.request_matchers import Matcher, ProxiedRequest, anything, bindings
from tests.faults.waiting import SECONDS

REMEMBERED = 20_000
_LINE = 1 << 22
_PASSED_ON = ("authorization", "accept", "content-type", "user-agent")
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


@dataclass(frozen=True)
class Answer:
    """Response of the server, or of a rule in its place."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Status", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Exchange:
    """Request in progress, with the actions that a fault can take."""

    def __init__(self, proxy: FaultProxy, request: ProxiedRequest, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._proxy = proxy
        self._writer = writer

    async def forward(self) -> Answer:
        """Send the request to the server and return its response, without sending it to the client."""
        return await self._proxy.send(self.request)

    async def answer(self, answer: Answer) -> None:
        """Send a response to the client."""
        await self._send(answer.encode())

    @property
    def is_silent(self) -> bool:
        """Return True if the connection to the client is silenced."""
        return self._proxy.is_silent(self._writer)

    def silence(self) -> None:
        """Silence this connection and all others that are open."""
        self._proxy.silence()

    async def _send(self, data: bytes) -> None:
        if not self._proxy.is_silent(self._writer):
            self._writer.write(data)
            await self._writer.drain()

    async def answer_half(self, answer: Answer) -> None:
        """Send half of the body to the client, then reset the connection."""
        data = answer.encode()
        self._writer.write(data[: len(data) - len(answer.body) // 2 - 1])
        await self._writer.drain()
        await asyncio.sleep(0.01)  # the bytes must leave before the reset
        self.reset()

    def reset(self) -> None:
        """Reset the connection."""
        _reset(self._writer)

    async def stream(self, change: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> None:
        """Stream the lines of a watch through `change` until either side ends; an error status passes unchanged."""
        async with self._proxy.opened(self.request) as upstream:
            if upstream.status >= 300:
                await self.answer(await _whole(upstream))
                return
            await self._send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            async for line in change(aiter(upstream.content)):
                await self._send(b"%x\r\n%b\r\n" % (len(line), line))
            await self._send(b"0\r\n\r\n")


Fault = Callable[[Exchange], Awaitable[None]]


class Rule:
    """Fault for the first `times` matching requests, for all if None."""

    def __init__(self, matches: Matcher, fault: Fault, times: int | None) -> None:
        self.matches = matches
        self.fault = fault
        self.matched: list[ProxiedRequest] = []
        """Requests that the fault was applied to."""
        self._left = times
        self._changed = asyncio.Condition()

    def applies_to(self, request: ProxiedRequest) -> bool:
        return self._left != 0 and self.matches(request)

    def count(self, request: ProxiedRequest) -> None:
        """Record that the fault is applied to this request."""
        if self._left is not None:
            self._left -= 1
        self.matched.append(request)

    async def apply(self, exchange: Exchange) -> None:
        """Apply the fault."""
        async with self._changed:
            self._changed.notify_all()
        await self.fault(exchange)

    async def wait_matched(self, times: int = 1, seconds: float = SECONDS) -> None:
        """Wait until the fault was applied that often: without the fault the test proves nothing."""
        async with self._changed, asyncio.timeout(seconds):
            await self._changed.wait_for(lambda: len(self.matched) >= times)


class FaultProxy:
    """Proxy to one API server. Use it as an async context manager."""

    def __init__(
        self, server: str, trusting: ssl.SSLContext | None = None, serving: ssl.SSLContext | None = None
    ) -> None:
        """`trusting` is the TLS context to the server, `serving` that for clients; None means plain HTTP."""
        self.log: deque[ProxiedRequest] = deque(maxlen=REMEMBERED)
        """Requests received, including those with faults."""
        self.bound: Counter[str] = Counter()
        """Bindings that the server accepted, by pod as `namespace/name`, also if the response was lost."""
        self.faults = 0
        self._server = server
        self._trusting, self._serving = trusting, serving
        self._rules: list[Rule] = []
        self._open: dict[asyncio.StreamWriter, ProxiedRequest | None] = {}
        self._silent: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None
        self._session: aiohttp.ClientSession | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._serving else 'http'}://127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """Number of open client connections."""
        return len(self._open)

    @property
    def watches(self) -> Counter[str]:
        """Open watches by path."""
        return Counter(request.path for request in self._open.values() if request is not None and request.is_watch)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._trusting if self._trusting is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=_NO_TIMEOUT, read_bufsize=_LINE, skip_auto_headers=("Accept-Encoding",)
        )
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()
        if self._session is not None:
            await self._session.close()

    @contextmanager
    def rule(self, matches: Matcher, fault: Fault, times: int | None = None) -> Iterator[Rule]:
        """Add a rule until the block ends. The rule added last has precedence."""
        rule = Rule(matches, fault, times)
        self._rules.insert(0, rule)
        try:
            yield rule
        finally:
            self._rules.remove(rule)

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Refuse connections and reset the open ones, until the block ends."""
        self._close()
        try:
            yield
        finally:
            await self._listen()

    def cut(self, matches: Matcher = anything) -> int:
        """Reset the connections of matching requests in progress; return their number."""
        matching = [writer for writer, request in self._open.items() if request is not None and matches(request)]
        for writer in matching:
            del self._open[writer]
            _reset(writer)
        return len(matching)

    def silence(self) -> int:
        """Silence all open connections and return their number: TCP stays open, bytes are dropped both ways."""
        self._silent |= self._open.keys()
        return len(self._silent)

    def is_silent(self, writer: asyncio.StreamWriter) -> bool:
        """Return True if the connection is silenced."""
        return writer in self._silent

    async def send(self, request: ProxiedRequest) -> Answer:
        """Send the request to the server, count an accepted binding, and return the response."""
        async with self.opened(request) as upstream:
            answer = await _whole(upstream)
        if bindings(request) and answer.status < 300:
            self.bound[request.pod] += 1
        return answer

    @asynccontextmanager
    async def opened(self, request: ProxiedRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request to the server and yield its response for streaming."""
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name in _PASSED_ON}
        url = self._server + request.target
        async with self._session.request(request.method, url, data=request.body or None, headers=headers) as answer:
            yield answer

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=self._serving, limit=_LINE, backlog=256
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for writer in list(self._open):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        try:
            while (request := await _read(reader)) is not None:
                if writer in self._silent:
                    continue
                self._open[writer] = request
                self.log.append(request)
                await self._treat(Exchange(self, request, writer), reader)
                self._open[writer] = None
        except (OSError, aiohttp.ClientError, asyncio.IncompleteReadError):
            pass  # one side broke the connection; closing it below breaks the other side too
        finally:
            self._open.pop(writer, None)
            self._silent.discard(writer)
            writer.transport.abort()

    async def _treat(self, exchange: Exchange, reader: asyncio.StreamReader) -> None:
        rule = next((rule for rule in self._rules if rule.applies_to(exchange.request)), None)
        if rule is not None:
            rule.count(exchange.request)
            self.faults += 1
        work = asyncio.ensure_future(_through(exchange) if rule is None else rule.apply(exchange))
        if not exchange.request.is_watch:
            await work
            return
        # End the watch as soon as the client has closed it, even if the server sends nothing.
        closed = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                if not exchange.is_silent:
                    work.result()
                await asyncio.wait({closed} if exchange.is_silent else {work})
        finally:
            await _cancel(work, closed)
        raise ConnectionResetError("the watch has ended; close its connection")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection like a crashed peer: RST, not FIN."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if connection is not None:  # None if it is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _through(exchange: Exchange) -> None:
    if exchange.request.is_watch:
        await exchange.stream(lambda lines: lines)
    else:
        await exchange.answer(await exchange.forward())


async def _cancel(*tasks: asyncio.Future[None] | asyncio.Future[bytes]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _whole(upstream: aiohttp.ClientResponse) -> Answer:
    headers = {"Content-Type": upstream.headers.get("Content-Type", "application/json")}
    if "Retry-After" in upstream.headers:
        headers["Retry-After"] = upstream.headers["Retry-After"]
    return Answer(upstream.status, await upstream.read(), headers)


async def _read(reader: asyncio.StreamReader) -> ProxiedRequest | None:
    """Read the next request of a connection, None at its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return ProxiedRequest(method, target, parts.path, query, headers, body)


def status(code: int, reason: str, message: str, retry_after: int | None = None) -> Answer:
    """Return an error response as API servers write it."""
    fields = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body = json.dumps({**fields, "reason": reason, "message": message}).encode()
    headers = {"Content-Type": "application/json"}
    return Answer(code, body, headers if retry_after is None else {**headers, "Retry-After": str(retry_after)})
