"""The proxy: what no rule is about goes through as it is, and a fault is what its name says."""

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
    breaks_off,
    cut_after,
    gone_event,
    hangs_up,
    loses_the_answer,
    refuses,
    repeating,
    says,
    stays_silent_after,
    twice,
)
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import anything, bindings, lists, watches, writes
from tests.faults.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async with ApiServer() as server, FaultProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def make(client: aiohttp.ClientSession, proxy: FaultProxy, name: str) -> int:
    async with client.post(proxy.url + MAPS, json={"metadata": {"name": name}}) as answer:
        await answer.read()
        return answer.status


async def listed(client: aiohttp.ClientSession, proxy: FaultProxy) -> Json:
    async with client.get(proxy.url + MAPS) as answer:
        found: Json = await answer.json()
        return found


async def names(client: aiohttp.ClientSession, proxy: FaultProxy) -> list[str]:
    return [item["metadata"]["name"] for item in (await listed(client, proxy))["items"]]


async def told(client: aiohttp.ClientSession, proxy: FaultProxy, count: int) -> list[str]:
    """The first events of a watch from the beginning, by type and name."""
    found: list[str] = []
    async with client.get(f"{proxy.url}{MAPS}?watch=1&resourceVersion=0") as answer:
        while len(found) < count and (line := await answer.content.readline()):
            event = json.loads(line)
            found.append(f"{event['type']} {event['object'].get('metadata', {}).get('name', '')}".strip())
    return found


async def test_calls_and_watches_go_through(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    assert await make(client, proxy, "a") == 201
    assert await names(client, proxy) == ["a"]
    assert await told(client, proxy, 1) == ["ADDED a"]
    assert [asked.method for asked in proxy.log] == ["POST", "GET", "GET"]
    assert proxy.faults == 0


async def test_a_rule_counts_its_strikes_and_ends(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(writes, refuses(429, 3), times=2) as rule:
        assert [await make(client, proxy, "a") for _ in range(3)] == [429, 429, 201]
    assert (len(rule.struck), proxy.faults) == (2, 2)
    await rule.met(2)


async def test_what_a_rule_refuses_says_why(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(anything, refuses(429, 3)):
        async with client.get(proxy.url + MAPS) as answer:
            assert answer.headers["Retry-After"] == "3"
            assert (await answer.json())["reason"] == "TooManyRequests"


@pytest.mark.parametrize(("fault", "done"), [(hangs_up, False), (loses_the_answer, True), (breaks_off, True)])
async def test_broken_calls(proxy: FaultProxy, client: aiohttp.ClientSession, fault: object, done: bool) -> None:
    with proxy.rule(writes, fault, times=1), pytest.raises(aiohttp.ClientError):  # type: ignore[arg-type]
        await make(client, proxy, "a")
    assert await names(client, proxy) == (["a"] if done else [])


async def test_held_calls_arrive_when_they_are_let_go_though_nobody_waits(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    held = HeldCalls()
    with proxy.rule(writes, held, times=1) as rule:
        making = asyncio.create_task(make(client, proxy, "a"))
        await rule.met()
        making.cancel()
    assert await names(client, proxy) == []
    held.release()
    await until(partial(names, client, proxy))
    assert await names(client, proxy) == ["a"]


async def test_nobody_listens_and_then_somebody_does_at_the_same_place(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    assert await names(client, proxy) == []
    async with proxy.refusing():
        with pytest.raises(aiohttp.ClientConnectorError):
            await names(client, proxy)
    assert await names(client, proxy) == []


async def test_watches_that_misbehave(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    for name in "abc":
        await make(client, proxy, name)
    memory = WatchRecorder()
    everything = ["ADDED a", "ADDED b", "ADDED c"]
    with proxy.rule(watches("configmaps"), memory, times=1):
        assert await told(client, proxy, 3) == everything
    with proxy.rule(watches(), twice, times=1):
        assert await told(client, proxy, 4) == ["ADDED a", "ADDED a", "ADDED b", "ADDED b"]
    with proxy.rule(watches(), repeating(reversed(memory.lines)), times=1):
        assert await told(client, proxy, 6) == [*reversed(everything), *everything]
    with proxy.rule(watches(), says(gone_event(), after=1), times=1):
        assert await told(client, proxy, 9) == ["ADDED a", "ERROR"]
    with proxy.rule(watches(), cut_after(1), times=1), pytest.raises(aiohttp.ClientError):
        await told(client, proxy, 2)


async def test_a_watch_is_known_while_it_lasts_and_can_be_cut(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    with proxy.rule(watches(), stays_silent_after(gone_event()), times=1):
        async with client.get(f"{proxy.url}{MAPS}?watch=1") as answer:
            await answer.content.readline()
            assert proxy.watches == {MAPS: 1}
            assert proxy.cut(lists("configmaps")) == 0
            assert proxy.cut(watches("configmaps")) == 1
            with pytest.raises(aiohttp.ClientError):
                await answer.content.readline()
    assert proxy.watches == {}


async def test_bindings_are_counted_when_the_server_agrees(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    pods, spec = f"{proxy.url}/api/v1/namespaces/default/pods", {"containers": [{"name": "c", "image": "i"}]}
    await client.post(pods, json={"metadata": {"name": "p"}, "spec": spec})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    with proxy.rule(bindings, loses_the_answer, times=1), pytest.raises(aiohttp.ClientError):
        await client.post(f"{pods}/p/binding", json=binding)
    async with client.post(f"{pods}/p/binding", json=binding) as answer:
        assert answer.status == 409
    assert proxy.bound == {"default/p": 1}
