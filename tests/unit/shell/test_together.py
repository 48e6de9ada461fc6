"""Calls that are sent together on one connection: answered in their order, and what becomes of the rest of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.kube.connection import UNBATCHED_SECONDS, Connection, ConnectionOptions, connect
from pyscheduler.shell.kube.errors import NOT_LEADING, RequestError
from pyscheduler.shell.kube.http1 import JSON, PROTOBUF
from pyscheduler.shell.kube.pool import Call

from .fake_api import FakeApi, Hangup, Reply, refused
from .raw_server import OK, RawServer, Script, Then
from .test_connection import Told, form
from .test_pool import CLOSED, GET, POST, pool_to
from .virtual import VirtualClock

PATH = "/api/v1/things"
ONE, TWO, THREE = (OK.replace(b"ok", text) for text in (b"_1", b"_2", b"_3"))
NOTHING_YET = b""
CALLS = [Call("POST", f"/{name}", b"{}") for name in "abc"]


ANSWERS: dict[str, tuple[Script, list[bytes | None]]] = {
    "one by one": ([ONE, TWO, THREE], [b"_1", b"_2", b"_3"]),
    "all in one piece": ([NOTHING_YET, NOTHING_YET, ONE + TWO + THREE], [b"_1", b"_2", b"_3"]),
    "cut in the middle": ([ONE + TWO[:30], TWO[30:], THREE], [b"_1", b"_2", b"_3"]),
    "one is refused": ([ONE, OK.replace(b"200 OK", b"409 No"), THREE], [b"_1", b"ok", b"_3"]),
    "broken off": ([ONE, Then.CLOSE], [b"_1", None, None]),
    "the last is broken off": ([ONE, TWO, THREE[:-1]], [b"_1", b"_2", None]),
    "to be closed after one": ([CLOSED], [b"ok", None, None]),
    "closed, and yet there is more": ([CLOSED + TWO + THREE], [b"ok", None, None]),
    "more than was asked for": ([NOTHING_YET, NOTHING_YET, ONE + TWO + THREE + OK], [b"_1", b"_2", None]),
    "not HTTP": ([ONE, b"SSH-2.0\r\n\r\n"], [b"_1", None, None]),
    "up to the end": ([ONE, b"HTTP/1.1 200 OK\r\n\r\nuntil", Then.CLOSE], [b"_1", b"until", None]),
}


@pytest.mark.parametrize(("script", "expected"), ANSWERS.values(), ids=ANSWERS)
async def test_each_gets_its_own_answer_or_none(script: Script, expected: list[bytes | None]) -> None:
    server = RawServer(script, [OK])
    async with pool_to(server, size=1) as pool:
        answers = await pool.calls(CALLS, "")
        assert [answer and answer.body for answer in answers] == expected
        assert (await pool.call(GET, "")).body == b"ok", "the next call gets none of theirs"


async def test_they_share_one_connection_that_goes_on() -> None:
    server = RawServer([OK, ONE, TWO, THREE, OK])
    async with pool_to(server) as pool:
        await pool.call(POST, "")
        await pool.calls(CALLS, "")
        await pool.call(POST, "")
    assert server.received == [(0, f"POST /{path}") for path in "aabca"]


async def test_a_connection_is_free_once_however_many_it_carried() -> None:
    server = RawServer([ONE, TWO, THREE, OK], [OK])
    async with pool_to(server) as pool:
        await pool.calls(CALLS, "")
        await asyncio.gather(pool.call(POST, ""), pool.call(POST, ""))
    assert sorted(number for number, _ in server.received) == [0, 0, 0, 0, 1]


async def test_what_is_not_answered_in_time_is_left_with_its_connection() -> None:
    server = RawServer([ONE, Then.HOLD], [OK])
    async with pool_to(server, size=1, timeout=0.3) as pool:
        first, *others = await pool.calls(CALLS, "")
        assert first is not None
        assert others == [None, None]
        await server.until_ended(1)
        pool._deadlines = Deadlines(answer=5.0)
        assert (await pool.call(POST, "")).body == b"ok"


async def test_none_is_sent_once_that_is_not_allowed() -> None:
    server = RawServer([OK])
    async with pool_to(server, size=1) as pool:
        pool.may_write = lambda: False
        with pytest.raises(RequestError) as caught:
            await pool.calls(CALLS, "")
        pool.may_write = lambda: True
        assert (await pool.call(POST, "")).body == b"ok"
    assert caught.value.reason == NOT_LEADING
    assert len(server.received) == 1


# -- objects ---------------------------------------------------------------------------------------------------------


THINGS = [(PATH, form)] * 3


async def test_which_objects_were_taken_is_told(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Reply(201), refused(409, "AlreadyExists"), Reply(201))
    assert await connection.create_together(THINGS) == [True, False, True]
    assert [(call.method, call.content_type) for call in api.calls] == [("POST", JSON)] * 3
    assert connection.together == sys.maxsize, "a refusal is an answer"


async def test_objects_go_in_the_form_that_is_wanted(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1, content_type=PROTOBUF), clock)
    api.script(PATH, *[refused(415)] * 3, refused(415), Reply(201), *[Reply(201)] * 3)
    assert await connection.create_together(THINGS) == [False] * 3
    await connection.create(PATH, form)
    assert await connection.create_together(THINGS) == [True] * 3, "in JSON from then on"
    assert [call.content_type for call in api.calls] == [PROTOBUF] * 4 + [JSON] * 4
    await connection.close()


async def test_a_server_that_breaks_off_gets_calls_one_by_one_for_a_minute(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, Reply(201), Hangup())
    assert await connection.create_together(THINGS) == [True, False, False]
    assert connection.together == 1
    clock.at += UNBATCHED_SECONDS
    assert connection.together == sys.maxsize


async def test_where_there_is_no_connection_none_was_taken(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    await api.stop()
    await connection._transport.close()
    assert await connection.create_together(THINGS) == [False] * 3


async def test_no_more_go_together_than_have_their_turn(kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=10, burst=5), clock)
    assert connection.together == 4, "to ask for the version was the first"
    clock.at += 100
    assert connection.together == 5
    await connection.close()


async def test_each_counts_as_the_call_that_it_is(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Reply(201), refused(403), Hangup())
    connection.client_metrics = told = Told()
    await connection.create_together(THINGS)
    assert told.answers == [("POST", 201, False), ("POST", 403, False), ("POST", 0, False)]
    assert [sent for _, sent, _ in told.sizes] == [2, 2], "what is not answered was carried nowhere"
    assert (len(told.waits), len(told.seconds)) == (3, 3)
