"""Watch and polling sources of the pod store, with scripted responses on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator

from pyscheduler.backend import (
    ClusterProblem,
    PodSnapshotStore,
    PodsPollingSnapshotSource,
    PodsSnapshot,
    PodState,
    PodsWatchSnapshotSource,
)
from tests.properties.virtual_loop import run


class ScriptedClient:
    """Client with scripted responses to lists and watches; once they are used up, calls never return."""

    def __init__(self, lists: list[PodsSnapshot | int], watches: list[list[PodsSnapshot | int]]) -> None:
        """Set the responses; a number is the status of a failed call."""
        self.lists, self.watches = lists, watches
        self.calls: list[str] = []

    async def list_pods(self, selector: str) -> PodsSnapshot:
        self.calls.append("list")
        if not self.lists:
            await asyncio.get_running_loop().create_future()
        return self._respond(self.lists.pop(0))

    async def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        self.calls.append(f"watch {resource_version}")
        if not self.watches:
            await asyncio.get_running_loop().create_future()
        for response in self.watches.pop(0):
            yield self._respond(response)

    @staticmethod
    def _respond(response: PodsSnapshot | int) -> PodsSnapshot:
        if isinstance(response, int):
            raise ClusterProblem(response, "Scripted", "scripted failure")
        return response


def pod(name: str, version: int) -> dict[str, PodState]:
    return {name: PodState(name=name, uid=name, version=version)}


def list_of(resource_version: int, **pods: int) -> PodsSnapshot:
    states = {name: PodState(name=name, uid=name, version=version) for name, version in pods.items()}
    return PodsSnapshot(pods=states, complete=True, resource_version=resource_version)


def changes(since: int, resource_version: int, name: str = "") -> PodsSnapshot:
    return PodsSnapshot(
        pods=pod(name, resource_version) if name else {}, since=since, resource_version=resource_version
    )


def watch(
    client: ScriptedClient, resource_version: int | None, seconds: float = 100.0
) -> tuple[PodSnapshotStore, list[str]]:
    """Run the watch source for some seconds; return the store and the calls made."""
    store = PodSnapshotStore(resource_version)

    async def story() -> None:
        source = PodsWatchSnapshotSource(client, "", store, resource_version, random.Random(1))  # type: ignore[arg-type]
        watching = asyncio.create_task(source.run())
        await asyncio.sleep(seconds)
        watching.cancel()

    run(story())
    return store, client.calls


def test_watch_resumes_at_the_saved_resource_version() -> None:
    store, calls = watch(ScriptedClient([], [[changes(7, 9, "a")]]), resource_version=7)
    assert calls[0] == "watch 7"
    assert "list" not in calls[:3]
    assert (set(store.pods), store.resource_version) == ({"a"}, 9)


def test_watch_without_a_saved_resource_version_lists_first() -> None:
    store, calls = watch(ScriptedClient([list_of(20, a=5)], [[changes(20, 21, "b")]]), resource_version=None)
    assert calls[:3] == ["list", "watch 20", "watch 21"]
    assert (set(store.pods), store.synced) == ({"a", "b"}, True)


def test_410_leads_to_a_list_that_removes_deleted_pods() -> None:
    client = ScriptedClient([list_of(20, a=5, b=6), list_of(40, b=6)], [[410], [changes(40, 41, "c")]])
    store, calls = watch(client, resource_version=None)
    assert calls[:4] == ["list", "watch 20", "list", "watch 40"]
    assert set(store.pods) == {"b", "c"}, "pods missing in the list are removed"


def test_bookmark_advances_the_resource_version() -> None:
    store, calls = watch(ScriptedClient([list_of(20)], [[changes(20, 99)]]), resource_version=None)
    assert calls[:3] == ["list", "watch 20", "watch 99"]
    assert store.resource_version == 99


def test_repeated_410_is_retried_with_backoff() -> None:
    _, calls = watch(ScriptedClient([list_of(20)] * 500, [[410]] * 500), resource_version=3, seconds=60.0)
    assert 4 < calls.count("list") < 30


def test_watch_relists_after_consecutive_failures() -> None:
    _, calls = watch(ScriptedClient([list_of(20)], [[503]] * 6), resource_version=3)
    assert calls.count("list") == 1


def test_polling_retries_after_a_failure_and_lists_at_once_on_poll_now() -> None:
    client, store = ScriptedClient([500, list_of(5, a=1), list_of(9), list_of(9)], []), PodSnapshotStore()

    async def story() -> list[int]:
        source = PodsPollingSnapshotSource(client, "", store, 60.0, random.Random(1))  # type: ignore[arg-type]
        polling = asyncio.create_task(source.run())
        counts = []
        for poll_now in (False, False, True):
            if poll_now:
                source.poll_now()
            await asyncio.sleep(10.0)
            counts.append(len(client.calls))
        await asyncio.sleep(70.0)
        polling.cancel()
        return [*counts, len(client.calls)]

    assert run(story()) == [2, 2, 3, 4]
    assert store.pods == {}
