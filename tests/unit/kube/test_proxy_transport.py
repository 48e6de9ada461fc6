"""Server behind an HTTP proxy: calls, responses and failures as without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube.connection import LOST, TIMEOUT, UNREACHABLE, Connection, ConnectionOptions
from pyscheduler.kube.credentials import load
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import NOT_LEADING
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, Stream, ok, refused
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.test_connection import drained, free_port
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/things"


async def through(proxy: str, folder: Path, clock: VirtualClock, timeout: float = 5.0) -> Connection:
    """Return a connection through a proxy; the fake proxy itself responds."""
    file = write_kubeconfig(folder, "http://api.example", cluster=f"proxy-url: {proxy}", user="token: secret")
    return Connection(await load(file, clock), ConnectionOptions(qps=-1, deadlines=Deadlines(response=timeout)), clock)


@pytest.fixture
async def connection(api: FakeApi, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Connection]:
    connection = await through(api.url, tmp_path, clock)
    yield connection
    await connection.close()


async def test_a_call(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, ok({"x": 1}))
    assert await connection.request("POST", f"{PATH}?dryRun=All", b'{"a":1}') == b'{"x":1}'
    [call] = api.calls
    assert (call.method, call.query, call.body, call.content_type, call.authorization) == (
        "POST",
        {"dryRun": "All"},
        b'{"a":1}',
        "application/json",
        "Bearer secret",
    )


async def test_error_response(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
    api.script(PATH, refused(429, retry_after=3), refused(409, "Conflict", "object was modified"))
    with pytest.raises(ApiError, match="object was modified") as caught:
        await connection.request("POST", PATH, b"{}")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert clock.slept == [3.0]


async def test_calls_of_a_batch_are_sent_one_by_one(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Reply(201), Hangup(), Reply(201))
    assert await connection.create_batch([(PATH, lambda _: b"{}")] * 3) == [True, False, True]
    assert len(api.calls) == 3


async def test_writes_are_rejected_while_writing_is_not_allowed(api: FakeApi, connection: Connection) -> None:
    guarded = connection.new_connection(may_write=lambda: False)
    api.script(PATH, ok({"x": 1}))
    with pytest.raises(ApiError) as caught:
        await guarded.request("POST", PATH, b"{}")
    assert caught.value.reason == NOT_LEADING
    assert await guarded.request("GET", PATH) == b'{"x":1}'
    await guarded.close()


async def test_lost_connection(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Hangup())
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    assert (caught.value.status, caught.value.reason) == (0, LOST)


async def test_call_without_a_response_times_out(api: FakeApi, tmp_path: Path, clock: VirtualClock) -> None:
    connection = await through(api.url, tmp_path, clock, timeout=0.3)
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", f"{PATH}?watch=1")
    await connection.close()
    assert caught.value.reason == TIMEOUT


async def test_unreachable_proxy(tmp_path: Path, clock: VirtualClock) -> None:
    connection = await through(f"http://127.0.0.1:{free_port()}", tmp_path, clock)
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    await connection.close()
    assert caught.value.reason == UNREACHABLE
    assert len(clock.slept) == 3


async def test_streams(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Stream((b"one", b"two")), Stream((b"one",), cut=True), *[Reply(410, b"{}")])
    assert await drained(connection, PATH, seconds=5) == b"onetwo"
    with pytest.raises(ApiError) as caught:
        await drained(connection, PATH, seconds=5)
    assert caught.value.reason == LOST
    with pytest.raises(ApiError) as caught:
        await drained(connection, PATH, seconds=5)
    assert caught.value.status == 410
    with pytest.raises(ApiError) as caught:
        await drained(connection, f"{PATH}?watch=1", seconds=0.05)
    assert caught.value.reason == TIMEOUT
