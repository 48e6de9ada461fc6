"""HTTP/1.1 server for probes, scrapes and dumps, with or without TLS. Requests have no body.

h11 parses the requests, and everything that Go's net/http rejects is rejected: the port is exposed, and speed matters
little. A web framework takes 0.25 s of CPU to import, h11 a few milliseconds.

Clients share one thread, so everything is bounded: connections, duration of the handshake, size of a request. With all
connections in use, the one that has been idle longest is closed: a probe gets its response however many connections a
client opens.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import h11
import msgspec

from pyscheduler import logs

TEXT: Final = "text/plain; charset=utf-8"
LONGEST_HEAD: Final = 32 * 1024
"""Maximum bytes of a request."""
MOST_CONNECTIONS: Final = 32
HANDSHAKE: Final = 10.0
"""Seconds that a TLS handshake may take."""
IDLE: Final = 90.0
"""Seconds after which a connection without a request, or with an unread response, is closed."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the client has for the TLS shutdown."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that a header value must not contain (golang.org/x/net/http/httpguts.ValidHeaderFieldValue)."""
_HOST: Final = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~@/]*")
"""Characters that a Host header may contain (golang.org/x/net/http/httpguts.ValidHostHeader)."""
_ESCAPED: Final = r"(?:[^%?#]|%[0-9A-Fa-f]{2})*"
_TARGET: Final = re.compile(rf"(?:https?://[^/?#:]+(?::[0-9]*)?)?(?P<path>(?:/{_ESCAPED})?)(?:\?(?P<query>[^#]*))?")
"""A path, or an absolute URL as clients of a proxy send it. Bad escapes are rejected, as by net/url.ParseRequestURI."""
_DER = 2
"""Encoding of a certificate (`_ssl.ENCODING_DER`)."""
_RECOVERY = 1.0
"""Seconds to wait after a failed accept, which usually means that no file descriptor is left."""
_log = logs.get("http")
Subject = tuple[tuple[tuple[str, str], ...], ...]
"""Subject of a certificate, as in the ssl module."""


class ServerRequest(msgspec.Struct, frozen=True):
    """A request: path, query parameters with all values, and headers by lower-case name."""

    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    method: str = "GET"
    target: str = ""
    """Path and query as sent."""
    subject: Subject | None = None
    """Subject of the verified client certificate; None without one."""
    signer: bytes = b""
    """CA certificate (DER) at the root of the client certificate's chain."""
    pairs: tuple[tuple[str, str], ...] = ()
    """All headers as sent, repeated ones included, with lower-case names."""


class ServerResponse(msgspec.Struct, frozen=True):
    """A response; a body in pieces keeps a long response from blocking the loop."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    content_type: str = TEXT


class WebServer:
    """Calls `respond` with each request. Port 0 picks a free one, which `port` holds once started.

    `tls` is called for each connection, so that a new certificate is served without a restart; None serves plain HTTP.
    """

    def __init__(
        self,
        respond: Callable[[ServerRequest], Awaitable[ServerResponse]],
        address: str,
        port: int,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
    ) -> None:
        self.port = port
        self._make_response = respond
        self._address = address
        self._tls = tls
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], None] = {}
        """Connections, ordered by the time of their last request."""

    async def start(self) -> None:
        """Listen. OSError if the address is in use or not local."""
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        both = self._address == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server((self._address, self.port), family=family, dualstack_ipv6=both)
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listener))

    async def stop(self) -> None:
        """Stop listening and close all connections, also with responses in flight."""
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
                    _log.warning("Failed to accept a connection", problem)
                    await asyncio.sleep(_RECOVERY)
                    continue
                if len(self._connections) >= MOST_CONNECTIONS:
                    oldest = next(iter(self._connections))
                    del self._connections[oldest]
                    oldest.cancel()
                task = asyncio.create_task(self._serve_connection(connected))
                self._connections[task] = None
                task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _serve_connection(self, connected: socket.socket) -> None:
        """Respond to all requests of one connection."""
        try:
            async with asyncio.timeout(HANDSHAKE):
                reader, writer = await self._open(connected)
        except (OSError, TimeoutError) as problem:
            _log.info("Failed to open a connection", v=4, err=str(problem))
            return
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        try:
            while await self._one(connection, reader, writer):
                connection.start_next_cycle()
            writer.close()
        except (OSError, TimeoutError):
            writer.close()  # the client has disconnected
        except Exception as problem:
            _log.crash("Failed to write a response", problem)
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _open(self, connected: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a connection after the TLS handshake."""
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
            limits = {"ssl": context, "ssl_handshake_timeout": HANDSHAKE, "ssl_shutdown_timeout": CLOSE_TIMEOUT}
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connected, **limits)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _one(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Respond to the next request; return True if the connection may carry another."""
        request: h11.Request | None = None
        try:
            async with asyncio.timeout(IDLE):
                event = await _next_event(connection, reader)
            if not isinstance(event, h11.Request):
                return False
            self._move_to_end()
            request = event
            parsed = _read(request, *_peer(writer))
            await _next_event(connection, reader)  # its end, which has arrived: no request has a body
        except h11.RemoteProtocolError as problem:
            refusal = ServerResponse(f"{problem}\n".encode(), problem.error_status_hint)
            await _send(connection, writer, refusal, without_body=_is_head(request), close=True)
            return False
        await _send(connection, writer, await self._respond(parsed), without_body=_is_head(request))
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _move_to_end(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = self._connections.pop(task)

    async def _respond(self, request: ServerRequest) -> ServerResponse:
        try:
            return await self._make_response(request)
        except Exception as problem:
            _log.crash("Failed to create a response", problem, path=request.path)
            return ServerResponse(b"internal error\n", 500)


def _peer(writer: asyncio.StreamWriter) -> tuple[Subject | None, bytes]:
    """Return the subject of the client certificate and the root of its chain."""
    subject: Subject | None = (writer.get_extra_info("peercert") or {}).get("subject")
    return subject, b"" if subject is None else _root(writer.get_extra_info("ssl_object"))


def _root(connection: Any) -> bytes:
    """Return the last certificate of the verified chain; b"" if this Python does not expose it."""
    if hasattr(connection, "get_verified_chain"):  # Python 3.13 and later
        chain = connection.get_verified_chain()
        return bytes(chain[-1]) if chain else b""
    # Earlier versions expose only the client's own certificate, which does not show the root behind an intermediate.
    chain = getattr(connection._sslobj, "get_verified_chain", tuple)()
    return bytes(chain[-1].public_bytes(_DER)) if chain else b""


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event | type[h11.PAUSED]:
    """Return the client's next event. h11.RemoteProtocolError if it is not HTTP/1.1."""
    while True:
        event = connection.next_event()
        if event is h11.PAUSED or isinstance(event, h11.Event):
            return event
        connection.receive_data(await reader.read(LONGEST_HEAD))


def _is_head(request: h11.Request | None) -> bool:
    return request is not None and request.method == b"HEAD"


def _read(request: h11.Request, subject: Subject | None, signer: bytes = b"") -> ServerRequest:
    """Convert a request. h11.RemoteProtocolError for requests that h11 accepts and Go's net/http rejects.

    A request with a body is rejected too, and its connection closed rather than skipping the body: no page takes one.
    """
    if request.http_version not in (b"1.1", b"1.0"):
        raise h11.RemoteProtocolError("unsupported protocol version", error_status_hint=505)
    sent = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers)
    headers = dict(sent)
    if "transfer-encoding" in headers or headers.get("content-length", "").strip("0"):
        raise h11.RemoteProtocolError("requests have no body here")
    if any(_CONTROL.search(value) for _, value in sent):
        raise h11.RemoteProtocolError("invalid header value")
    if not _HOST.fullmatch(headers.get("host", "")):
        raise h11.RemoteProtocolError("malformed Host header")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise h11.RemoteProtocolError("unsupported expectation", error_status_hint=417)
    target = request.target.decode("ascii")
    parts = _TARGET.fullmatch(target)
    if parts is None:
        raise h11.RemoteProtocolError("malformed request target")
    query = parse_qs(parts["query"] or "", keep_blank_values=True)
    path = unquote(parts["path"] or "/")
    return ServerRequest(path, query, headers, request.method.decode("ascii"), target, subject, signer, sent)


async def _send(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    response: ServerResponse,
    *,
    without_body: bool,
    close: bool = False,
) -> None:
    """Write a response, at once or piece by piece; `close` announces that the connection ends after it."""
    body = response.body
    headers = [
        ("Content-Type", response.content_type),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-cache, private"),
        *((("Content-Length", str(len(body))),) if isinstance(body, bytes) else ()),
        *((("Connection", "close"),) if close else ()),
    ]
    phrase = HTTPStatus(response.status).phrase
    content = connection.send(h11.Response(status_code=response.status, headers=headers, reason=phrase))
    if not without_body:
        if isinstance(body, bytes):
            content += connection.send(h11.Data(data=body))
        else:
            await _write(writer, content)
            content = b""
            async for piece in body:
                await _write(writer, connection.send(h11.Data(data=piece)))
    await _write(writer, content + connection.send(h11.EndOfMessage()))


async def _write(writer: asyncio.StreamWriter, content: bytes) -> None:
    async with asyncio.timeout(IDLE):
        writer.write(content)
        await writer.drain()
