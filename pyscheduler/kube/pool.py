"""Connection pool: a bounded number of kept-alive connections, shared by calls.

One timer enforces the deadlines of all calls; a timer per call would be slower.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import LOST, UNREACHABLE, RequestError, not_leading_error, timeout_error
from pyscheduler.kube.http1 import JSON, Response, request
from pyscheduler.kube.http_connection import Address, HttpConnection, Limits, StreamConnection, open_connection

IDLE: Final = 30.0
"""Seconds after which an unused connection is closed: below the API server's 90, so that this side closes first."""
LINGER: Final = 5.0
"""Seconds that a stream's connection is kept for the next one: another page of a list, or the watch."""
READS: Final = ("GET", "HEAD")
_REPEATABLE = ("GET", "PUT", "DELETE")
"""Idempotent methods of HTTP."""


class Call(NamedTuple):
    """A request; `path` includes its encoded query."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON


class Stream(NamedTuple):
    """A stream that has begun, or its error response; to be closed in either case."""

    refused: Response | None
    chunks: AsyncIterator[bytes]
    close: Callable[[], None]


class _ResponseBatch:
    """Responses to a batch of calls, awaited together: a future for each would cost more than parsing it."""

    __slots__ = ("_calls", "received", "whole")

    def __init__(self, calls: int, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = calls
        self.received: list[Response | None] = []
        """Responses in the order of the calls; None for those that will not come."""
        self.whole: asyncio.Future[None] = loop.create_future()

    def done(self) -> bool:
        return self.whole.done()

    def set_result(self, response: Response) -> None:
        self._take(response)

    def set_exception(self, _: Exception) -> None:
        self._take(None)

    def _take(self, response: Response | None) -> None:
        self.received.append(response)
        if len(self.received) == self._calls:
            self.whole.set_result(None)


class Pool:
    """Calls and streams to one server. Must be created and closed inside the event loop."""

    def __init__(
        self,
        address: Address,
        size: int,
        deadlines: Deadlines,
        user_agent: str,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        """`may_write` is called before a write is sent on its connection; False rejects it, None allows all."""
        self._may_write = may_write
        self._address = address
        self._size = size
        self._deadlines = deadlines
        self._fixed_headers = f"Host: {address.authority}\r\nUser-Agent: {user_agent}\r\n"
        self._headers: tuple[str, bytes] = ("", self._fixed_headers.encode())
        self._loop = asyncio.get_running_loop()
        self._connections: set[HttpConnection] = set()
        self._opening = 0
        self._warming = 0
        """Connections being opened ahead of calls, a part of `_opening`."""
        self._idle: list[tuple[float, HttpConnection]] = []
        """Unused connections and the time since when, the last used at the end: surplus ones expire."""
        self._idle_streams: dict[StreamConnection, asyncio.TimerHandle] = {}
        """Connections of ended streams, with the timer that closes each."""
        self._is_closed = False
        self._waiters: deque[asyncio.Future[HttpConnection | None]] = deque()
        """Waiting calls; each gets a connection, or None if it may open one."""
        self._due: dict[asyncio.Future[Any], float] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        """Time at which the timer is due; uvloop's handle has no `when` for a call that is due at once."""

    async def call(self, call: Call, authorization: str) -> Response:
        """Send a call once, again only if the server had already closed the idle connection. RequestError."""
        content = self._request(call, authorization)
        deadline = self._loop.time() + self._deadlines.response
        while True:
            connection = await self._acquire_connection(deadline, writes=call.method not in READS)
            sent_at = self._loop.time()
            response: asyncio.Future[Response] = self._loop.create_future()
            connection.send(content, (response,))
            self._watch(response, deadline)
            try:
                return await response
            except TimeoutError:
                self._close_idle_since(sent_at)
                raise timeout_error() from None
            except RequestError as problem:
                if not (problem.reason == LOST and connection.is_stale and call.method in _REPEATABLE):
                    raise
            finally:
                del self._due[response]
                connection.abandon(response)
                del response, connection  # the response's exception refers to this frame: break the cycle

    async def calls(self, calls: Sequence[Call], authorization: str) -> list[Response | None]:
        """Send a batch of calls on one connection, once; None for each without a response.

        The calls must be repeatable. RequestError if no connection is available.
        """
        content = b"".join([self._request(call, authorization) for call in calls])
        deadline = self._loop.time() + self._deadlines.response
        connection = await self._acquire_connection(deadline, writes=True)
        sent_at = self._loop.time()
        batch = _ResponseBatch(len(calls), self._loop)
        connection.send(content, (batch,) * len(calls))
        self._watch(batch.whole, deadline)
        try:
            try:
                await batch.whole
            except TimeoutError:
                self._close_idle_since(sent_at)
        finally:
            del self._due[batch.whole]
            connection.abandon(batch)
        return [*batch.received, *[None] * (len(calls) - len(batch.received))]

    async def stream(self, call: Call, authorization: str, limits: Limits) -> Stream:
        """Send a read on its own connection; its response is streamed. RequestError if there is none."""
        content = self._request(call, authorization)
        while (idle := self._idle_stream()) is not None:
            try:
                return await self._start_stream(idle, content, limits)
            except RequestError as problem:
                if not (problem.reason == LOST and idle.is_stale):
                    raise
        connection = await open_connection(self._address, StreamConnection, self._deadlines.connect)
        return await self._start_stream(connection, content, limits)

    async def warm(self, connections: int) -> None:
        """Open that many connections ahead of the calls; failures are ignored."""
        missing = min(connections, self._size) - len(self._connections) - self._opening
        await asyncio.gather(*(self._warm_one() for _ in range(missing)))

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections):
            connection.close()
        while (idle := self._idle_stream()) is not None:
            idle.close()
        await asyncio.sleep(0)

    def _request(self, call: Call, authorization: str) -> bytes:
        if self._headers[0] != authorization:
            self._headers = (authorization, f"{self._fixed_headers}Authorization: {authorization}\r\n".encode())
        return request(call.method, self._address.prefix + call.path, self._headers[1], call.body, call.content_type)

    async def _start_stream(self, connection: StreamConnection, content: bytes, limits: Limits) -> Stream:
        try:
            connection.send(content, limits)
            return Stream(await connection.error_response(), connection, partial(self._end_stream, connection))
        except BaseException:
            self._check(connection)
            connection.close()
            raise

    def _end_stream(self, connection: StreamConnection) -> None:
        """End a stream; if it was read to its end, keep its connection for the next stream."""
        self._check(connection)
        if self._is_closed:
            connection.close()
        elif connection.release():
            self._idle_streams[connection] = self._loop.call_later(LINGER, self._close_idle_stream, connection)

    def _check(self, connection: StreamConnection) -> None:
        if connection.timed_out:  # it may have been dead since the watch began, and other connections too
            self._close_idle_since(self._loop.time())

    def _close_idle_since(self, since: float) -> None:
        """Close the unused connections without a response after `since`.

        A connection to the server timed out. Others may be dead too, as behind a load balancer that lost its backend,
        and each would cost a call its whole deadline.
        """
        for connection in [connection for at, connection in self._idle if at <= since]:
            connection.close()
        while (idle := self._idle_stream()) is not None:
            idle.close()

    def _idle_stream(self) -> StreamConnection | None:
        """Return a connection that is kept for another stream, None if there is none."""
        while self._idle_streams:
            connection, timer = self._idle_streams.popitem()
            timer.cancel()
            if connection.is_open:
                return connection
        return None

    def _close_idle_stream(self, connection: StreamConnection) -> None:
        del self._idle_streams[connection]
        connection.close()

    async def _acquire_connection(self, deadline: float, writes: bool) -> HttpConnection:
        """Return a connection for a call. RequestError, also for a write that is not allowed now."""
        connection = self._idle_connection() or await self._wait_for_connection(deadline)
        if writes and self._may_write is not None and not self._may_write():
            self._release(connection)
            raise not_leading_error()
        return connection

    def _idle_connection(self) -> HttpConnection | None:
        """Return an unused connection, None if there is none; close expired ones."""
        while self._idle:
            since, connection = self._idle.pop()
            if since + IDLE > self._loop.time() and connection.is_open:
                return connection
            connection.close()
        return None

    async def _wait_for_connection(self, deadline: float) -> HttpConnection:
        """Open a connection, or wait in turn for one that is being opened ahead or, at the limit, becomes free."""
        has_waited = False
        while len(self._waiters) < self._warming or len(self._connections) + self._opening >= self._size:
            received = await self._wait_in_queue(deadline, has_waited)
            if received is not None and received.is_open:
                return received
            has_waited = True
        return await self._open_connection(deadline)

    async def _wait_in_queue(self, deadline: float, first: bool) -> HttpConnection | None:
        """Wait for a connection to become free (or to close: None), at the head of the queue if `first`."""
        waiter: asyncio.Future[HttpConnection | None] = self._loop.create_future()
        (self._waiters.appendleft if first else self._waiters.append)(waiter)
        self._watch(waiter, deadline)
        try:
            return await waiter
        except TimeoutError:
            raise RequestError(0, UNREACHABLE, "no connection became free in time") from None
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release(waiter.result())
            raise
        finally:
            del self._due[waiter]

    async def _warm_one(self) -> None:
        self._warming += 1
        try:
            connection = await self._open_connection(self._loop.time() + self._deadlines.connect)
        except RequestError:
            return
        finally:
            self._warming -= 1
        self._release(connection)

    async def _open_connection(self, deadline: float) -> HttpConnection:
        self._opening += 1
        try:
            seconds = min(self._deadlines.connect, deadline - self._loop.time())
            connection = await open_connection(
                self._address, lambda: HttpConnection(self._release, self._connection_closed), seconds
            )
        except BaseException:
            self._release(None)
            raise
        finally:
            self._opening -= 1
        self._connections.add(connection)
        return connection

    def _connection_closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        self._idle = [idle for idle in self._idle if idle[1] is not connection]
        self._release(None)

    def _release(self, connection: HttpConnection | None) -> None:
        """Pass a free connection, or permission to open one (None), to the longest waiting call."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is not None:
            self._idle.append((self._loop.time(), connection))

    def _watch(self, future: asyncio.Future[Any], deadline: float) -> None:
        """Fail `future` with TimeoutError at `deadline`, unless it is removed from `_due` before."""
        self._due[future] = deadline
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(deadline, self._expire), deadline

    def _expire(self) -> None:
        """Fail the overdue futures and set the timer for the next deadline."""
        self._timer, now = None, self._loop.time()
        for future, deadline in self._due.items():
            if deadline <= now and not future.done():
                future.set_exception(TimeoutError())
        waiting = [deadline for deadline in self._due.values() if deadline > now]
        if waiting:
            self._set_timer(min(waiting))
