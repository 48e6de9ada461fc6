"""A web server for short questions over HTTP/1.1, with TLS or without.

Probes and scrapes ask for no more. A whole web framework takes a quarter of a second of CPU to import, which would be
most of what a scheduler of a small cluster spends on starting.

Whoever reaches the port shares the scheduler's one thread, so all is bounded: connections, the time that a handshake
may take, the size of a question. With all connections taken, the one that has been silent longest makes room: a probe
gets its answer however many connections somebody holds open.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from pyscheduler.shell import logs

TEXT: Final = "text/plain; charset=utf-8"
LONGEST_HEAD: Final = 32 * 1024
"""Bytes that a request may take."""
MOST_CONNECTIONS: Final = 32
HANDSHAKE: Final = 10.0
"""Seconds that a connection has for TLS."""
IDLE: Final = 90.0
"""Seconds after which a connection on which nothing is asked, or no answer is taken, is closed."""
GOODBYE: Final = 2.0
"""Seconds that the other side has to end TLS in good form."""
_DER = 2
"""The form of a certificate (`_ssl.ENCODING_DER`)."""
_RECOVERY = 1.0
"""Seconds to wait when no connection can be accepted: most likely there are no file descriptors left."""
_log = logs.get("http")
Subject = tuple[tuple[tuple[str, str], ...], ...]
"""Whom a certificate names, as the ssl module writes it."""


class Question(msgspec.Struct, frozen=True):
    """What somebody asks for: a path, its query parameters with all their values, and headers by lower-case name."""

    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    method: str = "GET"
    target: str = ""
    """Path and query as they were sent."""
    subject: Subject | None = None
    """Whose certificate came with the connection; None without one that was verified."""
    signer: bytes = b""
    """The authority at the root of that certificate's chain, itself a certificate (DER)."""
    pairs: tuple[tuple[str, str], ...] = ()
    """All headers as they were sent, those that were sent twice included, with lower-case names."""
    chunks: bool = True
    """Whether an answer may come in chunks; HTTP/1.0 does not know them."""


class Answer(msgspec.Struct, frozen=True):
    """What they are told: at once, or piece by piece so that no long answer holds the scheduler up."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    content_type: str = TEXT


class WebServer:
    """Calls `answer` with each question. Port 0 takes a free one, told by `port` once started.

    `tls` is asked for each connection, so that a new certificate is served without a restart; None serves plain HTTP.
    """

    def __init__(
        self,
        answer: Callable[[Question], Awaitable[Answer]],
        address: str,
        port: int,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
    ) -> None:
        self.port = port
        self._answer = answer
        self._address = address
        self._tls = tls
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], None] = {}
        """In the order in which they were last heard of."""

    async def start(self) -> None:
        """Listen. OSError if the address is taken or not ours."""
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        both = self._address == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server((self._address, self.port), family=family, dualstack_ipv6=both)
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listener))

    async def stop(self) -> None:
        """Stop listening and close all connections, answers under way with them."""
        if self._accepting is None:
            return
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    connected, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError as problem:
                    _log.warning("A connection could not be accepted", problem)
                    await asyncio.sleep(_RECOVERY)
                    continue
                if len(self._connections) >= MOST_CONNECTIONS:
                    oldest = next(iter(self._connections))
                    del self._connections[oldest]
                    oldest.cancel()
                task = asyncio.create_task(self._converse(connected))
                self._connections[task] = None
                task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _converse(self, connected: socket.socket) -> None:
        """All questions of one connection."""
        try:
            async with asyncio.timeout(HANDSHAKE):
                reader, writer = await self._opened(connected)
        except (OSError, TimeoutError) as problem:
            _log.info("A connection was not made", v=4, err=str(problem))
            return
        try:
            while await self._one(reader, writer):
                pass
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.close()  # whoever asked has gone
        except Exception as problem:
            _log.crash("An answer broke off", problem)
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _opened(self, connected: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection ready for questions, TLS agreed upon."""
        loop = asyncio.get_running_loop()
        try:
            context = await self._tls() if self._tls else None
        except BaseException:
            connected.close()
            raise
        reader = asyncio.StreamReader(LONGEST_HEAD, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        limits: dict[str, Any] = {}
        if context is not None:
            limits = {"ssl": context, "ssl_handshake_timeout": HANDSHAKE, "ssl_shutdown_timeout": GOODBYE}
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connected, **limits)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the next question; whether there may be another."""
        try:
            async with asyncio.timeout(IDLE):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return await _send(writer, Answer(b"the request is too long\n", 431), last=True)
        self._heard_of()
        try:
            question = _read(head, *_peer(writer))
        except ValueError as problem:
            return await _send(writer, Answer(f"{problem}\n".encode(), 400), last=True)
        last = question.headers.get("connection", "").lower() == "close" or not question.chunks
        return await _send(writer, await self._answered(question), last, question)

    def _heard_of(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = self._connections.pop(task)

    async def _answered(self, question: Question) -> Answer:
        try:
            return await self._answer(question)
        except Exception as problem:
            _log.crash("A question could not be answered", problem, path=question.path)
            return Answer(b"internal error\n", 500)


def _peer(writer: asyncio.StreamWriter) -> tuple[Subject | None, bytes]:
    """Whose certificate came with the connection, and the root of its chain."""
    subject: Subject | None = (writer.get_extra_info("peercert") or {}).get("subject")
    return subject, b"" if subject is None else _root(writer.get_extra_info("ssl_object"))


def _root(connection: Any) -> bytes:
    """The last certificate of the chain that was verified; b"" if this Python does not tell."""
    if hasattr(connection, "get_verified_chain"):  # Python 3.13 and later
        chain = connection.get_verified_chain()
        return bytes(chain[-1]) if chain else b""
    # Before that only a client's own certificate is public, which tells nothing of who is behind an intermediate one.
    chain = getattr(connection._sslobj, "get_verified_chain", tuple)()
    return bytes(chain[-1].public_bytes(_DER)) if chain else b""


def _read(head: bytes, subject: Subject | None, signer: bytes = b"") -> Question:
    """A request. ValueError, to be told to whoever sent it, if it is none."""
    request, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = request.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise ValueError("only HTTP/1.1 is spoken here")
    pairs = [line.partition(":") for line in lines]
    if any(not colon or name != name.strip() for name, colon, _ in pairs):
        raise ValueError("a header cannot be read")
    sent = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    headers = dict(sent)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise ValueError("a request has no body here")
    method, target, version = words
    path, _, query = target.partition("?")
    asked = parse_qs(query, keep_blank_values=True)
    return Question(unquote(path), asked, headers, method, target, subject, signer, sent, chunks=version == "HTTP/1.1")


async def _send(writer: asyncio.StreamWriter, answer: Answer, last: bool, question: Question | None = None) -> bool:
    """Write an answer; whether the connection stays open after it."""
    body = answer.body
    if not isinstance(body, bytes) and question is not None and not question.chunks:
        body = b"".join([piece async for piece in body])
    lines = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache, private",
        f"Content-Length: {len(body)}" if isinstance(body, bytes) else "Transfer-Encoding: chunked",
        *(("Connection: close",) if last else ()),
    )
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    if question is not None and question.method == "HEAD":
        await _write(writer, head)
    elif isinstance(body, bytes):
        await _write(writer, head + body)
    else:
        await _write(writer, head)
        async for piece in body:
            await _write(writer, b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
        await _write(writer, b"0\r\n\r\n")
    return not last


async def _write(writer: asyncio.StreamWriter, content: bytes) -> None:
    async with asyncio.timeout(IDLE):
        writer.write(content)
        await writer.drain()
