"""A web server for short questions: GET and HEAD over HTTP/1.1, every answer at once.

Probes and scrapes ask for no more. A whole web framework takes a quarter of a second of CPU to import, which would be
most of what a scheduler of a small cluster spends on starting.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from pyscheduler.shell import logs

TEXT: Final = "text/plain; charset=utf-8"
LONGEST_HEAD: Final = 32 * 1024
"""Bytes that a request may take."""
IDLE: Final = 90.0
"""Seconds after which a connection on which nothing is asked is closed."""
_log = logs.get("http")


class Question(msgspec.Struct, frozen=True):
    """What somebody asks for: a path, its query parameters with all their values, and headers by lower-case name."""

    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


class Answer(msgspec.Struct, frozen=True):
    """What they are told."""

    body: bytes
    status: int = 200
    content_type: str = TEXT


class WebServer:
    """Calls `answer` with each question. Port 0 takes a free one, told by `port` once started."""

    def __init__(
        self, answer: Callable[[Question], Answer], address: str, port: int, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.port = port
        self._answer = answer
        self._address = address
        self._ssl = ssl_context
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. OSError if the address is taken or not ours."""
        self._server = await asyncio.start_server(
            self._connected, self._address, self.port, limit=LONGEST_HEAD, ssl=self._ssl
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections; none has an answer under way, since they are given at once."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return  # whoever asked has gone
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the next question; whether there may be another."""
        try:
            async with asyncio.timeout(IDLE):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return await _send(writer, Answer(b"the request is too long\n", 431), last=True)
        try:
            method, question = _read(head)
        except ValueError as problem:
            return await _send(writer, Answer(f"{problem}\n".encode(), 400), last=True)
        if method not in ("GET", "HEAD"):
            return await _send(writer, Answer(b"only GET and HEAD\n", 405), last=True)
        last = question.headers.get("connection", "").lower() == "close"
        return await _send(writer, self._answered(question), last, bodiless=method == "HEAD")

    def _answered(self, question: Question) -> Answer:
        try:
            return self._answer(question)
        except Exception as problem:
            _log.crash("A question could not be answered", problem, path=question.path)
            return Answer(b"internal error\n", 500)


def _read(head: bytes) -> tuple[str, Question]:
    """The method and the rest of a request. ValueError, to be told to whoever sent it, if it is none."""
    request, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = request.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise ValueError("only HTTP/1.1 is spoken here")
    pairs = [line.partition(":") for line in lines]
    if any(not colon or name != name.strip() for name, colon, _ in pairs):
        raise ValueError("a header cannot be read")
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise ValueError("a request has no body here")
    if words[2] == "HTTP/1.0":
        headers["connection"] = "close"
    url = urlsplit(words[1])
    return words[0], Question(unquote(url.path), parse_qs(url.query, keep_blank_values=True), headers)


async def _send(writer: asyncio.StreamWriter, answer: Answer, last: bool, bodiless: bool = False) -> bool:
    """Write an answer; whether the connection stays open after it."""
    lines = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        *(("Connection: close",) if last else ()),
    )
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if bodiless else answer.body))
    await writer.drain()
    return not last
