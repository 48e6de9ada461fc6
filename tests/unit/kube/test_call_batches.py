"""Batches of calls on one connection: order of responses, failures."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from pyscheduler.kube.connection import UNBATCHED_SECONDS, Connection, ConnectionOptions, connect
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import NOT_LEADING, RequestError
from pyscheduler.kube.http1 import JSON, PROTOBUF
from pyscheduler.kube.pool import Call
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, refused
from tests.unit.kube.raw_server import OK, RawServer, Script, Then
from tests.unit.kube.test_connection import form, recorded_connection
from tests.unit.kube.test_pool import CLOSED, GET, POST, pool_to
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/things"
ONE, TWO, THREE = (OK.replace(b"ok", text) for text in (b"_1", b"_2", b"_3"))
NOTHING_YET = b""
CALLS = [Call("POST", f"/{name}", b"{}") for name in "abc"]


ANSWERS: dict[str, tuple[Script, list[bytes | None]]] = {
    "one by one": ([ONE, TWO, THREE], [b"_1", b"_2", b"_3"]),
    "all in one piece": ([NOTHING_YET, NOTHING_YET, ONE + TWO + THREE], [b"_1", b"_2", b"_3"]),
    "cut in the middle": ([ONE + TWO[:30], TWO[30:], THREE], [b"_1", b"_2", b"_3"]),
    "one is rejected": ([ONE, OK.replace(b"200 OK", b"409 No"), THREE], [b"_1", b"ok", b"_3"]),
    "connection closed": ([ONE, Then.CLOSE], [b"_1", None, None]),
    "the last is truncated": ([ONE, TWO, THREE[:-1]], [b"_1", b"_2", None]),
    "Connection: close after one": ([CLOSED], [b"ok", None, None]),
    "responses after Connection: close": ([CLOSED + TWO + THREE], [b"ok", None, None]),
    "more responses than calls": ([NOTHING_YET, NOTHING_YET, ONE + TWO + THREE + OK], [b"_1", b"_2", None]),
    "not HTTP": ([ONE, b"SSH-2.0\r\n\r\n"], [b"_1", None, None]),
    "up to the end": ([ONE, b"HTTP/1.1 200 OK\r\n\r\nuntil", Then.CLOSE], [b"_1", b"until", None]),
}


@pytest.mark.parametrize(("script", "expected"), ANSWERS.values(), ids=ANSWERS)
async def test_each_call_gets_its_own_response_or_none(script: Script, expected: list[bytes | None]) -> None:
    server = RawServer(script, [OK])
    async with pool_to(server, size=1) as pool:
        answers = await pool.calls(CALLS, "")
        assert [answer and answer.body for answer in answers] == expected
        assert (await pool.call(GET, "")).body == b"ok", "the next call gets its own response"


async def test_batch_reuses_one_connection() -> None:
    server = RawServer([OK, ONE, TWO, THREE, OK])
    async with pool_to(server) as pool:
        await pool.call(POST, "")
        await pool.calls(CALLS, "")
        await pool.call(POST, "")
    assert server.received == [(0, f"POST /{path}") for path in "aabca"]


async def test_connection_is_released_once_after_a_batch() -> None:
    server = RawServer([ONE, TWO, THREE, OK], [OK])
    async with pool_to(server) as pool:
        await pool.calls(CALLS, "")
        await asyncio.gather(pool.call(POST, ""), pool.call(POST, ""))
    assert sorted(number for number, _ in server.received) == [0, 0, 0, 0, 1]


async def test_connection_of_a_timed_out_batch_is_closed() -> None:
    server = RawServer([ONE, Then.HOLD], [OK])
    async with pool_to(server, size=1, timeout=0.3) as pool:
        first, *others = await pool.calls(CALLS, "")
        assert first is not None
        assert others == [None, None]
        await server.until_ended(1)
        pool._deadlines = Deadlines(response=5.0)
        assert (await pool.call(POST, "")).body == b"ok"


async def test_batch_is_rejected_while_writing_is_not_allowed() -> None:
    server = RawServer([OK])
    leading = False
    async with pool_to(server, size=1, may_write=lambda: leading) as pool:
        with pytest.raises(RequestError) as caught:
            await pool.calls(CALLS, "")
        leading = True
        assert (await pool.call(POST, "")).body == b"ok"
    assert caught.value.reason == NOT_LEADING
    assert len(server.received) == 1


# -- objects -----------------------------------------------------------------------------------------------------------


THINGS = [(PATH, form)] * 3


async def test_create_batch_returns_which_objects_were_accepted(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Reply(201), refused(409, "AlreadyExists"), Reply(201))
    assert await connection.create_batch(THINGS) == [True, False, True]
    assert [(call.method, call.content_type) for call in api.calls] == [("POST", JSON)] * 3
    assert connection.batch_limit == sys.maxsize, "an error response does not disable batches"


async def test_objects_are_sent_in_the_configured_encoding(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1, content_type=PROTOBUF), clock)
    api.script(PATH, *[refused(415)] * 3, refused(415), Reply(201), *[Reply(201)] * 3)
    assert await connection.create_batch(THINGS) == [False] * 3
    await connection.request("POST", PATH, form)
    assert await connection.create_batch(THINGS) == [True] * 3, "in JSON from then on"
    assert [call.content_type for call in api.calls] == [PROTOBUF] * 4 + [JSON] * 4
    await connection.close()


async def test_credentials_are_still_read_again_after_the_server_rejected_protobuf(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1, content_type=PROTOBUF), clock)
    api.script(PATH, refused(415), refused(401), Reply(201))
    await connection.request("POST", PATH, form)
    assert [call.content_type for call in api.calls] == [PROTOBUF, JSON, JSON]
    await connection.close()


async def test_batches_are_disabled_for_a_minute_after_a_broken_one(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, Reply(201), Hangup())
    assert await connection.create_batch(THINGS) == [True, False, False]
    assert connection.batch_limit == 1
    clock.at += UNBATCHED_SECONDS
    assert connection.batch_limit == sys.maxsize


async def test_no_object_is_accepted_without_a_connection(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    await api.stop()
    await connection._transport.close()
    assert await connection.create_batch(THINGS) == [False] * 3


async def test_batch_size_is_bounded_by_the_rate_limit(kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=10, burst=5), clock)
    assert connection.batch_limit == 4, "the read of /version took one token"
    clock.at += 100
    assert connection.batch_limit == 5
    await connection.close()


async def test_each_call_of_a_batch_is_counted(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    api.script(PATH, Reply(201), refused(403), Hangup())
    connection, recorded = await recorded_connection(kubeconfig, clock)
    await connection.create_batch(THINGS)
    assert recorded.answers == [("POST", 201, False), ("POST", 403, False), ("POST", 0, False)]
    assert [sent for _, sent, _ in recorded.sizes] == [2, 2], "no sizes without a response"
    assert (len(recorded.waits), len(recorded.seconds)) == (3, 3)
