"""One connection to the API server, as an asyncio protocol: consecutive calls or streams.

Calls are most of the work of a scheduler that binds fast. One takes 58 µs of CPU here and 221 with aiohttp (measurement
in `http1.py`), because there is no task, timer, stream or multidict per call.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection
from msgspec import Struct

from pyscheduler.kube.deadlines import KEEP_ALIVE
from pyscheduler.kube.errors import RequestError, connection_lost_error, timeout_error, unreachable_error
from pyscheduler.kube.http1 import MalformedResponse, Response, ResponseParser
from pyscheduler.kube.loop_socket import loop_socket
from pyscheduler.kube.tls_session_cache import cache_session

_ROOM, _STREAM_ROOM = 1 << 14, 1 << 18
"""Bytes of one read: a response, or part of a watch."""
_HIGH_WATER = 1 << 18
"""Bytes of a stream that may be buffered."""
_NEXT_ADDRESS_AFTER = 0.25
"""Seconds before the next address of a host is tried in parallel (RFC 8305)."""


class Limits(NamedTuple):
    """Seconds that a stream may take: until its head, between two reads, and in total."""

    head: float
    silence: float
    total: float


class Address(Struct, frozen=True):
    """Target of connections. `prefix` precedes every path; `server_hostname` must match the certificate."""

    host: str
    port: int
    authority: str
    prefix: str
    tls: ssl.SSLContext | None
    server_hostname: str | None

    @classmethod
    def of(cls, url: str, tls: ssl.SSLContext | None, server_hostname: str | None) -> Address:
        """Parse a base URL."""
        parts = urlsplit(url)
        secure = tls is not None
        host = parts.hostname or ""
        return cls(
            host,
            parts.port or (443 if secure else 80),
            parts.netloc.rpartition("@")[2],
            parts.path.rstrip("/"),
            tls,
            (server_hostname or host) if secure else None,
        )


class _BufferedReader(asyncio.BufferedProtocol):
    """Protocol that passes arrived bytes to `data_received`.

    It reads into one buffer: otherwise asyncio allocates 256 KiB for each read of a TLS connection.
    """

    __slots__ = ("_view",)

    def __init__(self, room: int) -> None:
        self._view = memoryview(bytearray(room))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the buffer has a fixed size
        # A memoryview: asyncio's TLS reads a second record into a slice of it, and a slice of a bytearray is a copy.
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._view[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Handle arrived bytes."""
        raise NotImplementedError


class _BaseConnection(_BufferedReader):
    """Common part of both kinds of connection."""

    __slots__ = ("_reader", "_transport", "used")

    def __init__(self, room: int) -> None:
        super().__init__(room)
        self.used = False
        """True after the first complete response."""
        self._reader = ResponseParser()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _prepare(transport)

    @property
    def is_open(self) -> bool:
        """Return True if it can carry a call."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_stale(self) -> bool:
        """Return True if the server may have closed it before it received the call in flight."""
        return self.used and not self._reader.begun


class ResponseFuture(Protocol):
    """Receiver of the response to a call, as a Future."""

    def done(self) -> bool:
        """Return True if no caller waits for the response any more."""

    def set_result(self, result: Response, /) -> None:
        """Store the response."""

    def set_exception(self, exception: Exception, /) -> None:
        """Store the error; no response will come."""


class HttpConnection(_BaseConnection):
    """Connection for consecutive calls, or for pipelined ones, answered in order (RFC 9112, 9.3.2).

    Calls `freed` when it can carry the next call, and `gone` when it is lost.
    """

    __slots__ = ("_ended", "_freed", "_pending")

    def __init__(self, freed: Callable[[HttpConnection], None], gone: Callable[[HttpConnection], None]) -> None:
        super().__init__(_ROOM)
        self._pending: deque[ResponseFuture] = deque()
        """Receivers of the outstanding responses, in order."""
        self._freed = freed
        self._ended = gone

    def send(self, requests: bytes, receivers: Sequence[ResponseFuture]) -> None:
        """Send requests; each of `receivers` gets a response or a RequestError. The connection must be free."""
        assert self._transport is not None
        self._pending.extend(receivers)
        self._transport.write(requests)

    def abandon(self, receiver: ResponseFuture) -> None:
        """Abandon the last call: close the connection if its response is outstanding."""
        if self._pending and self._pending[-1] is receiver:
            self.close()

    def close(self) -> None:
        """Close the connection, also with calls in flight."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            while data:
                if not self._pending:
                    raise MalformedResponse("the server sent data without a request")
                data = self._complete_response() if self._reader.feed(data) else b""
        except MalformedResponse as problem:
            self._fail(connection_lost_error(problem))
            self.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._pending and exc is None and self._reader.ended():
            self._complete_response()
        self._fail(connection_lost_error(exc))
        self._transport = None  # breaks the reference cycle, so that the buffers are freed without garbage collection
        self._ended(self)

    def _complete_response(self) -> bytes:
        """Free the connection, then complete the call. Return the bytes after the response. MalformedResponse."""
        reader = self._reader
        if reader.beyond and len(self._pending) == 1:
            raise MalformedResponse("there is more than one answer")
        if not self.used and self._transport is not None:
            cache_session(self._transport)
        waiter = self._pending.popleft()
        self._reader, self.used = ResponseParser(), True
        if not waiter.done():
            waiter.set_result(reader.response())
        if not reader.reusable:
            self.close()
            return b""
        if not self._pending:
            self._freed(self)
        return reader.beyond

    def _fail(self, problem: RequestError) -> None:
        """Fail all outstanding calls, each with its own exception, because that keeps its caller's traceback."""
        while self._pending:
            waiter = self._pending.popleft()
            if not waiter.done():
                waiter.set_exception(RequestError(problem.status, problem.reason, str(problem)))


class StreamConnection(_BaseConnection):
    """Connection for consecutive calls with streamed responses."""

    def __init__(self) -> None:
        super().__init__(_STREAM_ROOM)
        self.timed_out = False
        """True if a limit was exceeded: the peer may be gone although TCP is alive."""
        self._limits = Limits(0.0, 0.0, 0.0)
        self._began_at = 0.0
        self._in_use = False
        self._loop = asyncio.get_running_loop()
        self._read_at = self._loop.time()
        """Time of the last read."""
        self._timer: asyncio.TimerHandle | None = None
        self._changed: asyncio.Future[None] | None = None
        self._whole = False
        self._problem: RequestError | None = None
        self._waiting = 0
        self._paused = False

    def send(self, request: bytes, limits: Limits) -> None:
        """Send a request with `limits` for its response. The connection must be free."""
        assert self._transport is not None
        self._in_use, self._limits = True, limits
        self._began_at = self._read_at = self._loop.time()
        self._timer = self._loop.call_at(self._due(), self._check_limits)
        self._transport.write(request)

    async def error_response(self) -> Response | None:
        """Return an error response; None when the stream has begun. RequestError if there is no response."""
        while not self._reader.status:
            await self._wait_for_change()
        if self._reader.status < 300:
            return None
        while not self._whole:
            await self._wait_for_change()
        return self._reader.response()

    def __aiter__(self) -> StreamConnection:
        return self

    async def __anext__(self) -> bytes:
        """Return the bytes since the last call. RequestError if the stream broke or a limit was exceeded."""
        while not self._waiting or not (chunk := self._take()):
            if self._whole:
                raise StopAsyncIteration
            await self._wait_for_change()
        return chunk

    def release(self) -> bool:
        """Make the connection free after its stream. Return False, and close it, if it cannot be reused."""
        if not (self._whole and self._reader.reusable and self.is_open) or self._waiting:
            self.close()
            return False
        self._stop_timer()
        self._in_use, self.used = False, True
        self._reader, self._whole = ResponseParser(), False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._in_use:  # unsolicited data
            self.close()
            return
        self._read_at = self._loop.time()
        try:
            self._whole = self._reader.feed(data)
            if self._reader.beyond:
                raise MalformedResponse("there is more than one answer")
        except MalformedResponse as problem:
            self._problem = connection_lost_error(problem)
            self.close()
        self._waiting += len(data)
        if self._waiting > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._notify()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.close()
        if exc is None and self._reader.ended():
            self._whole = True
        elif not self._whole and self._problem is None:
            self._problem = connection_lost_error(exc)
        self._transport = None  # as in HttpConnection: 0.5 MB each, and all watches may be cut at once
        self._notify()

    def _take(self) -> bytes:
        self._waiting = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._read_at = self._loop.time()
            self._transport.resume_reading()
        return self._reader.take()

    async def _wait_for_change(self) -> None:
        """Wait for data, the end of the stream, or an error."""
        if self._problem is not None:
            # A copy: the stored one would keep this connection alive through its traceback until garbage collection.
            problem = self._problem
            raise RequestError(problem.status, problem.reason, str(problem), problem.retry_after)
        self._changed = self._loop.create_future()
        await self._changed

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> float:
        """Return the time at which the next limit is exceeded if nothing is read until then."""
        limits = self._limits
        if self._paused:
            quiet = self._loop.time() + limits.silence  # reading is paused on our side
        elif self._reader.status:
            quiet = self._read_at + limits.silence
        else:
            quiet = self._began_at + limits.head
        return min(quiet, self._began_at + limits.total)

    def _check_limits(self) -> None:
        """Enforce all limits with one timer, postponed when due: one per read would cost more than the read."""
        if (due := self._due()) > self._loop.time():
            self._timer = self._loop.call_at(due, self._check_limits)
            return
        self.timed_out = True
        self._problem = timeout_error()
        self.close()
        self._notify()


AnyConnection = TypeVar("AnyConnection", HttpConnection, StreamConnection)


async def open_connection(address: Address, make: Callable[[], AnyConnection], seconds: float) -> AnyConnection:
    """Open a connection, including TLS, within `seconds`. RequestError with UNREACHABLE."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            made = await start_connection(
                found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, interleave=1, socket_factory=loop_socket
            )
            _, connection = await loop.create_connection(
                make, sock=made, ssl=address.tls, server_hostname=address.server_hostname
            )
    except (OSError, ssl.SSLError, TimeoutError) as error:
        raise unreachable_error(error) from None
    if not connection.is_open:
        raise unreachable_error(ConnectionResetError("the server closed the connection at once"))
    return connection


def _prepare(transport: asyncio.BaseTransport) -> None:
    made: Any = transport.get_extra_info("socket")
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
