"""Connections that calls share: used again, lost, handed on in turn, and never with another call's answer on them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.kube import pool as pools
from pyscheduler.shell.kube.errors import LOST, NOT_LEADING, TIMEOUT, UNREACHABLE, RequestError
from pyscheduler.shell.kube.http_connection import Address, HttpConnection, Limits, StreamConnection
from pyscheduler.shell.kube.pool import Call, Pool

from .raw_server import OK, RawServer, Then
from .test_connection import self_signed

PROMPT, LIMITS = Deadlines(connect=5.0, answer=5.0), Limits(5.0, 5.0, 60.0)
GET, PUT, POST = Call("GET", "/a"), Call("PUT", "/a", b"{}"), Call("POST", "/a", b"{}")
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def pool_to(server: RawServer, size: int = 4, timeout: float = 5.0) -> AsyncIterator[Pool]:
    async with server.serving():
        pool = Pool(Address.of(f"http://127.0.0.1:{server.port}", None, None), size, Deadlines(answer=timeout), "tests")
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


async def test_every_call_says_who_asks_whom() -> None:
    server = RawServer([OK, OK, OK])
    async with pool_to(server) as pool:
        for authorization in ("", "Bearer old", "Bearer new"):
            await pool.call(GET, authorization)
    common = f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUser-Agent: tests\r\n"
    tokens = ("", "Authorization: Bearer old\r\n", "Authorization: Bearer new\r\n")
    assert server.heads == [f"{common}{token}Accept: application/json\r\n\r\n" for token in tokens]


async def test_a_server_may_live_below_a_path() -> None:
    server = RawServer([OK])
    async with server.serving():
        pool = Pool(Address.of(f"http://127.0.0.1:{server.port}/clusters/one/", None, None), 1, PROMPT, "tests")
        await pool.call(GET, "")
        await pool.close()
    assert server.received == [(0, "GET /clusters/one/a")]


async def test_an_answer_that_closes_the_connection_is_an_answer() -> None:
    server = RawServer([CLOSED], [b"HTTP/1.1 200 OK\r\n\r\nuntil the end"], [OK])
    async with pool_to(server, size=1) as pool:
        bodies = [(await pool.call(POST, "")).body for _ in range(2)]
        server.received.clear()
    assert bodies == [b"ok", b"until the end"]


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used_again() -> None:
    server = RawServer([OK], [OK])
    async with pool_to(server) as pool:
        await pool.call(POST, "")
        for _ in range(50):  # the news of it is on its way
            await asyncio.sleep(0)
        await pool.call(POST, "")
    assert server.received == [(0, "POST /a"), (1, "POST /a")]


@pytest.mark.parametrize("call", [GET, PUT], ids=["GET", "PUT"])
async def test_a_repeatable_call_that_met_a_closing_connection_is_sent_on_another(call: Call) -> None:
    server = RawServer([OK, Then.CLOSE], [OK])
    async with pool_to(server) as pool:
        await pool.call(GET, "")
        assert (await pool.call(call, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 0, 1]


async def test_any_other_call_that_met_a_closing_connection_is_lost() -> None:
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
async def test_what_is_no_answer_is_lost_and_the_connection_dropped(answer: bytes | Then) -> None:
    server = RawServer([answer], [OK])
    async with pool_to(server, size=1) as pool:
        assert await reason_of(pool, GET) == LOST
        assert (await pool.call(GET, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


async def test_a_server_that_speaks_unasked_loses_its_connection() -> None:
    server = RawServer([OK, OK], [OK])
    async with pool_to(server) as pool:
        await pool.call(GET, "")
        (_, wire), *_ = pool._idle
        wire.data_received(OK)
        assert (await pool.call(POST, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


@pytest.mark.parametrize("calls", [1, 3], ids=["one", "several together"])
async def test_a_cancelled_call_takes_its_connection_along(calls: int) -> None:
    server = RawServer([Then.HOLD], [OK])
    async with pool_to(server, size=1) as pool:
        call = asyncio.ensure_future(pool.call(POST, "") if calls == 1 else pool.calls([POST] * calls, ""))
        await server.until_received(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await server.until_ended(1)
        assert (await pool.call(POST, "")).body == b"ok"
    assert [number for number, _ in server.received] == [0, 1]


async def test_a_late_answer_is_no_answer_and_the_connection_is_dropped() -> None:
    server = RawServer([Then.HOLD], [OK])
    async with pool_to(server, size=1, timeout=0.3) as pool:
        assert await reason_of(pool, POST) == TIMEOUT
        await server.until_ended(1)
        pool._deadlines = PROMPT
        assert (await pool.call(POST, "")).body == b"ok"


async def test_a_call_that_no_connection_became_free_for_was_not_sent() -> None:
    server = RawServer([Then.HOLD])
    async with pool_to(server, size=1) as pool:
        first = asyncio.create_task(reason_of(pool, POST))
        await server.until_received(1)
        pool._deadlines = Deadlines(answer=0.05)
        assert await reason_of(pool, POST) == UNREACHABLE
        assert len(server.received) == 1
    assert await first == LOST


async def test_who_waits_gets_the_next_free_connection_even_if_others_never_rest() -> None:
    server = RawServer([OK] * 9)
    done: list[str] = []
    async with pool_to(server, size=1) as pool:

        async def caller(name: str, calls: int) -> None:
            for _ in range(calls):
                await pool.call(POST, "")
                done.append(name)

        await asyncio.gather(caller("busy", 5), caller("a", 1), caller("b", 1))
    assert done == ["busy", "a", "b", "busy", "busy", "busy", "busy"]


async def test_a_turn_that_nobody_takes_any_more_is_handed_on() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1) as pool:

        async def first() -> None:
            await pool.call(POST, "")
            second.cancel()  # which has its turn by now, and has not noticed

        going = asyncio.create_task(first())
        second, third = (asyncio.create_task(pool.call(POST, "")) for _ in range(2))
        _, *answers = await asyncio.gather(going, second, third, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert not isinstance(answers[1], BaseException)


async def test_when_a_connection_goes_whoever_waits_makes_a_new_one() -> None:
    server = RawServer([Then.CLOSE], [OK])
    async with pool_to(server, size=1) as pool:
        outcomes = await asyncio.gather(pool.call(POST, ""), pool.call(POST, ""), return_exceptions=True)
    assert isinstance(outcomes[0], RequestError)
    assert not isinstance(outcomes[1], BaseException)


class Line(asyncio.Transport):
    """The network between the pool and a server that the test plays."""

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


async def test_a_connection_that_breaks_as_it_is_handed_on_costs_nobody_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[tuple[Line, HttpConnection]] = []

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        line, wire = Line(), make()
        wire.connection_made(line)
        lines.append((line, wire))
        return wire

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 1, PROMPT, "tests")
    calls = [asyncio.create_task(pool.call(Call("POST", f"/{number}", b""), "")) for number in range(4)]
    await asyncio.sleep(0)
    (line, wire), *_ = lines
    wire.data_received(OK)
    line.abort()
    wire.connection_lost(None)
    for number in (1, 2, 3):
        for _ in range(5):
            await asyncio.sleep(0)
        line, wire = lines[-1]
        assert line.sent[-1] == b"/%d" % number
        wire.data_received(OK)
    assert [answer.body for answer in await asyncio.gather(*calls)] == [b"ok"] * 4
    assert len(lines) == 2
    await pool.close()


async def test_calls_find_the_connections_that_were_made_ahead_of_them() -> None:
    server = RawServer([OK], [OK], [OK])
    async with pool_to(server) as pool:
        await pool.warm(3)
        await server.until_connected(3)
        await pool.warm(3)  # they are there already
        await asyncio.gather(*(pool.call(GET, "") for _ in range(3)))
    assert sorted(server.received) == [(n, "GET /a") for n in range(3)]


async def test_connections_ahead_of_calls_are_made_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    all_are_being_made = asyncio.Barrier(3)

    async def opened(_: Address, make: Callable[[], HttpConnection], __: float) -> HttpConnection:
        await all_are_being_made.wait()
        wire = make()
        wire.connection_made(Line())
        return wire

    monkeypatch.setattr(pools, "open_connection", opened)
    pool = Pool(Address.of("http://nowhere", None, None), 4, PROMPT, "tests")
    async with asyncio.timeout(5):
        await pool.warm(3)
    await pool.close()


async def test_no_more_connections_are_made_ahead_than_there_may_be() -> None:
    server = RawServer([OK, OK, OK])
    async with pool_to(server, size=1) as pool:
        await pool.warm(3)
        await asyncio.gather(*(pool.call(GET, "") for _ in range(3)))
    assert server.received == [(0, "GET /a")] * 3


async def test_a_server_that_is_not_there_is_no_matter_before_there_are_calls() -> None:
    server = RawServer()
    async with pool_to(server):
        pass
    pool = Pool(Address.of(f"http://127.0.0.1:{server.port}", None, None), 4, PROMPT, "tests")
    await pool.warm(3)
    assert await reason_of(pool, GET) == UNREACHABLE
    await pool.close()


async def test_a_connection_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = RawServer([OK, OK], [OK])
    async with pool_to(server, size=1) as pool:
        await pool.call(POST, "")
        monkeypatch.setattr(pools, "IDLE", -1.0)
        await pool.call(POST, "")
    assert [number for number, _ in server.received] == [0, 1]


async def test_a_stream_loses_nothing_when_its_reader_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.shell.kube.http_connection._HIGH_WATER", 1 << 12)
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
    assert len(got) > 4, "it was not all read at once"


async def test_a_stream_may_end_with_the_connection() -> None:
    server = RawServer([b"HTTP/1.1 200 OK\r\n\r\none"])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", LIMITS)
        assert [chunk async for chunk in stream.chunks] == [b"one"]
        stream.close()


async def read(pool: Pool, call: Call = GET) -> bytes:
    """A stream, read to its end."""
    stream = await pool.stream(call, "", LIMITS)
    try:
        return b"".join([chunk async for chunk in stream.chunks])
    finally:
        stream.close()


async def test_a_stream_goes_on_the_connection_of_one_that_was_read_to_its_end() -> None:
    """A list's pages come one by one, and then its watch."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    server = RawServer([OK, chunked, OK, OK], [OK])
    async with pool_to(server) as pool:
        assert [await read(pool) for _ in range(3)] == [b"ok", b"ab", b"ok"]
        assert {*await asyncio.gather(read(pool), read(pool))} == {b"ok"}
    assert sorted(number for number, _ in server.received) == [0, 0, 0, 0, 1], "two at once have one each"


UNREAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"
REFUSED = b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("answer", "why"), [(UNREAD, "left early"), (REFUSED, "refused"), (CLOSED, "closed")])
async def test_the_connection_of_any_other_stream_is_not_used_again(answer: bytes, why: str) -> None:
    server = RawServer([answer, OK], [OK])
    async with pool_to(server) as pool:
        stream = await pool.stream(GET, "", LIMITS)
        if why == "closed":
            assert [chunk async for chunk in stream.chunks] == [b"ok"]
        stream.close()
        assert await read(pool) == b"ok"
    assert [number for number, _ in server.received] == [0, 1], why


async def test_a_stream_that_met_a_closing_connection_begins_on_another() -> None:
    server = RawServer([OK, Then.CLOSE], [OK])
    async with pool_to(server) as pool:
        assert [await read(pool), await read(pool)] == [b"ok", b"ok"]
    assert [number for number, _ in server.received] == [0, 0, 1]


@pytest.mark.parametrize("answer", [UNREAD, UNREAD[:10]], ids=["in its body", "in its head"])
async def test_a_stream_that_breaks_once_it_has_begun_is_not_begun_anew(answer: bytes) -> None:
    server = RawServer([OK, answer], [OK])
    async with pool_to(server) as pool:
        await read(pool)
        with pytest.raises(RequestError, match="the connection broke"):
            await read(pool)
    assert [number for number, _ in server.received] == [0, 0]


def requested_stream() -> StreamConnection:
    """A connection with a request sent and no response read yet."""
    wire = StreamConnection()
    wire.connection_made(Line())
    wire.send(b"GET / HTTP/1.1", LIMITS)
    return wire


async def test_a_response_sent_between_two_streams_is_not_taken_for_that_of_the_second() -> None:
    wire = requested_stream()
    wire.data_received(OK)
    assert [chunk async for chunk in wire] == [b"ok"]
    assert wire.release()
    wire.data_received(OK)
    assert not wire.is_open


async def test_a_connection_waits_for_another_stream_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "LINGER", 0.0)
    server = RawServer([OK, OK], [OK])
    async with pool_to(server) as pool:
        await read(pool)
        await server.until_ended(1)
        await read(pool)
    assert [number for number, _ in server.received] == [0, 1]


async def test_a_pool_that_is_closed_leaves_no_connection_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "LINGER", 60.0)
    server = RawServer([OK, OK], [OK, OK])
    async with pool_to(server) as pool:
        late = await pool.stream(GET, "", LIMITS)
        assert [chunk async for chunk in late.chunks] == [b"ok"]
        await read(pool)
        await pool.close()
        late.close()
        await server.until_ended(2)


async def test_a_stream_is_silent_only_from_its_last_word_on() -> None:
    wire = requested_stream()
    wire.data_received(b"HTTP/1.1 200 OK\r\n\r\none")
    wire._check_limits()  # as the timer does that was set when the call was sent
    assert await anext(wire) == b"one"
    wire._read_at -= 5.0
    wire._check_limits()
    with pytest.raises(RequestError, match="no answer in time"):
        await anext(wire)


@pytest.mark.parametrize("server_hostname", ["nobody", "somebody"])
async def test_over_tls_the_server_must_be_who_it_is_meant_to_be(tmp_path: Path, server_hostname: str) -> None:
    file = self_signed(tmp_path, "nobody")
    ours, theirs = ssl.create_default_context(cafile=file), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    server = RawServer([OK, OK])
    async with server.serving(theirs):
        pool = Pool(Address.of(f"https://127.0.0.1:{server.port}", ours, server_hostname), 1, PROMPT, "tests")
        if server_hostname == "nobody":
            assert [(await pool.call(POST, "")).body for _ in range(2)] == [b"ok", b"ok"]
        else:
            assert await reason_of(pool, POST) == UNREACHABLE
        await pool.close()


async def test_a_call_that_would_write_is_not_sent_once_that_is_not_allowed_and_one_that_reads_is() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1) as pool:
        await pool.call(POST, "")
        pool.may_write = lambda: False
        assert [await reason_of(pool, call) for call in (POST, PUT)] == [NOT_LEADING, NOT_LEADING]
        await pool.call(GET, "")
    assert server.received == [(0, "POST /a"), (0, "GET /a")]


async def test_whether_a_call_may_write_is_asked_after_it_has_waited_for_a_connection() -> None:
    server = RawServer([OK, OK])
    async with pool_to(server, size=1) as pool:
        pool.may_write = lambda: not server.received
        first, second = (asyncio.create_task(pool.call(call, "")) for call in (POST, PUT))
        await first
        with pytest.raises(RequestError) as caught:
            await second
    assert caught.value.reason == NOT_LEADING
    assert server.received == [(0, "POST /a")]


def test_calls_whose_time_is_up_when_they_are_sent_are_late_and_nothing_worse() -> None:
    """As after a moment in which the machine did something else. A timer that is due at once is none to uvloop."""
    seconds = 1.0

    def at_last() -> bool:
        time.sleep(seconds)
        return True

    async def story() -> list[str | BaseException]:
        async with pool_to(RawServer([OK, OK], [OK, OK]), size=2, timeout=seconds) as pool:
            await asyncio.gather(pool.call(GET, ""), pool.call(GET, ""))
            pool.may_write = at_last
            await asyncio.sleep(seconds * 1.1)  # the timer of these two has rung
            return [*await asyncio.gather(reason_of(pool, POST), reason_of(pool, POST), return_exceptions=True)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) == [TIMEOUT, TIMEOUT]
