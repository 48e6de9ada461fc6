"""Resumption of TLS sessions, on uvloop and asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.http_connection import Address
from pyscheduler.kube.pool import Call, Pool
from pyscheduler.kube.tls_session_cache import MOST_READ, SessionCachingContext
from tests.unit.kube.raw_server import RawServer
from tests.unit.kube.test_connection import self_signed

CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
Loop = Callable[[], asyncio.AbstractEventLoop]


def client(file: Path) -> SessionCachingContext:
    context = SessionCachingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    return context


def server(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def calls(ours: ssl.SSLContext, theirs: ssl.SSLContext, number: int, at_once: int = 1) -> None:
    """Make `number` calls, each on a separate connection."""
    raw = RawServer(*[[CLOSED]] * number)
    async with raw.serving(theirs):
        pool = Pool(
            Address.of(f"https://127.0.0.1:{raw.port}", ours, "server"), at_once, Deadlines(response=5.0), "tests"
        )
        for _ in range(number // at_once):
            for answer in await asyncio.gather(*(pool.call(Call("GET", "/a"), "") for _ in range(at_once))):
                assert answer.body == b"ok"
        await pool.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_later_connections_resume_the_session(tmp_path: Path, loop: Loop) -> None:
    file = self_signed(tmp_path, "server")
    theirs = server(file)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(calls(client(file), theirs, 5))
    assert (theirs.session_stats()["accept_good"], theirs.session_stats()["hits"]) == (5, 4)


def test_restarted_server_causes_a_full_handshake(tmp_path: Path) -> None:
    file = self_signed(tmp_path, "server")
    ours, first, second = client(file), server(file), server(file)
    with asyncio.Runner() as runner:
        runner.run(calls(ours, first, 2))
        runner.run(calls(ours, second, 2))
    assert [theirs.session_stats()["hits"] for theirs in (first, second)] == [1, 1]


def test_session_is_read_once_for_all_connections_that_could_not_resume(tmp_path: Path) -> None:
    """Reading a session leaks memory in some Python versions, and a restarted server resumes none of a hundred."""
    file = self_signed(tmp_path, "server")
    ours = client(file)
    with asyncio.Runner() as runner:
        for _ in range(3):
            runner.run(calls(ours, server(file), 16, at_once=8))
    assert ours.read == 3


def test_reads_of_sessions_are_bounded_if_the_server_never_resumes(tmp_path: Path) -> None:
    file = self_signed(tmp_path, "server")
    ours, theirs = client(file), server(file)
    theirs.num_tickets = 0
    ours.read = MOST_READ - 2
    with asyncio.Runner() as runner:
        runner.run(calls(ours, theirs, 5))
    assert ours.read == MOST_READ
