"""One connection: what is left of it when it has ended."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.kube.errors import RequestError
from pyscheduler.shell.kube.http_connection import Address, HttpConnection, Limits, StreamConnection
from pyscheduler.shell.kube.pool import Call, Pool

from .raw_server import OK, RawServer
from .test_connection import self_signed
from .test_tls_session_cache import client, server

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_a_stream_that_broke_is_freed_without_the_garbage_collector() -> None:
    wire = StreamConnection()
    wire.connection_lost(ConnectionResetError("gone"))
    try:
        await anext(wire)
    except RequestError as problem:
        said = str(problem)
    left = weakref.ref(wire)
    del wire
    assert said == "the connection broke: gone"
    assert left() is None


async def lost(file: Path) -> None:
    """A call is answered, a stream begins; then the server closes both connections."""
    raw = RawServer([OK], [STREAM])
    async with raw.serving(server(file)):
        pool = Pool(
            Address.of(f"https://127.0.0.1:{raw.port}", client(file), "server"), 1, Deadlines(answer=5.0), "tests"
        )
        await pool.call(Call("GET", "/a"), "")
        stream = await pool.stream(Call("GET", "/b"), "", Limits(5.0, 30.0, 60.0))
        with pytest.raises(RequestError):
            [chunk async for chunk in stream.chunks]
        stream.close()
        await raw.until_ended(2)
        await pool.close()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_connections_are_freed_with_their_buffers_when_they_are_lost(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """TLS keeps methods of ours, and we its transport: half a megabyte for each watch, and all are cut at once."""
    file = self_signed(tmp_path, "server")
    gc.collect()
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(lost(file))
        left: list[Any] = [o for o in gc.get_objects() if isinstance(o, HttpConnection | StreamConnection)]
    assert not left


async def test_what_comes_in_several_tls_records_is_read_whole() -> None:
    """asyncio's TLS reads the second record into a slice of the buffer, so a slice must be a part of it, not a copy."""
    stream = StreamConnection()
    buffer = stream.get_buffer(-1)
    head, rest = STREAM[:20], STREAM[20:]
    buffer[: len(head)] = head
    buffer[len(head) :][: len(rest)] = rest
    assert bytes(stream.get_buffer(-1)[: len(STREAM)]) == STREAM
