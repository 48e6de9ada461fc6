"""Connections opened ahead serve the calls that arrive meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyscheduler.kube import pool as pools
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import UNREACHABLE, RequestError
from pyscheduler.kube.http_connection import Address, HttpConnection
from pyscheduler.kube.pool import Pool
from tests.unit.kube.test_pool import GET, FakeTransport


async def settled() -> None:
    """Run all tasks until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_call_waits_for_a_connection_that_is_being_opened_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a start would open twice as many: those ahead, and those of the calls meanwhile."""
    made, lines = asyncio.Event(), list[FakeTransport]()

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        lines.append(FakeTransport())
        line, connection = lines[-1], make()
        await made.wait()
        connection.connection_made(line)
        return connection

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 8, Deadlines(connect=5.0, response=5.0), "tests")
    warming = asyncio.create_task(pool.warm(3))
    await settled()
    calls = [asyncio.create_task(pool.call(GET, "")) for _ in range(4)]
    await settled()
    assert len(lines) == 4, "three of the calls wait for connections opened ahead"
    made.set()
    await settled()
    assert [len(line.sent) for line in lines] == [1] * 4
    for task in (warming, *calls):
        task.cancel()
    await pool.close()


async def test_call_opens_a_connection_when_one_opened_ahead_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, fail = 0, asyncio.Event()

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        nonlocal tried
        tried += 1
        if tried == 1:
            await fail.wait()
            raise RequestError(0, UNREACHABLE, "connection refused")
        connection = make()
        connection.connection_made(FakeTransport())
        return connection

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 8, Deadlines(connect=5.0, response=5.0), "tests")
    warming = asyncio.create_task(pool.warm(1))
    await settled()
    call = asyncio.create_task(pool.call(GET, ""))
    await settled()
    assert tried == 1
    fail.set()
    await settled()
    assert tried == 2
    call.cancel()
    await warming
    await pool.close()
