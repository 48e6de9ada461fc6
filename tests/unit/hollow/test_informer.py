"""The informer's cache stays correct whatever happens to the watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyscheduler.embedded.client import PODS, ClientStatusError, Informer, Json, informer, structs
from pyscheduler.embedded.client.informer import OBJECTS
from pyscheduler.embedded.hollow.pod_types import HollowPod
from tests.unit.hollow.scripted import ScriptedServer, event, pod_json

A1, A2, B2, C3 = pod_json("a", 1), pod_json("a", 2), pod_json("b", 2), pod_json("c", 3)


@pytest.fixture(autouse=True)
def no_relist_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "RELIST_DELAY_SECONDS", (0.0, 0.0))


@asynccontextmanager
async def run_informer(server: ScriptedServer) -> AsyncIterator[tuple[Informer[Json], list[str]]]:
    """Yield the informer after the script has run, and the calls of its listener."""
    calls: list[str] = []

    def listener(before: Json | None, after: Json | None) -> None:
        old = before["metadata"]["resourceVersion"] if before else ""
        new = after["metadata"]["resourceVersion"] if after else ""
        name = (before or after or {})["metadata"]["name"]
        calls.append(f"{name} {old}>{new}")

    pods = Informer(server, PODS, OBJECTS, listeners=[listener])
    task = asyncio.create_task(pods.run())
    await asyncio.wait_for(server.done.wait(), 5)
    try:
        yield pods, calls
    finally:
        task.cancel()


def names(pods: Informer[Json]) -> list[str]:
    return sorted(name for _, name in pods.objects)


async def test_informer_lists_then_watches() -> None:
    server = ScriptedServer([([A1], "1")], [[event("MODIFIED", A2), event("ADDED", B2), event("DELETED", A2)]])
    async with run_informer(server) as (pods, calls):
        assert names(pods) == ["b"]
        assert calls == ["a >1", "a 1>2", "b >2", "a 2>"]


async def test_broken_watch_is_resumed_at_its_last_resource_version() -> None:
    server = ScriptedServer([([A1], "1")], [[event("ADDED", B2), OSError("cut")], [event("ADDED", C3)]])
    async with run_informer(server) as (pods, _):
        assert names(pods) == ["a", "b", "c"]
        assert server.watched_from == ["1", "2", "3"]


async def test_bookmark_advances_the_resource_version_of_the_next_watch() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    server = ScriptedServer([([A1], "1")], [[bookmark]])
    async with run_informer(server):
        assert server.watched_from == ["1", "9"]


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}), id="as an ERROR event"),
        pytest.param(ClientStatusError(410, "Expired", "too old"), id="as the response"),
    ],
)
async def test_410_gone_causes_a_relist_that_drops_missing_objects(gone: bytes | Exception) -> None:
    server = ScriptedServer([([A1, B2], "2"), ([B2, C3], "3")], [[gone]])
    async with run_informer(server) as (pods, calls):
        assert names(pods) == ["b", "c"]
        assert "a 1>" in calls


async def test_object_that_cannot_be_decoded_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broken = {"metadata": {"name": "broken", "resourceVersion": "1"}, "spec": {"containers": "none"}}
    server = ScriptedServer([([broken, A1], "1")], [[event("ADDED", broken), event("ADDED", B2)]])
    pods = Informer(server, PODS, structs(HollowPod))
    task = asyncio.create_task(pods.run())
    await asyncio.wait_for(server.done.wait(), 5)
    task.cancel()
    assert sorted(name for _, name in pods.objects) == ["a", "b"]
    assert "skipping an object that cannot be decoded" in caplog.text
