"""The two sources of the pod store before a cluster in memory, on virtual time."""

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


class Script:
    """Answers lists and watches one after the other as written down; then it is silent for ever."""

    def __init__(self, lists: list[PodsSnapshot | int], watches: list[list[PodsSnapshot | int]]) -> None:
        """A number stands for the status of a failure."""
        self.lists, self.watches = lists, watches
        self.asked: list[str] = []

    async def list_pods(self, selector: str) -> PodsSnapshot:
        self.asked.append("list")
        if not self.lists:
            await asyncio.get_running_loop().create_future()
        return self._give(self.lists.pop(0))

    async def watch_pods(self, selector: str, resource_version: int) -> AsyncGenerator[PodsSnapshot, None]:
        self.asked.append(f"watch {resource_version}")
        if not self.watches:
            await asyncio.get_running_loop().create_future()
        for told in self.watches.pop(0):
            yield self._give(told)

    @staticmethod
    def _give(told: PodsSnapshot | int) -> PodsSnapshot:
        if isinstance(told, int):
            raise ClusterProblem(told, "Trouble", "as written down")
        return told


def pod(name: str, version: int) -> dict[str, PodState]:
    return {name: PodState(name=name, uid=name, version=version)}


def listed(resource_version: int, **pods: int) -> PodsSnapshot:
    found = {name: PodState(name=name, uid=name, version=version) for name, version in pods.items()}
    return PodsSnapshot(pods=found, complete=True, resource_version=resource_version)


def told(since: int, resource_version: int, name: str = "") -> PodsSnapshot:
    return PodsSnapshot(
        pods=pod(name, resource_version) if name else {}, since=since, resource_version=resource_version
    )


def watch(script: Script, resource_version: int | None, seconds: float = 100.0) -> tuple[PodSnapshotStore, list[str]]:
    """What is in the store, and what was asked, after a while of watching."""
    store = PodSnapshotStore(resource_version)

    async def story() -> None:
        source = PodsWatchSnapshotSource(script, "", store, resource_version, random.Random(1))  # type: ignore[arg-type]
        watching = asyncio.create_task(source.run())
        await asyncio.sleep(seconds)
        watching.cancel()

    run(story())
    return store, script.asked


def test_a_watch_goes_on_where_the_last_process_stopped() -> None:
    store, asked = watch(Script([], [[told(7, 9, "a")]]), resource_version=7)
    assert asked[0] == "watch 7"
    assert "list" not in asked[:3]
    assert (set(store.pods), store.resource_version) == ({"a"}, 9)


def test_without_a_place_it_lists_first() -> None:
    store, asked = watch(Script([listed(20, a=5)], [[told(20, 21, "b")]]), resource_version=None)
    assert asked[:3] == ["list", "watch 20", "watch 21"]
    assert (set(store.pods), store.synced) == ({"a", "b"}, True)


def test_a_place_that_is_too_old_leads_to_a_list_that_is_reconciled() -> None:
    script = Script([listed(20, a=5, b=6), listed(40, b=6)], [[410], [told(40, 41, "c")]])
    store, asked = watch(script, resource_version=None)
    assert asked[:4] == ["list", "watch 20", "list", "watch 40"]
    assert set(store.pods) == {"b", "c"}, "what the list does not have is gone"


def test_bookmarks_move_the_place() -> None:
    store, asked = watch(Script([listed(20)], [[told(20, 99)]]), resource_version=None)
    assert asked[:3] == ["list", "watch 20", "watch 99"]
    assert store.resource_version == 99


def test_a_server_that_always_says_410_is_not_flooded() -> None:
    _, asked = watch(Script([listed(20)] * 500, [[410]] * 500), resource_version=3, seconds=60.0)
    assert 4 < asked.count("list") < 30


def test_many_failures_lead_to_a_list() -> None:
    _, asked = watch(Script([listed(20)], [[503]] * 6), resource_version=3)
    assert asked.count("list") == 1


def test_polling_goes_on_after_a_failure_and_listens_to_being_hurried() -> None:
    script, store = Script([500, listed(5, a=1), listed(9), listed(9)], []), PodSnapshotStore()

    async def story() -> list[int]:
        source = PodsPollingSnapshotSource(script, "", store, 60.0, random.Random(1))  # type: ignore[arg-type]
        polling = asyncio.create_task(source.run())
        counts = []
        for hurry in (False, False, True):
            if hurry:
                source.poll_now()
            await asyncio.sleep(10.0)
            counts.append(len(script.asked))
        await asyncio.sleep(70.0)
        polling.cancel()
        return [*counts, len(script.asked)]

    assert run(story()) == [2, 2, 3, 4]
    assert store.pods == {}
