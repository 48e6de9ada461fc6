"""One connection to the API server, as an asyncio protocol: calls, or streams, one after the other.

asyncio's own streams and general HTTP clients cost several times what is here, and a scheduler that binds fast does
little else.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection

from pyscheduler.kube.deadlines import KEEP_ALIVE
from pyscheduler.shell.kube.errors import RequestError, connection_lost_error, timeout_error, unreachable_error
from pyscheduler.shell.kube.http1 import MalformedResponse, Response, ResponseParser
from pyscheduler.shell.kube.tls_session_cache import cache_session

_ROOM, _STREAM_ROOM = 1 << 14, 1 << 18
"""Bytes that are read at once: an answer, a stretch of a watch."""
_HIGH_WATER = 1 << 18
"""Bytes of a stream that may wait to be read."""
_NEXT_ADDRESS_AFTER = 0.25
"""Seconds that one address of a name may take before the next is tried beside it (RFC 8305)."""


class Limits(NamedTuple):
    """Seconds that a stream may take: until its head has come, between two reads of it, and altogether."""

    head: float
    silence: float
    total: float


@dataclass(frozen=True, slots=True)
class Address:
    """Where connections go. `prefix` comes before every path, `server_hostname` is what the certificate must name."""

    host: str
    port: int
    authority: str
    prefix: str
    tls: ssl.SSLContext | None
    server_hostname: str | None

    @classmethod
    def of(cls, url: str, tls: ssl.SSLContext | None, server_hostname: str | None) -> Address:
        """From a base URL."""
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


class _Reading(asyncio.BufferedProtocol):
    """Hands what has come to `data_received`, as other protocols have it.

    It is read into one buffer: without it a quarter of a megabyte is allocated for each read of a TLS connection.
    """

    __slots__ = ("_view",)

    def __init__(self, room: int) -> None:
        self._view = memoryview(bytearray(room))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the room is the same for each read
        # A view: asyncio's TLS reads a second record into a slice of it, and a slice of a bytearray is a copy.
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._view[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """So many bytes have come."""
        raise NotImplementedError


class _BaseConnection(_Reading):
    """What both kinds of connection have in common."""

    __slots__ = ("_reader", "_transport", "used")

    def __init__(self, room: int) -> None:
        super().__init__(room)
        self.used = False
        """Whether it has carried a whole answer."""
        self._reader = ResponseParser()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _prepare(transport)

    @property
    def is_open(self) -> bool:
        """Whether it can still carry a call."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_stale(self) -> bool:
        """Whether the server may have closed it before it saw the call that is under way."""
        return self.used and not self._reader.begun


class ResponseFuture(Protocol):
    """Who waits for the answer to a call, as a Future does."""

    def done(self) -> bool:
        """Whether nobody waits any more."""

    def set_result(self, result: Response, /) -> None:
        """It has come."""

    def set_exception(self, exception: Exception, /) -> None:
        """It will never come."""


class HttpConnection(_BaseConnection):
    """Carries one call after the other, or several sent together and answered in their order (RFC 9112, 9.3.2).

    `freed` is told when it can take the next one, `gone` when it never will.
    """

    __slots__ = ("_ended", "_freed", "_pending")

    def __init__(self, freed: Callable[[HttpConnection], None], gone: Callable[[HttpConnection], None]) -> None:
        super().__init__(_ROOM)
        self._pending: deque[ResponseFuture] = deque()
        """The answers that are waited for, in their order."""
        self._freed = freed
        self._ended = gone

    def ask(self, requests: bytes, answers: Sequence[ResponseFuture]) -> None:
        """Send requests; each of `answers` gets what comes back, or a RequestError. Call it on a free wire only."""
        assert self._transport is not None
        self._pending.extend(answers)
        self._transport.write(requests)

    def leave(self, answer: ResponseFuture) -> None:
        """Nobody waits any more for what was asked last: if it has not come yet, the connection ends."""
        if self._pending and self._pending[-1] is answer:
            self.close()

    def close(self) -> None:
        """End the connection, whatever is under way on it."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            while data:
                if not self._pending:
                    raise MalformedResponse("the server speaks without being asked")
                data = self._complete_response() if self._reader.feed(data) else b""
        except MalformedResponse as problem:
            self._fail(connection_lost_error(problem))
            self.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._pending and exc is None and self._reader.ended():
            self._complete_response()
        self._fail(connection_lost_error(exc))
        self._transport = None  # which refers to us: with its buffers it is freed now, not when garbage is collected
        self._ended(self)

    def _complete_response(self) -> bytes:
        """Free the wire, before whoever waits for the answer goes on; what has come beyond it. MalformedResponse."""
        reader = self._reader
        if reader.beyond and len(self._pending) == 1:
            raise MalformedResponse("there is more than one answer")
        if not self.used and self._transport is not None:
            cache_session(self._transport)
        asked = self._pending.popleft()
        self._reader, self.used = ResponseParser(), True
        if not asked.done():
            asked.set_result(reader.answer())
        if not reader.reusable:
            self.close()
            return b""
        if not self._pending:
            self._freed(self)
        return reader.beyond

    def _fail(self, problem: RequestError) -> None:
        """Nothing more comes. Each gets an exception of its own, since it keeps the traceback of whoever waited."""
        while self._pending:
            asked = self._pending.popleft()
            if not asked.done():
                asked.set_exception(RequestError(problem.status, problem.reason, str(problem)))


class StreamConnection(_BaseConnection):
    """Carries one call after the other whose answers are read as they come."""

    def __init__(self) -> None:
        super().__init__(_STREAM_ROOM)
        self.timed_out = False
        """Set when one of its limits was exceeded: the peer may be gone though TCP lives."""
        self._limits = Limits(0.0, 0.0, 0.0)
        self._began_at = 0.0
        self._in_use = False
        self._loop = asyncio.get_running_loop()
        self._read_at = self._loop.time()
        """When something was last read."""
        self._timer: asyncio.TimerHandle | None = None
        self._changed: asyncio.Future[None] | None = None
        self._whole = False
        self._problem: RequestError | None = None
        self._waiting = 0
        self._paused = False

    def ask(self, request: bytes, limits: Limits) -> None:
        """Send a request with `limits` for its answer. Call it on a free wire only."""
        assert self._transport is not None
        self._in_use, self._limits = True, limits
        self._began_at = self._read_at = self._loop.time()
        self._timer = self._loop.call_at(self._due(), self._check_limits)
        self._transport.write(request)

    async def answered(self) -> Response | None:
        """The answer, if it is a refusal; None when the stream has begun. RequestError if there is none."""
        while not self._reader.status:
            await self._wait_for_change()
        if self._reader.status < 300:
            return None
        while not self._whole:
            await self._wait_for_change()
        return self._reader.answer()

    def __aiter__(self) -> StreamConnection:
        return self

    async def __anext__(self) -> bytes:
        """What has come since the last time. RequestError if the stream broke or fell silent."""
        while not (chunk := self._take()):
            if self._whole:
                raise StopAsyncIteration
            await self._wait_for_change()
        return chunk

    def rest(self) -> bool:
        """Nobody reads the stream any more: be free for the next. False if there can be none: the connection ends."""
        if not (self._whole and self._reader.reusable and self.is_open) or self._waiting:
            self.close()
            return False
        self._stop_timer()
        self._in_use, self.used = False, True
        self._reader, self._whole = ResponseParser(), False
        return True

    def close(self) -> None:
        """End the connection."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._in_use:  # it is no response to the next request
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
        self._transport = None  # as in HttpConnection: half a megabyte each, and all watches are cut at once
        self._notify()

    def _take(self) -> bytes:
        self._waiting = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._read_at = self._loop.time()
            self._transport.resume_reading()
        return self._reader.take()

    async def _wait_for_change(self) -> None:
        """Wait until something happens."""
        if self._problem is not None:
            # A copy: one that is kept here would keep this wire by its traceback, until garbage is collected.
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
        """When the next limit is exceeded if nothing is read until then."""
        limits = self._limits
        if self._paused:
            quiet = self._loop.time() + limits.silence  # what waits to be read is ours to read
        elif self._reader.status:
            quiet = self._read_at + limits.silence
        else:
            quiet = self._began_at + limits.head
        return min(quiet, self._began_at + limits.total)

    def _check_limits(self) -> None:
        """One timer for all limits, set anew when it is due: one for each read would cost more than the read."""
        if (due := self._due()) > self._loop.time():
            self._timer = self._loop.call_at(due, self._check_limits)
            return
        self.timed_out = True
        self._problem = timeout_error()
        self.close()
        self._notify()


AnyConnection = TypeVar("AnyConnection", HttpConnection, StreamConnection)


async def open_connection(address: Address, make: Callable[[], AnyConnection], seconds: float) -> AnyConnection:
    """A new connection, TLS and all, within `seconds`. RequestError as Unreachable."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            made = await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, interleave=1)
            _, wire = await loop.create_connection(
                make, sock=made, ssl=address.tls, server_hostname=address.server_hostname
            )
    except (OSError, ssl.SSLError, TimeoutError) as error:
        raise unreachable_error(error) from None
    if not wire.is_open:
        raise unreachable_error(ConnectionResetError("the server closed the connection at once"))
    return wire


def _prepare(transport: asyncio.BaseTransport) -> None:
    made: Any = transport.get_extra_info("socket")
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
