"""The fault proxy: requests without a rule pass unchanged, and each fault does what its name promises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
import pytest

from pyscheduler.embedded.server import ApiServer
from tests.e2e.client import Json
from tests.faults.fault_actions import (
    HeldCalls,
    WatchRecorder,
    cut_after,
    duplicated,
    gone_event,
    lose_response,
    reject,
    replay,
    reset_before_request,
    reset_mid_response,
    send_lines,
    send_lines_then_hang,
)
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import anything, bindings, lists, watches, writes
from tests.faults.waiting import until

SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async with ApiServer() as server, FaultProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def make(client: aiohttp.ClientSession, proxy: FaultProxy, name: str) -> int:
    async with client.post(proxy.url + SECRETS, json={"metadata": {"name": name}}) as answer:
        await answer.read()
        return answer.status


async def listed(client: aiohttp.ClientSession, proxy: FaultProxy) -> Json:
    async with client.get(proxy.url + SECRETS) as answer:
        found: Json = await answer.json()
        return found


async def names(client: aiohttp.ClientSession, proxy: FaultProxy) -> list[str]:
    return [item["metadata"]["name"] for item in (await listed(client, proxy))["items"]]


async def watched(client: aiohttp.ClientSession, proxy: FaultProxy, count: int) -> list[str]:
    """Return the first `count` events of a new watch, as type and name."""
    events: list[str] = []
    async with client.get(f"{proxy.url}{SECRETS}?watch=1&resourceVersion=0") as answer:
        while len(events) < count and (line := await answer.content.readline()):
            event = json.loads(line)
            events.append(f"{event['type']} {event['object'].get('metadata', {}).get('name', '')}".strip())
    return events


async def test_calls_and_watches_pass_through_without_rules(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    assert await make(client, proxy, "a") == 201
    assert await names(client, proxy) == ["a"]
    assert await watched(client, proxy, 1) == ["ADDED a"]
    assert [request.method for request in proxy.log] == ["POST", "GET", "GET"]
    assert proxy.faults == 0


async def test_rule_ends_after_its_number_of_requests(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(writes, reject(429, 3), times=2) as rule:
        assert [await make(client, proxy, "a") for _ in range(3)] == [429, 429, 201]
    assert (len(rule.matched), proxy.faults) == (2, 2)
    await rule.wait_matched(2)


async def test_rejection_is_a_status_with_retry_after(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(anything, reject(429, 3)):
        async with client.get(proxy.url + SECRETS) as answer:
            assert answer.headers["Retry-After"] == "3"
            assert (await answer.json())["reason"] == "TooManyRequests"


@pytest.mark.parametrize(
    ("fault", "done"), [(reset_before_request, False), (lose_response, True), (reset_mid_response, True)]
)
async def test_reset_connections_raise_before_or_after_the_call_took_effect(
    proxy: FaultProxy, client: aiohttp.ClientSession, fault: object, done: bool
) -> None:
    with proxy.rule(writes, fault, times=1), pytest.raises(aiohttp.ClientError):  # type: ignore[arg-type]
        await make(client, proxy, "a")
    assert await names(client, proxy) == (["a"] if done else [])


async def test_held_calls_reach_the_server_when_released(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    held_calls = HeldCalls()
    with proxy.rule(writes, held_calls, times=1) as rule:
        making = asyncio.create_task(make(client, proxy, "a"))
        await rule.wait_matched()
        making.cancel()
    assert await names(client, proxy) == []
    held_calls.release()
    await until(partial(names, client, proxy))
    assert await names(client, proxy) == ["a"]


async def test_proxy_refuses_connections_and_listens_again_on_the_same_port(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    assert await names(client, proxy) == []
    async with proxy.refusing():
        with pytest.raises(aiohttp.ClientConnectorError):
            await names(client, proxy)
    assert await names(client, proxy) == []


async def test_watch_faults(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    for name in "abc":
        await make(client, proxy, name)
    memory = WatchRecorder()
    everything = ["ADDED a", "ADDED b", "ADDED c"]
    with proxy.rule(watches("secrets"), memory, times=1):
        assert await watched(client, proxy, 3) == everything
    with proxy.rule(watches(), duplicated, times=1):
        assert await watched(client, proxy, 4) == ["ADDED a", "ADDED a", "ADDED b", "ADDED b"]
    with proxy.rule(watches(), replay(reversed(memory.lines)), times=1):
        assert await watched(client, proxy, 6) == [*reversed(everything), *everything]
    with proxy.rule(watches(), send_lines(gone_event(), after=1), times=1):
        assert await watched(client, proxy, 9) == ["ADDED a", "ERROR"]
    with proxy.rule(watches(), cut_after(1), times=1), pytest.raises(aiohttp.ClientError):
        await watched(client, proxy, 2)


async def test_open_watch_is_counted_and_can_be_cut(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(watches(), send_lines_then_hang(gone_event()), times=1):
        async with client.get(f"{proxy.url}{SECRETS}?watch=1") as answer:
            await answer.content.readline()
            assert proxy.watches == {SECRETS: 1}
            assert proxy.cut(lists("secrets")) == 0
            assert proxy.cut(watches("secrets")) == 1
            with pytest.raises(aiohttp.ClientError):
                await answer.content.readline()
    assert proxy.watches == {}


async def test_accepted_bindings_are_counted(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    pods, spec = f"{proxy.url}/api/v1/namespaces/default/pods", {"containers": [{"name": "c", "image": "i"}]}
    await client.post(pods, json={"metadata": {"name": "p"}, "spec": spec})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    with proxy.rule(bindings, lose_response, times=1), pytest.raises(aiohttp.ClientError):
        await client.post(f"{pods}/p/binding", json=binding)
    async with client.post(f"{pods}/p/binding", json=binding) as answer:
        assert answer.status == 409
    assert proxy.bound == {"default/p": 1}
