"""The local copy stays true whatever happens to the watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyscheduler.embedded.client import PODS, Informer, Json, StatusError, informer, structs
from pyscheduler.embedded.client.informer import OBJECTS
from pyscheduler.embedded.hollow.pod_types import HollowPod
from tests.unit.hollow.scripted import ScriptedServer, event, pod_json

A1, A2, B2, C3 = pod_json("a", 1), pod_json("a", 2), pod_json("b", 2), pod_json("c", 3)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "RELIST_DELAY_SECONDS", (0.0, 0.0))


@asynccontextmanager
async def following(server: ScriptedServer) -> AsyncIterator[tuple[Informer[Json], list[str]]]:
    """The informer after the script has run, and what its listener was told."""
    told: list[str] = []

    def listener(before: Json | None, after: Json | None) -> None:
        old = before["metadata"]["resourceVersion"] if before else ""
        new = after["metadata"]["resourceVersion"] if after else ""
        name = (before or after or {})["metadata"]["name"]
        told.append(f"{name} {old}>{new}")

    copy = Informer(server, PODS, OBJECTS, listeners=[listener])
    task = asyncio.create_task(copy.run())
    await asyncio.wait_for(server.done.wait(), 5)
    try:
        yield copy, told
    finally:
        task.cancel()


def names(copy: Informer[Json]) -> list[str]:
    return sorted(name for _, name in copy.objects)


async def test_it_lists_then_follows() -> None:
    server = ScriptedServer([([A1], "1")], [[event("MODIFIED", A2), event("ADDED", B2), event("DELETED", A2)]])
    async with following(server) as (copy, told):
        assert names(copy) == ["b"]
        assert told == ["a >1", "a 1>2", "b >2", "a 2>"]


async def test_a_broken_watch_is_resumed_where_it_stopped() -> None:
    server = ScriptedServer([([A1], "1")], [[event("ADDED", B2), OSError("cut")], [event("ADDED", C3)]])
    async with following(server) as (copy, _):
        assert names(copy) == ["a", "b", "c"]
        assert server.watched_from == ["1", "2", "3"]


async def test_a_bookmark_moves_the_place_to_resume_from() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    server = ScriptedServer([([A1], "1")], [[bookmark]])
    async with following(server):
        assert server.watched_from == ["1", "9"]


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}), id="in the stream"),
        pytest.param(StatusError(410, "Expired", "too old"), id="as the answer"),
    ],
)
async def test_after_410_the_list_is_read_again_and_what_is_missing_is_gone(gone: bytes | Exception) -> None:
    server = ScriptedServer([([A1, B2], "2"), ([B2, C3], "3")], [[gone]])
    async with following(server) as (copy, told):
        assert names(copy) == ["b", "c"]
        assert "a 1>" in told


async def test_an_unreadable_object_is_left_out_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"metadata": {"name": "odd", "resourceVersion": "1"}, "spec": {"containers": "none"}}
    server = ScriptedServer([([odd, A1], "1")], [[event("ADDED", odd), event("ADDED", B2)]])
    copy = Informer(server, PODS, structs(HollowPod))
    task = asyncio.create_task(copy.run())
    await asyncio.wait_for(server.done.wait(), 5)
    task.cancel()
    assert sorted(name for _, name in copy.objects) == ["a", "b"]
    assert "skipping an object that cannot be decoded" in caplog.text
