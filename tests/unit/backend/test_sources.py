"""Watch and polling sources of the pod store, with scripted responses on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import parse_qs, urlsplit

from pyscheduler.api import ApiError
from pyscheduler.backend import (
    PodSnapshotStore,
    PodsPollingSnapshotSource,
    PodsSnapshot,
    PodState,
    PodsWatchSnapshotSource,
)
from pyscheduler.backend.problems import Problems
from pyscheduler.clock import SystemClock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.outage import watch_outage_log
from tests.properties.pod_stream import bookmark, gone, pod_event, pod_list
from tests.virtual_loop import run

Script = Sequence[bytes | float]
"""Chunks of a response; a number is the status of an error that ends it, `SILENCE` a response that never goes on."""
SILENCE = 0.5


class ScriptedClient:
    """Client with scripted responses to lists and watches; once they are used up, calls never return."""

    namespace = "jobs"
    deadlines = Deadlines()

    def __init__(self, lists: Sequence[Script] = (), watches: Sequence[Script] = ()) -> None:
        self.lists, self.watches = list(lists), list(watches)
        self.calls: list[str] = []
        self.watch_outages = watch_outage_log(SystemClock())

    @property
    def lister_watcher(self) -> Self:
        return self

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.calls.append("list")
        yield self._respond(self.lists)

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        url = urlsplit(path)
        query = parse_qs(url.query)
        assert url.path == "/api/v1/namespaces/jobs/pods"
        assert query["labelSelector"] == ["x=y"]
        self.calls.append(f"watch {query['resourceVersion'][0]}")
        yield self._respond(self.watches)

    async def _respond(self, scripts: list[Script]) -> AsyncIterator[bytes]:
        if not scripts:
            await asyncio.get_running_loop().create_future()
        for part in scripts.pop(0):
            if part == SILENCE:
                await asyncio.get_running_loop().create_future()
            if isinstance(part, int | float):
                raise ApiError(int(part), "Scripted", "scripted failure")
            yield part


class RecordingStore(PodSnapshotStore):
    """Store that records the merged snapshots."""

    def __init__(self, resumed: int | None) -> None:
        super().__init__(resumed)
        self.merged: list[PodsSnapshot] = []

    def merge(self, snapshot: PodsSnapshot) -> None:
        self.merged.append(snapshot)
        super().merge(snapshot)

    @property
    def claims(self) -> list[str]:
        """What each snapshot covers."""
        return [
            f"all at {one.resource_version}" if one.complete else f"{one.since} to {one.resource_version}"
            for one in self.merged
        ]


def pod(name: str, version: int, phase: str = "Running") -> PodState:
    return PodState(name=name, uid=f"uid-{name}", version=version, phase=phase)


A5, A9, B6, C41 = pod("a", 5), pod("a", 9), pod("b", 6), pod("c", 41)
UNDECODABLE = pod_event("MODIFIED", B6).replace(b'"Running"', b"7")


def watch(client: ScriptedClient, resource_version: int | None) -> RecordingStore:
    """Run the watch source for some time; return the store."""
    store = RecordingStore(resource_version)

    async def scenario() -> None:
        source = PodsWatchSnapshotSource(client, "x=y", store, resource_version, random.Random(1))  # type: ignore[arg-type]
        watching = asyncio.create_task(source.run())
        await asyncio.sleep(100.0)
        watching.cancel()

    run(scenario())
    return store


def test_watch_resumes_at_the_saved_resource_version() -> None:
    client = ScriptedClient(watches=[[pod_event("MODIFIED", A9)]])
    store = watch(client, 7)
    assert client.calls == ["watch 7", "watch 9"]
    assert (store.pods, store.claims, store.resource_version) == ({"a": A9}, ["7 to 9"], 9)


def test_watch_without_a_saved_resource_version_lists_first() -> None:
    client = ScriptedClient([[pod_list([A5], 20)]], [[pod_event("ADDED", C41), bookmark(50)]])
    store = watch(client, None)
    assert client.calls == ["list", "watch 20", "watch 50"]
    assert (store.pods, store.claims) == ({"a": A5, "c": C41}, ["all at 20", "20 to 41", "41 to 50"])


def test_deleted_pod_is_merged_with_its_last_state() -> None:
    ended = pod("a", 12, "Failed")
    store = watch(ScriptedClient(watches=[[pod_event("MODIFIED", A9), pod_event("DELETED", ended)]]), 7)
    assert store.merged[-1].deleted == {"uid-a": ended}
    assert (store.pods, store.claims) == ({}, ["7 to 9", "9 to 12"])


def test_pod_that_is_not_stored_is_merged_when_its_deletion_is_watched_after_a_restart() -> None:
    store = watch(ScriptedClient(watches=[[pod_event("DELETED", A9)]]), 7)
    assert [one.deleted for one in store.merged] == [{"uid-a": A9}]


def test_deletion_without_a_decodable_state_is_merged_with_the_state_before() -> None:
    undecodable = pod_event("DELETED", pod("a", 12)).replace(b'"Running"', b"7")
    store = watch(ScriptedClient(watches=[[pod_event("MODIFIED", A9), undecodable]]), 7)
    assert store.merged[-1].deleted == {"uid-a": pod("a", 12)}
    assert store.pods == {}


def test_list_after_410_covers_everything_and_the_changes_before_it_are_not_claimed() -> None:
    for expired in ([410], [gone()]):
        client = ScriptedClient([[pod_list([B6], 40)]], [[pod_event("ADDED", A9)], expired, [pod_event("ADDED", C41)]])
        store = watch(client, 7)
        assert client.calls == ["watch 7", "watch 9", "list", "watch 40", "watch 41"]
        assert store.claims == ["7 to 9", "all at 40", "40 to 41"]
        assert store.pods == {"b": B6, "c": C41}, "pods missing in the list are removed"


def test_unchanged_pods_are_part_of_the_complete_list() -> None:
    client = ScriptedClient([[pod_list([A5, B6], 20)], [pod_list([A5, B6], 40)]], [[gone()]])
    assert watch(client, None).merged[-1].pods == {"a": A5, "b": B6}


def test_list_that_breaks_off_is_not_merged() -> None:
    client = ScriptedClient([[pod_list([A5, B6], 20)[:-20], 0], [pod_list([A5], 30)]])
    assert watch(client, None).claims == ["all at 30"]


def test_list_with_a_pod_that_cannot_be_decoded_is_not_complete() -> None:
    b25 = pod("b", 25)
    broken = pod_list([A5, b25], 40).replace(b'"Running"', b"7", 1)
    client = ScriptedClient([[pod_list([A5], 20)], [broken]], [[gone()], [pod_event("ADDED", C41)]])
    store = watch(client, None)
    assert store.claims == ["all at 20", "None to None", "40 to 41"]
    assert store.pods == {"a": A5, "b": b25, "c": C41}, "the first pod may exist"


def test_change_that_cannot_be_decoded_is_not_claimed() -> None:
    store = watch(ScriptedClient(watches=[[UNDECODABLE, pod_event("MODIFIED", A9)]]), 5)
    assert store.claims == ["None to None", "6 to 9"]
    assert store.resource_version == 5, "a restart watches from before the change"


def test_list_older_than_the_saved_resource_version_restarts_store_and_watch() -> None:
    """The API server's etcd was restored from a backup: a watch from the saved resourceVersion would stay silent."""
    store = RecordingStore(900)

    class OlderServer(ScriptedClient):
        async def list_pods(self, selector: str) -> PodsSnapshot:
            return PodsSnapshot(pods={"a": A5}, complete=True, resource_version=20)

    client = OlderServer([[pod_list([A5], 20)]], [[SILENCE], [pod_event("ADDED", C41)]])

    async def scenario() -> None:
        rng = random.Random(1)
        watching = PodsWatchSnapshotSource(client, "x=y", store, 900, rng)  # type: ignore[arg-type]
        polling = PodsPollingSnapshotSource(client, "x=y", store, 60.0, rng, Problems(), watching.relist)  # type: ignore[arg-type]
        running = [asyncio.create_task(watching.run()), asyncio.create_task(polling.run())]
        await asyncio.sleep(10.0)
        for task in running:
            task.cancel()

    run(scenario())
    assert client.calls == ["watch 900", "list", "watch 20", "watch 41"]
    assert store.pods == {"a": A5, "c": C41}
    assert store.resource_version == 41, "the next process resumes in the new history"


def test_polling_retries_after_a_failure_and_lists_at_the_interval() -> None:
    store, at = PodSnapshotStore(), list[float]()

    class Client:
        async def list_pods(self, selector: str) -> PodsSnapshot:
            at.append(asyncio.get_running_loop().time())
            if len(at) == 1:
                raise ApiError(500, "Scripted", "scripted failure")
            pods = {"a": A5} if len(at) == 2 else {}
            return PodsSnapshot(pods=pods, complete=True, resource_version=10 * len(at))

    async def scenario() -> None:
        source = PodsPollingSnapshotSource(Client(), "x=y", store, 60.0, random.Random(1), Problems())  # type: ignore[arg-type]
        polling = asyncio.create_task(source.run())
        await asyncio.sleep(10.0)
        assert store.pods == {"a": A5}
        await asyncio.sleep(60.0)
        polling.cancel()

    run(scenario())
    assert len(at) == 3
    assert at[1] < 1.0
    assert 54.0 < at[2] - at[1] < 66.0
    assert store.pods == {}
