"""Server that sends scripted bytes, connection by connection."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Then(Enum):
    """Behaviour of a connection instead of a response."""

    CLOSE = "close the connection"
    HOLD = "send nothing"


Script = Sequence[bytes | Then]
"""Responses of one connection to consecutive calls; it is closed after the last one."""


class RawServer:
    """`received`: connection number and request line of each call; `ended`: numbers of closed connections."""

    def __init__(self, *scripts: Script) -> None:
        self.received: list[tuple[int, str]] = []
        self.heads: list[str] = []
        self.ended: list[int] = []
        self.port = 0
        self.changed = asyncio.Condition()
        self._scripts = scripts
        self._connections = 0

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        yield self
        server.close()

    async def until_connected(self, connections: int) -> None:
        """Wait until that many connections have been opened."""
        async with self.changed, asyncio.timeout(5):
            await self.changed.wait_for(lambda: self._connections >= connections)

    async def until_received(self, calls: int) -> None:
        """Wait until that many calls have been received."""
        async with self.changed, asyncio.timeout(5):
            await self.changed.wait_for(lambda: len(self.received) >= calls)

    async def until_ended(self, connections: int) -> None:
        """Wait until that many connections have ended."""
        async with self.changed, asyncio.timeout(5):
            await self.changed.wait_for(lambda: len(self.ended) >= connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self._connections = self._connections, self._connections + 1
        async with self.changed:
            self.changed.notify_all()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            for answer in self._scripts[number] if number < len(self._scripts) else ():
                await self._receive(number, reader)
                if answer is Then.HOLD:
                    await reader.read()
                elif isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    break
        writer.close()
        async with self.changed:
            self.ended.append(number)
            self.changed.notify_all()

    async def _receive(self, number: int, reader: asyncio.StreamReader) -> None:
        """Read one call, including its body."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        for line in head.lower().split("\r\n"):
            if line.startswith("content-length:"):
                await reader.readexactly(int(line.partition(":")[2]))
        async with self.changed:
            self.received.append((number, head.partition(" HTTP/1.1")[0]))
            self.heads.append(head)
            self.changed.notify_all()
