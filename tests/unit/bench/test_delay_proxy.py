"""The delaying proxy: every chunk is late, and none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench.delay_proxy import LOOPBACK, serve

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
DELAY = 0.05


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def delayed_echo_server(delay: float) -> AsyncIterator[int]:
    """Yield the port of a proxy to an echo server."""
    async with (
        await asyncio.start_server(_echo, LOOPBACK, 0) as server,
        await serve(server.sockets[0].getsockname()[1], delay) as proxy,
    ):
        yield proxy.sockets[0].getsockname()[1]


async def _round_trip(streams: Streams, message: bytes) -> float:
    """Return the seconds until the message is back."""
    began = asyncio.get_running_loop().time()
    streams[1].write(message)
    assert await streams[0].readexactly(len(message)) == message
    return asyncio.get_running_loop().time() - began


async def test_call_takes_longer_by_the_delay() -> None:
    async with delayed_echo_server(DELAY) as port:
        streams = await asyncio.open_connection(LOOPBACK, port)
        assert await _round_trip(streams, b"GET /") >= DELAY
        streams[1].close()


async def test_calls_on_many_connections_do_not_wait_for_each_other() -> None:
    async with delayed_echo_server(DELAY) as port:
        opened = await asyncio.gather(*(asyncio.open_connection(LOOPBACK, port) for _ in range(100)))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(_round_trip(streams, b"x" * 1000) for streams in opened))
        assert asyncio.get_running_loop().time() - began < 100 * DELAY / 2
        for _, writer in opened:
            writer.close()


async def test_chunks_of_a_connection_stay_in_order_and_delays_do_not_add_up() -> None:
    async with delayed_echo_server(DELAY) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        began = asyncio.get_running_loop().time()
        for number in range(50):
            writer.write(b"%02d" % number)
            await asyncio.sleep(0.001)
        assert await reader.readexactly(100) == b"".join(b"%02d" % number for number in range(50))
        assert asyncio.get_running_loop().time() - began < 50 * DELAY / 2
        writer.close()


async def test_stream_is_forwarded_completely_before_its_end() -> None:
    async with delayed_echo_server(0.01) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        content = bytes(range(256)) * 4096
        writer.write(content)
        writer.write_eof()
        assert await reader.read(-1) == content
        writer.close()


async def test_client_is_disconnected_if_the_server_does_not_listen() -> None:
    async with await asyncio.start_server(_echo, LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
    async with await serve(port, DELAY) as proxy:
        reader, writer = await asyncio.open_connection(LOOPBACK, proxy.sockets[0].getsockname()[1])
        with suppress(ConnectionError):
            assert not await reader.read(1)
        writer.close()
