"""Connection pool: reuse, lost connections, waiting order, no mixed-up responses."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from pyscheduler.kube import pool as pools
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import LOST, NOT_LEADING, TIMEOUT, UNREACHABLE, RequestError
from pyscheduler.kube.http_connection import Address, HttpConnection, Limits, StreamConnection
from pyscheduler.kube.pool import Call, Pool
from tests.unit.kube.raw_server import OK, RawServer, Then
from tests.unit.kube.test_connection import self_signed

PROMPT, LIMITS = Deadlines(connect=5.0, response=5.0), Limits(5.0, 5.0, 60.0)
GET, PUT, POST = Call("GET", "/a"), Call("PUT", "/a", b"{}"), Call("POST", "/a", b"{}")
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def pool_to(
    server: RawServer, size: int = 4, timeout: float = 5.0, may_write: Callable[[], bool] | None = None
) -> AsyncIterator[Pool]:
    async with server.serving():
        address = Address.of(f"http://127.0.0.1:{server.port}", None, None)
        pool = Pool(address, size, Deadlines(response=timeout), "tests", may_write)
        yield pool
        await pool.close()


async def reason_of(pool: Pool, call: Call) -> str:
    with pytest.raises(RequestError) as caught:
        await pool.call(call, "")
    assert caught.value.status == 0
    return caught.value.reason


async def test_one_connection_carries_call_after_call() -> None:
    server = RawServer([OK, OK, OK])
    async with pool_to(server) as pool:
        for call in (GET, POST, GET):
            assert (await pool.call(call, "")).body == b"ok"
    assert server.received == [(0, "GET /a"), (0, "POST /a"), (0, "GET /a")]


async def test_calls_have_host_user_agent_and_authorization() -> None:
    server = RawServer([OK, OK, OK])
    async with pool_to(server) as pool:
        for authorization in ("", "Bearer old", "Bearer new"):
            await pool.call(GET, authorization)
    common = f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUser-Agent: tests\r\n"
    tokens = ("", "Authorization: Bearer old\r\n", "Authorization: Bearer new\r\n")
    assert server.heads == [f"{common}{token}Accept: application/json\r\n\r\n" for token in tokens]


async def test_server_url_may_have_a_path() -> None:
    server = RawServer([OK])
    async with server.serving():
        pool = Pool(Address.of(f"http://127.0.0.1:{server.port}/clusters/one/", None, None), 1, PROMPT, "tests")
        await pool.call(GET, "")
        await pool.close()
    assert server.received == [(0, "GET /clusters/one/a")]


async def test_response_may_close_the_connection() -> None:
    server = RawServer([CLOSED], [b"HTTP/1.1 200 OK\r\n\r\nuntil the end"], [OK])
    async with pool_to(server, size=1) as pool:
        bodies = [(await pool.call(POST, "")).body for _ in range(2)]
        server.received.clear()
    assert bodies == [b"ok", b"until the end"]


async def test_idle_connection_closed_by_the_server_is_not_reused() -> None:
    server = RawServer([OK], [OK])
    async with pool_to(server) as pool:
        await pool.call(POST, "")
        for _ in range(50):  # wait until the close is noticed
            await asyncio.sleep(0)
        await pool.call(POST, "")
    assert server.received == [(0, "POST /a"), (1, "POST /a")]


@pytest.mark.parametrize("call", [GET, PUT], ids=["GET", "PUT"])
async def test_repeatable_call_on_a_closing_connection_is_sent_on_another(call: Call) -> None:
    server = RawServer([OK, Then.CLOSE], [OK])
    async with pool_to(server) as pool:
        await pool.call(GET, "")
        assert (await pool.call(call, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 0, 1]


async def test_other_call_on_a_closing_connection_fails() -> None:
    server = RawServer([OK, Then.CLOSE], [OK])
    async with pool_to(server) as pool:
        await pool.call(GET, "")
        assert await reason_of(pool, POST) == LOST
    assert len(server.received) == 2


@pytest.mark.parametrize(
    "answer",
    [Then.CLOSE, OK[:-1], OK[:10], OK + OK, b"SSH-2.0\r\n\r\n"],
    ids=["nothing", "cut", "cut early", "two answers", "not HTTP"],
)
async def test_malformed_response_fails_the_call_and_closes_the_connection(answer: bytes | Then) -> None:
    server = RawServer([answer], [OK])
    async with pool_to(server, size=1) as pool:
        assert await reason_of(pool, GET) == LOST
        assert (await pool.call(GET, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


async def test_connection_with_unsolicited_data_is_closed() -> None:
    server = RawServer([OK, OK], [OK])
    async with pool_to(server) as pool:
        await pool.call(GET, "")
        (_, connection), *_ = pool._idle
        connection.data_received(OK)
        assert (await pool.call(POST, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


@pytest.mark.parametrize("calls", [1, 3], ids=["one", "several together"])
async def test_cancelled_call_closes_its_connection(calls: int) -> None:
    server = RawServer([Then.HOLD], [OK])
    async with pool_to(server, size=1) as pool:
        call = asyncio.ensure_future(pool.call(POST, "") if calls == 1 else pool.calls([POST] * calls, ""))
        await server.until_received(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await server.until_ended(1)
        assert (await pool.call(POST, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


async def test_timed_out_call_closes_its_connection() -> None:
    server = RawServer([Then.HOLD], [OK])
    async with pool_to(server, size=1, timeout=0.3) as pool:
        assert await reason_of(pool, POST) == TIMEOUT
        await server.until_ended(1)
        pool._deadlines = PROMPT
        assert (await pool.call(POST, "")).body == b"ok"


async def test_call_without_a_free_connection_is_not_sent() -> None:
    server = RawServer([Then.HOLD])
    async with pool_to(server, size=1) as pool:
        first = asyncio.create_task(reason_of(pool, POST))
        await server.until_received(1)
        pool._deadlines = Deadlines(response=0.05)
        assert await reason_of(pool, POST) == UNREACHABLE
        assert len(server.received) == 1
    assert await first == LOST


async def test_waiting_calls_get_connections_in_order() -> None:
    server = RawServer([OK] * 9)
    done: list[str] = []
    async with pool_to(server, size=1) as pool:

        async def caller(name: str, calls: int) -> None:
            for _ in range(calls):
                await pool.call(POST, "")
                done.append(name)

        await asyncio.gather(caller("busy", 5), caller("a", 1), caller("b", 1))
    assert done == ["busy", "a", "b", "busy", "busy", "busy", "busy"]


async def test_connection_of_a_cancelled_waiter_is_passed_on() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1) as pool:

        async def first() -> None:
            await pool.call(POST, "")
            second.cancel()  # it has already been given the connection

        going = asyncio.create_task(first())
        second, third = (asyncio.create_task(pool.call(POST, "")) for _ in range(2))
        _, *answers = await asyncio.gather(going, second, third, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert not isinstance(answers[1], BaseException)


async def test_waiting_call_opens_a_connection_when_one_closes() -> None:
    server = RawServer([Then.CLOSE], [OK])
    async with pool_to(server, size=1) as pool:
        outcomes = await asyncio.gather(pool.call(POST, ""), pool.call(POST, ""), return_exceptions=True)
    assert isinstance(outcomes[0], RequestError)
    assert not isinstance(outcomes[1], BaseException)


class FakeTransport(asyncio.Transport):
    """Fake transport between the pool and the test."""

    def __init__(self) -> None:
        super().__init__({"socket": self})
        self.sent: list[bytes] = []
        self.cut = False

    def setsockopt(self, *_: int) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data).split()[1])

    def is_closing(self) -> bool:
        return self.cut

    def abort(self) -> None:
        self.cut = True


async def test_connection_that_breaks_while_passed_on_does_not_lose_the_waiter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[tuple[FakeTransport, HttpConnection]] = []

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        line, connection = FakeTransport(), make()
        connection.connection_made(line)
        lines.append((line, connection))
        return connection

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 1, PROMPT, "tests")
    calls = [asyncio.create_task(pool.call(Call("POST", f"/{number}", b""), "")) for number in range(4)]
    await asyncio.sleep(0)
    (line, connection), *_ = lines
    connection.data_received(OK)
    line.abort()
    connection.connection_lost(None)
    for number in (1, 2, 3):
        for _ in range(5):
            await asyncio.sleep(0)
        line, connection = lines[-1]
        assert line.sent[-1] == b"/%d" % number
        connection.data_received(OK)
    assert [answer.body for answer in await asyncio.gather(*calls)] == [b"ok"] * 4
    assert len(lines) == 2
    await pool.close()


async def test_calls_use_connections_opened_ahead() -> None:
    server = RawServer([OK], [OK], [OK])
    async with pool_to(server) as pool:
        await pool.warm(3)
        await server.until_connected(3)
        await pool.warm(3)  # they are open already
        await asyncio.gather(*(pool.call(GET, "") for _ in range(3)))
    assert sorted(server.received) == [(n, "GET /a") for n in range(3)]


async def test_connections_are_opened_ahead_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    all_are_being_made = asyncio.Barrier(3)

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        await all_are_being_made.wait()
        connection = make()
        connection.connection_made(FakeTransport())
        return connection

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 4, PROMPT, "tests")
    async with asyncio.timeout(5):
        await pool.warm(3)
    await pool.close()


async def test_connections_opened_ahead_are_bounded_by_the_pool_size() -> None:
    server = RawServer([OK, OK, OK])
    async with pool_to(server, size=1) as pool:
        await pool.warm(3)
        await asyncio.gather(*(pool.call(GET, "") for _ in range(3)))
    assert server.received == [(0, "GET /a")] * 3


async def test_failures_of_connections_opened_ahead_are_ignored() -> None:
    server = RawServer()
    async with pool_to(server):
        pass
    pool = Pool(Address.of(f"http://127.0.0.1:{server.port}", None, None), 4, PROMPT, "tests")
    await pool.warm(3)
    assert await reason_of(pool, GET) == UNREACHABLE
    await pool.close()


async def test_expired_idle_connection_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = RawServer([OK, OK], [OK])
    async with pool_to(server, size=1) as pool:
        await pool.call(POST, "")
        monkeypatch.setattr(pools, "IDLE", -1.0)
        await pool.call(POST, "")
    assert [number for number, _ in server.received] == [0, 1]


async def test_stream_with_a_slow_reader_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.kube.http_connection._HIGH_WATER", 1 << 12)
    body = bytes(range(256)) * 4096
    server = RawServer([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", LIMITS)
        got = []
        async for chunk in stream.chunks:
            got.append(chunk)
            await asyncio.sleep(0.001)
        stream.close()
    assert b"".join(got) == body
    assert len(got) > 4, "it was not read in one piece"


async def test_stream_may_end_with_the_connection() -> None:
    server = RawServer([b"HTTP/1.1 200 OK\r\n\r\none"])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", LIMITS)
        assert [chunk async for chunk in stream.chunks] == [b"one"]
        stream.close()


async def read(pool: Pool, call: Call = GET) -> bytes:
    """Read a stream to its end."""
    stream = await pool.stream(call, "", LIMITS)
    try:
        return b"".join([chunk async for chunk in stream.chunks])
    finally:
        stream.close()


async def test_stream_reuses_the_connection_of_a_completed_one() -> None:
    """As for consecutive pages of a list, and its watch."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    server = RawServer([OK, chunked, OK, OK], [OK])
    async with pool_to(server) as pool:
        assert [await read(pool) for _ in range(3)] == [b"ok", b"ab", b"ok"]
        assert {*await asyncio.gather(read(pool), read(pool))} == {b"ok"}
    assert sorted(number for number, _ in server.received) == [0, 0, 0, 0, 1], (
        "concurrent streams use separate connections"
    )


UNREAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"
REFUSED = b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("answer", "why"), [(UNREAD, "left early"), (REFUSED, "rejected"), (CLOSED, "closed")])
async def test_connection_of_an_incomplete_stream_is_not_reused(answer: bytes, why: str) -> None:
    server = RawServer([answer, OK], [OK])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", LIMITS)
        if why == "closed":
            assert [chunk async for chunk in stream.chunks] == [b"ok"]
        stream.close()
        assert await read(pool) == b"ok"
    assert [number for number, _ in server.received] == [0, 1], why


async def test_stream_on_a_closing_connection_begins_on_another() -> None:
    server = RawServer([OK, Then.CLOSE], [OK])
    async with pool_to(server) as pool:
        assert [await read(pool), await read(pool)] == [b"ok", b"ok"]
    assert [number for number, _ in server.received] == [0, 0, 1]


@pytest.mark.parametrize("answer", [UNREAD, UNREAD[:10]], ids=["in its body", "in its head"])
async def test_stream_that_breaks_after_its_begin_is_not_restarted(answer: bytes) -> None:
    server = RawServer([OK, answer], [OK])
    async with pool_to(server) as pool:
        await read(pool)
        with pytest.raises(RequestError, match="the connection broke"):
            await read(pool)
    assert [number for number, _ in server.received] == [0, 0]


def requested_stream() -> StreamConnection:
    """Return a connection with a sent request and no response."""
    connection = StreamConnection()
    connection.connection_made(FakeTransport())
    connection.send(b"GET / HTTP/1.1", LIMITS)
    return connection


async def test_response_between_two_streams_is_not_used_for_the_second() -> None:
    connection = requested_stream()
    connection.data_received(OK)
    assert [chunk async for chunk in connection] == [b"ok"]
    assert connection.release()
    connection.data_received(OK)
    assert not connection.is_open


async def test_idle_stream_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "LINGER", 0.0)
    server = RawServer([OK, OK], [OK])
    async with pool_to(server) as pool:
        await read(pool)
        await server.until_ended(1)
        await read(pool)
    assert [number for number, _ in server.received] == [0, 1]


async def test_close_also_closes_stream_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "LINGER", 60.0)
    server = RawServer([OK, OK], [OK, OK])
    async with pool_to(server) as pool:
        late = await pool.stream(GET, "", LIMITS)
        assert [chunk async for chunk in late.chunks] == [b"ok"]
        await read(pool)
        await pool.close()
        late.close()
        await server.until_ended(2)


async def test_silence_of_a_stream_is_measured_from_its_last_data() -> None:
    connection = requested_stream()
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\none")
    connection._check_limits()  # called by the timer
    assert await anext(connection) == b"one"
    connection._read_at -= 5.0
    connection._check_limits()
    with pytest.raises(RequestError, match="no answer in time"):
        await anext(connection)


@pytest.mark.parametrize("server_hostname", ["server", "other"])
async def test_certificate_must_match_the_server_hostname(tmp_path: Path, server_hostname: str) -> None:
    file = self_signed(tmp_path, "server")
    ours, theirs = ssl.create_default_context(cafile=file), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    server = RawServer([OK, OK])
    async with server.serving(theirs):
        pool = Pool(Address.of(f"https://127.0.0.1:{server.port}", ours, server_hostname), 1, PROMPT, "tests")
        if server_hostname == "server":
            assert [(await pool.call(POST, "")).body for _ in range(2)] == [b"ok", b"ok"]
        else:
            assert await reason_of(pool, POST) == UNREACHABLE
        await pool.close()


async def test_writes_are_rejected_and_reads_sent_while_writing_is_not_allowed() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1, may_write=lambda: not server.received) as pool:
        await pool.call(POST, "")
        assert [await reason_of(pool, call) for call in (POST, PUT)] == [NOT_LEADING, NOT_LEADING]
        await pool.call(GET, "")
    assert server.received == [(0, "POST /a"), (0, "GET /a")]


async def test_may_write_is_checked_after_waiting_for_a_connection() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1, may_write=lambda: not server.received) as pool:
        first, second = (asyncio.create_task(pool.call(call, "")) for call in (POST, PUT))
        await first
        with pytest.raises(RequestError) as caught:
            await second
    assert caught.value.reason == NOT_LEADING
    assert server.received == [(0, "POST /a")]


def test_calls_past_their_deadline_when_sent_time_out() -> None:
    """As after a long pause of the process; uvloop's handle for a timer that is due at once has no `when`."""
    seconds = 1.0

    def at_last() -> bool:
        time.sleep(seconds)
        return True

    async def run() -> list[str | BaseException]:
        async with pool_to(RawServer([OK, OK], [OK, OK]), size=2, timeout=seconds, may_write=at_last) as pool:
            await asyncio.gather(pool.call(GET, ""), pool.call(GET, ""))
            await asyncio.sleep(seconds * 1.1)  # the timer of these two calls has expired
            return [*await asyncio.gather(reason_of(pool, POST), reason_of(pool, POST), return_exceptions=True)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == [TIMEOUT, TIMEOUT]
