"""A bounded number of kept-alive connections, and the calls that share them.

One timer watches over all calls: a call costs no timer of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.kube.errors import LOST, UNREACHABLE, RequestError, not_leading_error, timeout_error
from pyscheduler.shell.kube.http1 import JSON, Response, request
from pyscheduler.shell.kube.http_connection import Address, HttpConnection, Limits, StreamConnection, open_connection

IDLE: Final = 30.0
"""Seconds after which an unused connection is not used again: below the API server's 90, so that it is we who close."""
LINGER: Final = 5.0
"""Seconds that a connection waits for another stream: from a page of a list to the next, or to the watch."""
READS: Final = ("GET", "HEAD")
_REPEATABLE = ("GET", "PUT", "DELETE")
"""Methods of which HTTP says that to do them twice is to do them once."""


class Call(NamedTuple):
    """A request; `path` carries its query already encoded."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON


class Stream(NamedTuple):
    """A stream that has begun, or why it was refused; to be closed in any case."""

    refused: Response | None
    chunks: AsyncIterator[bytes]
    close: Callable[[], None]


class _ResponseBatch:
    """Those to calls that were sent together, waited for as one: a future for each would cost more than to read it."""

    __slots__ = ("_calls", "came", "whole")

    def __init__(self, calls: int, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = calls
        self.came: list[Response | None] = []
        """In the order of the calls; None for what will never come."""
        self.whole: asyncio.Future[None] = loop.create_future()

    def done(self) -> bool:
        return self.whole.done()

    def set_result(self, answer: Response) -> None:
        self._take(answer)

    def set_exception(self, _: Exception) -> None:
        self._take(None)

    def _take(self, answer: Response | None) -> None:
        self.came.append(answer)
        if len(self.came) == self._calls:
            self.whole.set_result(None)


class Pool:
    """Calls and streams to one server. Must be made and closed inside the event loop."""

    def __init__(self, address: Address, size: int, deadlines: Deadlines, user_agent: str) -> None:
        self.may_write: Callable[[], bool] = lambda: True
        """ResponseFuture when a call that is no mere read has its connection and would be sent."""
        self._address = address
        self._size = size
        self._deadlines = deadlines
        self._hello = f"Host: {address.authority}\r\nUser-Agent: {user_agent}\r\n"
        self._said: tuple[str, bytes] = ("", self._hello.encode())
        self._loop = asyncio.get_running_loop()
        self._wires: set[HttpConnection] = set()
        self._opening = 0
        self._warming = 0
        """Those of them that no call has begun."""
        self._idle: list[tuple[float, HttpConnection]] = []
        """The unused ones and since when, the last used at the end: what is not needed grows old and goes."""
        self._resting: dict[StreamConnection, asyncio.TimerHandle] = {}
        """Connections of streams that have ended, each with what will close it."""
        self._is_closed = False
        self._turns: deque[asyncio.Future[HttpConnection | None]] = deque()
        """Who waits, and gets a connection, or None where one may be made."""
        self._due: dict[asyncio.Future[Any], float] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        """When the timer is due. It cannot be asked: uvloop gives one without `when` for what is due at once."""

    async def call(self, call: Call, authorization: str) -> Response:
        """One call, sent once; a connection that the server had closed meanwhile does not count. RequestError."""
        content = self._request(call, authorization)
        deadline = self._loop.time() + self._deadlines.answer
        while True:
            wire = await self._acquire_connection(deadline, writes=call.method not in READS)
            sent_at = self._loop.time()
            answer: asyncio.Future[Response] = self._loop.create_future()
            wire.ask(content, (answer,))
            self._watch(answer, deadline)
            try:
                return await answer
            except TimeoutError:
                self._close_idle_since(sent_at)
                raise timeout_error() from None
            except RequestError as problem:
                if not (problem.reason == LOST and wire.is_stale and call.method in _REPEATABLE):
                    raise
            finally:
                del self._due[answer]
                wire.leave(answer)
                del answer, wire  # an exception of the answer refers to this call, which would refer to it

    async def calls(self, calls: Sequence[Call], authorization: str) -> list[Response | None]:
        """Calls sent together, on one connection, once; None for each that got no answer.

        They must be such that it does no harm to make them again. RequestError if there is no connection for them.
        """
        content = b"".join([self._request(call, authorization) for call in calls])
        deadline = self._loop.time() + self._deadlines.answer
        wire = await self._acquire_connection(deadline, writes=True)
        sent_at = self._loop.time()
        answers = _ResponseBatch(len(calls), self._loop)
        wire.ask(content, (answers,) * len(calls))
        self._watch(answers.whole, deadline)
        try:
            try:
                await answers.whole
            except TimeoutError:
                self._close_idle_since(sent_at)
        finally:
            del self._due[answers.whole]
            wire.leave(answers)
        return [*answers.came, *[None] * (len(calls) - len(answers.came))]

    async def stream(self, call: Call, authorization: str, limits: Limits) -> Stream:
        """A read on a connection of its own; its answer is read as it comes. RequestError if there is none."""
        content = self._request(call, authorization)
        while (rested := self._idle_stream()) is not None:
            try:
                return await self._begun(rested, content, limits)
            except RequestError as problem:
                if not (problem.reason == LOST and rested.is_stale):
                    raise
        wire = await open_connection(self._address, StreamConnection, self._deadlines.connect)
        return await self._begun(wire, content, limits)

    async def warm(self, connections: int) -> None:
        """Make so many connections ahead of the calls; it is no matter if the server lets us have fewer."""
        missing = min(connections, self._size) - len(self._wires) - self._opening
        await asyncio.gather(*(self._warm_one() for _ in range(missing)))

    async def close(self) -> None:
        """Drop all connections; calls under way are lost."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for wire in list(self._wires):
            wire.close()
        while (rested := self._idle_stream()) is not None:
            rested.close()
        await asyncio.sleep(0)

    def _request(self, call: Call, authorization: str) -> bytes:
        if self._said[0] != authorization:
            self._said = (authorization, f"{self._hello}Authorization: {authorization}\r\n".encode())
        return request(call.method, self._address.prefix + call.path, self._said[1], call.body, call.content_type)

    async def _begun(self, wire: StreamConnection, content: bytes, limits: Limits) -> Stream:
        try:
            wire.ask(content, limits)
            return Stream(await wire.answered(), wire, partial(self._leave, wire))
        except BaseException:
            self._check(wire)
            wire.close()
            raise

    def _leave(self, wire: StreamConnection) -> None:
        """End the use of this stream; if it was read to its end, the connection is kept for the next."""
        self._check(wire)
        if self._is_closed:
            wire.close()
        elif wire.rest():
            self._resting[wire] = self._loop.call_later(LINGER, self._end_rest, wire)

    def _check(self, wire: StreamConnection) -> None:
        if wire.timed_out:  # it may have been dead for as long as a watch lasts: what answered meanwhile may be, too
            self._close_idle_since(self._loop.time())

    def _close_idle_since(self, since: float) -> None:
        """Close the unused connections that have answered nothing since then.

        One connection to the server was silent when it should not have been. Others may be dead in the same way, as
        behind a load balancer that has lost its backend, and each would cost a call its whole deadline.
        """
        for wire in [wire for at, wire in self._idle if at <= since]:
            wire.close()
        while (rested := self._idle_stream()) is not None:
            rested.close()

    def _idle_stream(self) -> StreamConnection | None:
        """A connection that waits for another stream."""
        while self._resting:
            wire, timer = self._resting.popitem()
            timer.cancel()
            if wire.is_open:
                return wire
        return None

    def _end_rest(self, wire: StreamConnection) -> None:
        del self._resting[wire]
        wire.close()

    async def _acquire_connection(self, deadline: float, writes: bool) -> HttpConnection:
        """A connection for a call that is sent at once. RequestError, also if the call would write and may not now."""
        wire = self._idle_connection() or await self._wait_for_connection(deadline)
        if writes and not self.may_write():
            self._release(wire)
            raise not_leading_error()
        return wire

    def _idle_connection(self) -> HttpConnection | None:
        """A connection that waits for work; those that have waited too long are closed."""
        while self._idle:
            since, wire = self._idle.pop()
            if since + IDLE > self._loop.time() and wire.is_open:
                return wire
            wire.close()
        return None

    async def _wait_for_connection(self, deadline: float) -> HttpConnection:
        """A new connection, or the next that is made ahead or becomes free where there may be no more, in turn."""
        came_late = False
        while len(self._turns) < self._warming or len(self._wires) + self._opening >= self._size:
            handed = await self._turn(deadline, came_late)
            if handed is not None and handed.is_open:
                return handed
            came_late = True
        return await self._open_connection(deadline)

    async def _turn(self, deadline: float, first: bool) -> HttpConnection | None:
        """Wait for a connection to become free (or to go: None), in front of the others if `first`."""
        turn: asyncio.Future[HttpConnection | None] = self._loop.create_future()
        (self._turns.appendleft if first else self._turns.append)(turn)
        self._watch(turn, deadline)
        try:
            return await turn
        except TimeoutError:
            raise RequestError(0, UNREACHABLE, "no connection became free in time") from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(turn.result())
            raise
        finally:
            del self._due[turn]

    async def _warm_one(self) -> None:
        self._warming += 1
        try:
            wire = await self._open_connection(self._loop.time() + self._deadlines.connect)
        except RequestError:
            return
        finally:
            self._warming -= 1
        self._release(wire)

    async def _open_connection(self, deadline: float) -> HttpConnection:
        self._opening += 1
        try:
            seconds = min(self._deadlines.connect, deadline - self._loop.time())
            wire = await open_connection(
                self._address, lambda: HttpConnection(self._release, self._connection_closed), seconds
            )
        except BaseException:
            self._release(None)
            raise
        finally:
            self._opening -= 1
        self._wires.add(wire)
        return wire

    def _connection_closed(self, wire: HttpConnection) -> None:
        self._wires.discard(wire)
        self._idle = [idle for idle in self._idle if idle[1] is not wire]
        self._release(None)

    def _release(self, wire: HttpConnection | None) -> None:
        """Give a free connection, or the room for one, to whoever waits longest."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(wire)
                return
        if wire is not None:
            self._idle.append((self._loop.time(), wire))

    def _watch(self, future: asyncio.Future[Any], deadline: float) -> None:
        """Give `future` a TimeoutError at `deadline`, until it is taken out of `_due`."""
        self._due[future] = deadline
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(deadline, self._expire), deadline

    def _expire(self) -> None:
        """End what is overdue, and come back for what will be next."""
        self._timer, now = None, self._loop.time()
        for future, deadline in self._due.items():
            if deadline <= now and not future.done():
                future.set_exception(TimeoutError())
        waiting = [deadline for deadline in self._due.values() if deadline > now]
        if waiting:
            self._set_timer(min(waiting))
