"""Retries of calls to a busy or broken server, and the pauses before them."""

from __future__ import annotations

import contextlib
from email.utils import formatdate

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube.connection import LOST, Connection, unanswered
from pyscheduler.kube.headers import LONGEST_WAIT
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/things"


async def test_429_is_retried_after_the_requested_pause_for_any_method(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, refused(429, retry_after=3), refused(429), ok({}))
    await connection.request("POST", PATH, b"{}")
    assert clock.slept == [3.0, 1.0]


@pytest.mark.parametrize(
    ("reply", "slept"),
    [
        pytest.param(refused(429), [], id="forbidden by a disruption budget"),
        pytest.param(refused(429, retry_after=10), [10.0], id="budget not yet observed, or a busy server"),
    ],
)
async def test_eviction_is_retried_only_after_a_response_with_retry_after(
    api: FakeApi, connection: Connection, clock: VirtualClock, reply: Reply, slept: list[float]
) -> None:
    path = "/api/v1/namespaces/default/pods/p/eviction"
    api.script(path, reply, ok({}))
    with contextlib.nullcontext() if slept else pytest.raises(ApiError):
        await connection.request("POST", path, b"{}")
    assert clock.slept == slept


async def test_429_is_raised_after_ten_tries(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, *[refused(429, retry_after=1)] * 20)
    with pytest.raises(ApiError) as caught:
        await connection.request("GET", PATH)
    assert caught.value.status == 429
    assert len(api.calls) == 10


async def test_read_is_retried_when_the_connection_breaks(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Hangup(), Hangup(), ok({"x": 1}))
    assert await connection.request("GET", PATH) == b'{"x":1}'


async def test_write_is_not_retried_when_the_connection_breaks(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Hangup(), ok({}))
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    assert (caught.value.status, caught.value.reason) == (0, LOST)
    assert unanswered(caught.value)
    assert len(api.calls) == 1


@pytest.mark.parametrize(("method", "calls"), [("GET", 4), ("POST", 1)])
async def test_503_with_retry_after_is_retried_for_reads_only(
    api: FakeApi, connection: Connection, method: str, calls: int
) -> None:
    api.script(PATH, *[refused(503, retry_after=1)] * 9)
    with pytest.raises(ApiError):
        await connection.request(method, PATH)
    assert len(api.calls) == calls


@pytest.mark.parametrize(
    ("wait", "slept"),
    [
        pytest.param("3600", [LONGEST_WAIT], id="an hour"),
        pytest.param("9" * 400, [LONGEST_WAIT], id="400 digits"),
        pytest.param("\u00b2", [1.0] * 9, id="a superscript"),
        pytest.param("", [1.0] * 9, id="none"),
    ],
)
async def test_a_call_waits_at_most_30_seconds_whatever_the_value_of_retry_after(
    api: FakeApi, connection: Connection, clock: VirtualClock, wait: str, slept: list[float]
) -> None:
    api.script(PATH, *[Reply(429, b"", {"Retry-After": wait})] * 20)
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    assert caught.value.status == 429
    assert clock.slept == slept
    assert sum(clock.slept) <= LONGEST_WAIT


@pytest.mark.parametrize("seconds", ["3600", "9" * 400, "-7", "9" * 18])
async def test_retry_after_seconds_in_the_body_is_bounded(
    api: FakeApi, connection: Connection, clock: VirtualClock, seconds: str
) -> None:
    body = b'{"kind":"Status","details":{"retryAfterSeconds":%b}}' % seconds.encode()
    api.script(PATH, Reply(429, body), Reply(429, body), Reply(200, b"{}"))
    with contextlib.suppress(ApiError):
        await connection.request("POST", PATH, b"{}")
    assert all(0 <= pause <= LONGEST_WAIT for pause in clock.slept)


async def test_retry_after_may_be_a_date(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
    at = formatdate(clock.wall() + 4, usegmt=True)
    api.script(PATH, Reply(429, b"", {"Retry-After": at}), ok({}))
    await connection.request("POST", PATH, b"{}")
    assert clock.slept == [4.0]
