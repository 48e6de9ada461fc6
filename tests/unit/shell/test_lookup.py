"""Lookup of pods without a watch event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyscheduler.core.commands import GetPod
from pyscheduler.core.events import Event, PodFound, PodGone
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.lookup import PodLookup
from pyscheduler.shell.writers.writer import KubeWriter
from pyscheduler.testing import pod
from tests.unit.kube.fake_api import FakeApi, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/namespaces/default/pods/a"
A = pod("a")


async def answers(api: FakeApi, connection: Connection, clock: VirtualClock, reply: Reply) -> list[Event]:
    """Return the events of a lookup with this reply; a second, successful lookup marks its end."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    lookup = PodLookup(KubeWriter(connection, clock), clock, events.put_nowait)
    working = asyncio.create_task(lookup.run())
    api.script(PATH, reply, ok(pod("a").on("end").manifest))
    found: list[Event] = []
    async with asyncio.timeout(5):
        lookup.add(GetPod(A.build()))
        await api.called(1)
        lookup.add(GetPod(A.build()))
        while not (isinstance(event := await events.get(), PodFound) and event.object.spec.node_name == "end"):
            found.append(event)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return found


@pytest.mark.parametrize("where", ["", "n1"])
async def test_pod_is_found_with_or_without_a_node(
    api: FakeApi, connection: Connection, clock: VirtualClock, where: str
) -> None:
    built = A.on(where) if where else A
    (event,) = await answers(api, connection, clock, ok(built.manifest))
    assert isinstance(event, PodFound)
    assert (event.object.metadata.name, event.object.spec.node_name) == ("a", where)


@pytest.mark.parametrize("reply", [refused(404, "NotFound"), ok(pod("a").uid("another").on("n1").manifest)])
async def test_deleted_or_replaced_pod_is_gone(
    api: FakeApi, connection: Connection, clock: VirtualClock, reply: Reply
) -> None:
    (event,) = await answers(api, connection, clock, reply)
    assert isinstance(event, PodGone)
    assert event.uid == A.build().uid


BAD: dict[str, Any] = {
    "500": refused(500),
    "403": refused(403),
    "no JSON": Reply(200, b"<html>"),
    "no body": Reply(200, b""),
    "no pod": ok({"metadata": 7}),
    "a list": Reply(200, b"[]"),
    "nested too deep": Reply(200, b'{"a":' * 100_000),
}


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD)
async def test_failed_lookup_emits_no_event(
    api: FakeApi, connection: Connection, clock: VirtualClock, reply: Reply
) -> None:
    assert await answers(api, connection, clock, reply) == []
