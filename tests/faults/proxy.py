"""Stands between the scheduler and the API server, and makes trouble by rule.

It knows HTTP/1.1 just well enough to tell one call from another. What no rule is about goes through as it is, so that
behind each fault there is always a real answer: the one that was lost, came late, or was cut in two.
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
    """What the server said, or what a rule says in its place."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def written(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Said", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Exchange:
    """One call under way: what was asked, and what can be done about it."""

    def __init__(self, proxy: FaultProxy, asked: ProxiedRequest, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._proxy = proxy
        self._writer = writer

    async def forward(self) -> Answer:
        """What the server says to it. Nobody is told yet."""
        return await self._proxy.ask(self.asked)

    async def answer(self, answer: Answer) -> None:
        """Tell the client."""
        await self._send(answer.written())

    @property
    def is_silent(self) -> bool:
        """Return True if the client gets nothing any more."""
        return self._proxy.is_silent(self._writer)

    def silence(self) -> None:
        """Let this connection and all others that are open die without a sign."""
        self._proxy.silence()

    async def _send(self, data: bytes) -> None:
        if not self._proxy.is_silent(self._writer):
            self._writer.write(data)
            await self._writer.drain()

    async def answer_half(self, answer: Answer) -> None:
        """Tell the client, and break off in the middle of the body."""
        written = answer.written()
        self._writer.write(written[: len(written) - len(answer.body) // 2 - 1])
        await self._writer.drain()
        await asyncio.sleep(0.01)  # let it out before the connection goes
        self.reset()

    def reset(self) -> None:
        """Break the connection."""
        _reset(self._writer)

    async def stream(self, change: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> None:
        """A watch whose lines are told as `change` makes them, until it or the server ends; a refusal goes through."""
        async with self._proxy.opened(self.asked) as upstream:
            if upstream.status >= 300:
                await self.answer(await _whole(upstream))
                return
            await self._send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            async for line in change(aiter(upstream.content)):
                await self._send(b"%x\r\n%b\r\n" % (len(line), line))
            await self._send(b"0\r\n\r\n")


Fault = Callable[[Exchange], Awaitable[None]]


class Rule:
    """A fault for the calls that match, `times` of them, or all where that is None."""

    def __init__(self, matches: Matcher, fault: Fault, times: int | None) -> None:
        self.matches = matches
        self.fault = fault
        self.struck: list[ProxiedRequest] = []
        """The calls that it was about."""
        self._left = times
        self._changed = asyncio.Condition()

    def takes(self, asked: ProxiedRequest) -> bool:
        return self._left != 0 and self.matches(asked)

    def count(self, asked: ProxiedRequest) -> None:
        """It is about this call."""
        if self._left is not None:
            self._left -= 1
        self.struck.append(asked)

    async def strike(self, exchange: Exchange) -> None:
        """Do to it what the rule is there for."""
        async with self._changed:
            self._changed.notify_all()
        await self.fault(exchange)

    async def met(self, times: int = 1, seconds: float = SECONDS) -> None:
        """Wait until it has struck so often: a fault that did not happen shows nothing."""
        async with self._changed, asyncio.timeout(seconds):
            await self._changed.wait_for(lambda: len(self.struck) >= times)


class FaultProxy:
    """A proxy to one API server. Use it as an async context manager."""

    def __init__(
        self, server: str, trusting: ssl.SSLContext | None = None, serving: ssl.SSLContext | None = None
    ) -> None:
        """`trusting` is for the way to the server, `serving` for the way from the client; None is plain HTTP."""
        self.log: deque[ProxiedRequest] = deque(maxlen=REMEMBERED)
        """What was asked, faults counted in."""
        self.bound: Counter[str] = Counter()
        """How often the server has agreed to bind the pod `namespace/name`, whether or not anybody heard of it."""
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
        """How many connections clients have open."""
        return len(self._open)

    @property
    def watches(self) -> Counter[str]:
        """The watches under way, by path."""
        return Counter(asked.path for asked in self._open.values() if asked is not None and asked.is_watch)

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
        """Make this trouble until the block ends. Of several rules the one that came last goes first."""
        rule = Rule(matches, fault, times)
        self._rules.insert(0, rule)
        try:
            yield rule
        finally:
            self._rules.remove(rule)

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Nobody listens, and all that was open is broken, until the block ends."""
        self._close()
        try:
            yield
        finally:
            await self._listen()

    def cut(self, matches: Matcher = anything) -> int:
        """Break the calls under way that match; how many there were."""
        doomed = [writer for writer, asked in self._open.items() if asked is not None and matches(asked)]
        for writer in doomed:
            del self._open[writer]
            _reset(writer)
        return len(doomed)

    def silence(self) -> int:
        """Let all open connections die without a sign: TCP lives, bytes are swallowed both ways. Their number."""
        self._silent |= self._open.keys()
        return len(self._silent)

    def is_silent(self, writer: asyncio.StreamWriter) -> bool:
        """Return True if nothing may be written to this connection any more."""
        return writer in self._silent

    async def ask(self, asked: ProxiedRequest) -> Answer:
        """Ask the server, and note what it was talked into."""
        async with self.opened(asked) as upstream:
            answer = await _whole(upstream)
        if bindings(asked) and answer.status < 300:
            self.bound[asked.pod] += 1
        return answer

    @asynccontextmanager
    async def opened(self, asked: ProxiedRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """The server's answer as it comes."""
        assert self._session is not None
        headers = {name: value for name, value in asked.headers.items() if name in _PASSED_ON}
        url = self._server + asked.target
        async with self._session.request(asked.method, url, data=asked.body or None, headers=headers) as answer:
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
            while (asked := await _read(reader)) is not None:
                if writer in self._silent:
                    continue
                self._open[writer] = asked
                self.log.append(asked)
                await self._treat(Exchange(self, asked, writer), reader)
                self._open[writer] = None
        except (OSError, aiohttp.ClientError, asyncio.IncompleteReadError):
            pass  # whoever broke it, the other side is to see it broken
        finally:
            self._open.pop(writer, None)
            self._silent.discard(writer)
            writer.transport.abort()

    async def _treat(self, exchange: Exchange, reader: asyncio.StreamReader) -> None:
        rule = next((rule for rule in self._rules if rule.takes(exchange.asked)), None)
        if rule is not None:
            rule.count(exchange.asked)
            self.faults += 1
        work = asyncio.ensure_future(_through(exchange) if rule is None else rule.strike(exchange))
        if not exchange.asked.is_watch:
            await work
            return
        # A watch whose client has left is over, whether or not the server has something to say.
        left = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                if not exchange.is_silent:
                    work.result()
                await asyncio.wait({left} if exchange.is_silent else {work})
        finally:
            await _ended(work, left)
        raise ConnectionResetError("the watch is over, and with it its connection")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection as a peer does that has died: RST, not FIN."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if connection is not None:  # else it is gone already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _through(exchange: Exchange) -> None:
    if exchange.asked.is_watch:
        await exchange.stream(lambda lines: lines)
    else:
        await exchange.answer(await exchange.forward())


async def _ended(*tasks: asyncio.Future[None] | asyncio.Future[bytes]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _whole(upstream: aiohttp.ClientResponse) -> Answer:
    headers = {"Content-Type": upstream.headers.get("Content-Type", "application/json")}
    if "Retry-After" in upstream.headers:
        headers["Retry-After"] = upstream.headers["Retry-After"]
    return Answer(upstream.status, await upstream.read(), headers)


async def _read(reader: asyncio.StreamReader) -> ProxiedRequest | None:
    """The next call on a connection, None when there is none."""
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
    """A refusal as API servers write them."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body = json.dumps({**said, "reason": reason, "message": message}).encode()
    headers = {"Content-Type": "application/json"}
    return Answer(code, body, headers if retry_after is None else {**headers, "Retry-After": str(retry_after)})
