"""One connection of an HTTP/1.1 client: requests without bodies, parsed by h11, and their responses.

Everything that Go's net/http rejects is rejected: the port is exposed, and speed matters little.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import h11

from pyscheduler import logs
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse, Subject

LONGEST_HEAD: Final = 32 * 1024
"""Maximum bytes of a request."""
IDLE: Final = 90.0
"""Seconds after which a connection without a request, or with an unread response, is closed."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that a header value must not contain (golang.org/x/net/http/httpguts.ValidHeaderFieldValue)."""
_HOST: Final = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~@/]*")
"""Characters that a Host header may contain (golang.org/x/net/http/httpguts.ValidHostHeader)."""
_ESCAPED: Final = r"(?:[^%?#]|%[0-9A-Fa-f]{2})*"
_TARGET: Final = re.compile(rf"(?:https?://[^/?#:]+(?::[0-9]*)?)?(?P<path>(?:/{_ESCAPED})?)(?:\?(?P<query>[^#]*))?")
"""A path, or an absolute URL as clients of a proxy send it. Bad escapes are rejected, as by net/url.ParseRequestURI."""
_DER = 2
"""Encoding of a certificate (`_ssl.ENCODING_DER`)."""


class ServerConnection:
    """Responds to the requests of one client, in turn."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        respond: Callable[[ServerRequest], Awaitable[ServerResponse]],
        request_began: Callable[[], None],
        log: logs.LimitedLog,
    ) -> None:
        """`request_began` is called after the head of each request."""
        self._reader = reader
        self._writer = writer
        self._respond = respond
        self._request_began = request_began
        self._log = log
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)

    async def serve(self) -> None:
        """Respond to all requests. OSError and TimeoutError if the client has disconnected."""
        while await self._serve_request():
            self._http.start_next_cycle()

    async def _serve_request(self) -> bool:
        """Respond to the next request; return True if the connection may carry another."""
        request: h11.Request | None = None
        try:
            async with asyncio.timeout(IDLE):
                event = await self._next_event()
            if not isinstance(event, h11.Request):
                return False
            self._request_began()
            request = event
            parsed = _read(request, *_peer(self._writer))
            await self._next_event()  # its end, which has arrived: no request has a body
        except h11.RemoteProtocolError as problem:
            refusal = ServerResponse(f"{problem}\n".encode(), problem.error_status_hint)
            await self._send(refusal, without_body=_is_head(request), close=True)
            return False
        await self._send(await self._response(parsed), without_body=_is_head(request))
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        """Return the client's next event. h11.RemoteProtocolError if it is not HTTP/1.1."""
        while True:
            event = self._http.next_event()
            if event is h11.PAUSED or isinstance(event, h11.Event):
                return event
            self._http.receive_data(await self._reader.read(LONGEST_HEAD))

    async def _response(self, request: ServerRequest) -> ServerResponse:
        try:
            return await self._respond(request)
        except Exception as problem:
            self._log.crash("Failed to create a response", problem, path=request.path)
            return ServerResponse(b"internal error\n", 500)

    async def _send(self, response: ServerResponse, *, without_body: bool, close: bool = False) -> None:
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
        content = self._http.send(h11.Response(status_code=response.status, headers=headers, reason=phrase))
        if not without_body:
            if isinstance(body, bytes):
                content += self._http.send(h11.Data(data=body))
            else:
                await self._write(content)
                content = b""
                async for piece in body:
                    await self._write(self._http.send(h11.Data(data=piece)))
        await self._write(content + self._http.send(h11.EndOfMessage()))

    async def _write(self, content: bytes) -> None:
        async with asyncio.timeout(IDLE):
            self._writer.write(content)
            await self._writer.drain()


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
