"""HTTP connections are freed when they end."""

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
from pyscheduler.kube.errors import RequestError
from pyscheduler.kube.http_connection import Address, HttpConnection, Limits, StreamConnection
from pyscheduler.kube.pool import Call, Pool
from tests.unit.kube.raw_server import OK, RawServer
from tests.unit.kube.test_connection import self_signed
from tests.unit.kube.test_tls_session_cache import client, server

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_broken_stream_is_freed_without_garbage_collection() -> None:
    connection = StreamConnection()
    connection.connection_lost(ConnectionResetError("gone"))
    try:
        await anext(connection)
    except RequestError as problem:
        message = str(problem)
    left = weakref.ref(connection)
    del connection
    assert message == "the connection broke: gone"
    assert left() is None


async def lost(file: Path) -> None:
    """Make a call and begin a stream; then the server closes both connections."""
    raw = RawServer([OK], [STREAM])
    async with raw.serving(server(file)):
        pool = Pool(
            Address.of(f"https://127.0.0.1:{raw.port}", client(file), "server"), 1, Deadlines(response=5.0), "tests"
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
def test_lost_connections_are_freed_with_their_buffers(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """TLS transport and protocol refer to each other: 0.5 MB for each watch, and all may be cut at once."""
    file = self_signed(tmp_path, "server")
    gc.collect()
    before = _connections()  # of other tests
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(lost(file))
        left = [each for each in _connections() if all(each is not other for other in before)]
    assert not left


def _connections() -> list[Any]:
    return [each for each in gc.get_objects() if isinstance(each, HttpConnection | StreamConnection)]


async def test_data_in_several_tls_records_is_read_completely() -> None:
    """asyncio's TLS reads the second record into a slice of the buffer, so a slice must be a part of it, not a copy."""
    stream = StreamConnection()
    buffer = stream.get_buffer(-1)
    head, rest = STREAM[:20], STREAM[20:]
    buffer[: len(head)] = head
    buffer[len(head) :][: len(rest)] = rest
    assert bytes(stream.get_buffer(-1)[: len(STREAM)]) == STREAM
