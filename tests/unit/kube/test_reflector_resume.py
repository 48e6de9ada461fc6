"""A reflector that continues at the version of a former process, in one namespace, and reports its progress."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyscheduler.api import PodObject
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Change, Deleted, Progress, Reflector, Watched
from pyscheduler.testing import pod
from tests.unit.kube.fake_api import FakeApi, bookmark, event, expired, listed, watch
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/namespaces/jobs/pods"
A12, B14 = (pod(name).version(version).manifest for name, version in (("a", 12), ("b", 14)))


class Recorded:
    """Changes and progress, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def change(self, change: Change[PodObject]) -> None:
        if isinstance(change, Deleted):
            last = change.object.metadata.resource_version if change.object is not None else "unknown"
            self.lines.append(f"-{change.name}, last {last}")
        else:
            self.lines.append(f"{change.object.metadata.name}@{change.object.metadata.resource_version}")

    def progress(self, progress: Progress) -> None:
        self.lines.append(f"{'listed' if progress.is_list else 'watched'} {progress.version}")


@asynccontextmanager
async def resumed(connection: Connection, clock: VirtualClock, version: str | None) -> AsyncIterator[Recorded]:
    recorded, watched = Recorded(), Watched(PODS, namespace="jobs", version=version)
    decoder = ObjectDecoder("pods", PodObject, Refusals())
    reflector = Reflector(
        connection, watched, decoder, recorded.change, clock, random.Random(1), on_progress=recorded.progress
    )
    running = asyncio.create_task(reflector.run())
    yield recorded
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_watch_starts_at_the_version_without_a_list(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, watch(event("MODIFIED", A12), event("DELETED", B14), bookmark(20)))
    async with resumed(connection, clock, "10") as recorded:
        await api.called(2)
    assert [call.query.get("resourceVersion") for call in api.calls[:2]] == ["10", "20"]
    assert recorded.lines == ["a@12", "watched 12", "-b, last 14", "watched 14", "watched 20"]


async def test_everything_is_listed_when_the_version_is_no_longer_available(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, watch(event("MODIFIED", A12)), expired(), listed(B14, version=30))
    async with resumed(connection, clock, "10") as recorded:
        await api.called(4)
    assert recorded.lines == ["a@12", "watched 12", "b@14", "-a, last unknown", "listed 30"]


async def test_after_a_list_only_listed_objects_are_reported_as_deleted(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, listed(version=10), watch(event("DELETED", B14)))
    async with resumed(connection, clock, None) as recorded:
        await api.called(3)
    assert recorded.lines == ["listed 10", "watched 14"]
