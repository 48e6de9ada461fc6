"""TCP proxy with connections that can die silently: bytes are acknowledged and dropped, nothing is closed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class Blackhole:
    """Proxy to one port that passes TLS through. Use it as an async context manager."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.connections = 0
        """Connections accepted so far."""
        self._target = host, port
        self._open: set[_Line] = set()
        self._dead_on_arrival = 0
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=256)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for line in list(self._open):
            line.close()
        await asyncio.sleep(0)

    def swallow(self, to_server: bool = True, to_client: bool = True) -> int:
        """Silence the open connections in one direction or both and return their number; new connections work."""
        for line in self._open:
            line.to_server &= not to_server
            line.to_client &= not to_client
        return len(self._open)

    def swallow_next(self, connections: int) -> None:
        """Accept the next `connections` connections without ever responding on them."""
        self._dead_on_arrival = connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        works = self._dead_on_arrival <= 0
        self._dead_on_arrival -= not works
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(writer, server_writer, works)
        self._open.add(line)
        try:
            await asyncio.gather(line.up(reader), line.down(server_reader))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(line)
            line.close()


class _Line:
    """Connection of a client and the corresponding one to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, works: bool) -> None:
        self.to_server = self.to_client = works
        self._client, self._server = client, server

    async def up(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            if self.to_server:
                self._server.write(data)
        self.close()

    async def down(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            if self.to_client:
                self._client.write(data)
        if self.to_client:  # a silenced client must not notice that the server has closed
            self.close()

    def close(self) -> None:
        for writer in (self._client, self._server):
            with contextlib.suppress(OSError):
                writer.transport.abort()
