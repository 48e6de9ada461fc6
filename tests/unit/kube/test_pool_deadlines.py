"""Silent connections of a pool: deadlines of calls, and closing of connections that may be dead too."""

from __future__ import annotations

import asyncio
import math
import ssl
from pathlib import Path

import pytest

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import TIMEOUT, UNREACHABLE, RequestError
from pyscheduler.kube.http_connection import Address, Limits
from pyscheduler.kube.pool import Pool
from tests.unit.kube.raw_server import OK, RawServer, Then
from tests.unit.kube.test_connection import self_signed
from tests.unit.kube.test_pool import GET, POST, pool_to, reason_of


async def test_idle_connections_are_closed_after_a_call_times_out() -> None:
    """Behind a load balancer that lost its backend all are dead, and each would cost a deadline."""
    server = RawServer([OK, Then.HOLD], [OK, Then.HOLD], [OK, Then.HOLD], [OK])
    async with pool_to(server, timeout=0.3) as pool:
        await asyncio.gather(*(pool.call(POST, "") for _ in range(3)))
        assert await reason_of(pool, POST) == TIMEOUT
        assert (await pool.call(POST, "")).body == b"ok"
    assert server.received[-1] == (3, "POST /a")


async def test_connection_with_a_recent_response_stays_open_when_another_times_out() -> None:
    server = RawServer([OK, Then.HOLD], [OK, OK])
    async with pool_to(server, timeout=0.3) as pool:
        await pool.call(POST, "")
        silent = asyncio.create_task(reason_of(pool, POST))
        await server.until_received(2)
        assert (await pool.call(POST, "")).body == b"ok"
        assert await silent == TIMEOUT
        assert (await pool.call(POST, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 0, 1, 1]


async def test_idle_connections_are_closed_when_a_watch_does_not_end_in_time() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = RawServer([head, Then.HOLD], [OK, Then.HOLD], [OK])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", Limits(5.0, math.inf, 0.3))
        await pool.call(POST, "")  # its response is newer than the watch's last data
        with pytest.raises(RequestError, match="no answer in time"):
            await anext(stream.chunks)
        stream.close()
        assert (await pool.call(POST, "")).body == b"ok"
    assert server.received[-1] == (2, "POST /a")


async def test_a_stream_without_a_response_head_times_out_sooner_than_a_silent_one() -> None:
    server = RawServer([Then.HOLD])
    async with pool_to(server) as pool:
        with pytest.raises(RequestError, match="no answer in time"):
            await pool.stream(GET, "", Limits(0.3, math.inf, 60.0))


async def test_listener_that_never_begins_tls_costs_the_connect_deadline(tmp_path: Path) -> None:
    tls = ssl.create_default_context(cafile=self_signed(tmp_path, "server"))
    server = RawServer([Then.HOLD], [Then.HOLD])
    async with server.serving():
        address = Address.of(f"https://127.0.0.1:{server.port}", tls, "server")
        pool = Pool(address, 1, Deadlines(connect=0.3, response=30.0), "tests")
        async with asyncio.timeout(10):
            assert await reason_of(pool, POST) == UNREACHABLE
        await pool.close()
