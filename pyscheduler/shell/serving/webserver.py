"""HTTP/1.1 server for probes, scrapes and dumps, with or without TLS.

A web framework takes 0.25 s of CPU to import, h11 15 ms; a start without a request imports neither.

Clients share one thread, so everything is bounded: connections, duration of the handshake, size of a request. With all
connections in use, the one that has been idle longest is closed: a probe gets its response however many connections a
client opens.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyscheduler import logs
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

MOST_CONNECTIONS: Final = 32
HANDSHAKE: Final = 10.0
"""Seconds that a TLS handshake may take."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the client has for the TLS shutdown."""
_RECOVERY = 1.0
"""Seconds to wait after a failed accept, which usually means that no file descriptor is left."""
_BUFFER = 32 * 1024
"""Bytes of a request that are read ahead."""
_log = logs.get("http")


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
        self._respond = respond
        self._log = logs.LimitedLog("http")
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
                    self._log.warning("Failed to accept a connection", problem)
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
        try:
            # Here, so that a start does not wait for h11.
            from pyscheduler.shell.serving.server_connection import ServerConnection

            await ServerConnection(reader, writer, self._respond, self._move_to_end, self._log).serve()
            writer.close()
        except (OSError, TimeoutError):
            writer.close()  # the client has disconnected
        except Exception as problem:
            self._log.crash("Failed to write a response", problem)
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
        reader = asyncio.StreamReader(_BUFFER, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        limits: dict[str, Any] = {}
        if context is not None:
            limits = {"ssl": context, "ssl_handshake_timeout": HANDSHAKE, "ssl_shutdown_timeout": CLOSE_TIMEOUT}
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connected, **limits)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _move_to_end(self) -> None:
        """Make the connection of the current task the one that was idle last."""
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = self._connections.pop(task)
