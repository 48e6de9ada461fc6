"""TCP proxy that delays the bytes of the client, to simulate a distant server.

`python delay_proxy.py PORT MILLISECONDS` listens on a free port of the loopback interface, prints it, and forwards to
PORT. It does not inspect bytes, so TLS passes through. Each chunk is delayed by the same time and none waits for
another, on any number of connections: order and bandwidth do not change. Bytes of the server are not delayed, so a call
takes MILLISECONDS longer, and a TLS handshake too, as after one round trip.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"


class _Side(asyncio.Protocol):
    """One side of a connection; received bytes are written to `other`, `delay` seconds later."""

    def __init__(self, delay: float) -> None:
        self.other: _Side | None = None
        self.transport: asyncio.Transport | None = None
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._late: deque[tuple[float, bytes | None]] = deque()
        """Delayed chunks with their time of arrival; None is the end of the stream."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._send(data)

    def eof_received(self) -> bool:
        self._send(None)
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - both sides are closed in any case
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.abort()

    def _send(self, data: bytes | None) -> None:
        if not self._delay:
            self._deliver(data)
            return
        self._late.append((self._loop.time() + self._delay, data))
        if len(self._late) == 1:
            self._loop.call_later(self._delay, self._arrive)

    def _arrive(self) -> None:
        now = self._loop.time()
        while self._late and self._late[0][0] <= now + 0.0005:  # timers fire up to half a millisecond early
            self._deliver(self._late.popleft()[1])
        if self._late:
            self._loop.call_later(self._late[0][0] - now, self._arrive)

    def _deliver(self, data: bytes | None) -> None:
        if self.other is None or self.other.transport is None:
            return
        if data is None:
            self.other.transport.write_eof()
        else:
            self.other.transport.write(data)


class _Client(_Side):
    """The client's side; it opens the connection to the server."""

    def __init__(self, port: int, delay: float) -> None:
        super().__init__(delay)
        self._port = port
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).pause_reading()
        self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        server = _Side(0.0)
        server.other = self
        try:
            await self._loop.create_connection(lambda: server, LOOPBACK, self._port)
        except OSError:
            if self.transport is not None:
                self.transport.abort()
            return
        self.other = server
        if self.transport is None:  # the client has disconnected meanwhile
            server.connection_lost(None)
        else:
            self.transport.resume_reading()


async def serve(port: int, delay: float) -> asyncio.Server:
    """Listen on a free port for a server on `port`; `delay` in seconds."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Client(port, delay), LOOPBACK, 0, backlog=1024)


async def _main(port: int, delay: float) -> None:
    async with await serve(port, delay) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1]), float(sys.argv[2]) / 1000))
