"""Connections that are opened ahead of calls serve the calls that come meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.kube import pool as pools
from pyscheduler.shell.kube.errors import UNREACHABLE, RequestError
from pyscheduler.shell.kube.http_connection import Address, HttpConnection
from pyscheduler.shell.kube.pool import Pool

from .test_pool import GET, Line


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_call_waits_for_a_connection_that_is_being_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start opened twice as many as it had use for: those made ahead, and those of the calls that came meanwhile."""
    made, lines = asyncio.Event(), list[Line]()

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        lines.append(Line())
        line, wire = lines[-1], make()
        await made.wait()
        wire.connection_made(line)
        return wire

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 8, Deadlines(connect=5.0, answer=5.0), "tests")
    warming = asyncio.create_task(pool.warm(3))
    await settled()
    calls = [asyncio.create_task(pool.call(GET, "")) for _ in range(4)]
    await settled()
    assert len(lines) == 4, "three of the calls have theirs coming"
    made.set()
    await settled()
    assert [len(line.sent) for line in lines] == [1] * 4
    for task in (warming, *calls):
        task.cancel()
    await pool.close()


async def test_a_call_opens_its_own_where_one_made_ahead_comes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, fail = 0, asyncio.Event()

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        nonlocal tried
        tried += 1
        if tried == 1:
            await fail.wait()
            raise RequestError(0, UNREACHABLE, "connection refused")
        wire = make()
        wire.connection_made(Line())
        return wire

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 8, Deadlines(connect=5.0, answer=5.0), "tests")
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
