"""Whatever a watch misses, the store never claims more than it holds, and every deletion reaches the subscriber.

Pods change at random. The watch is late, breaks off and receives 410, after which it lists again; no other source
helps. After each merge the store is compared with the pods that existed at its resourceVersion.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend import PodSnapshotStore, PodsSnapshot, PodState, PodsWatchSnapshotSource
from pyscheduler.clock import SystemClock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.outage import watch_outage_log
from pyscheduler.kube.reflector import Change, Deleted, Progress
from tests.properties.pod_stream import bookmark, chunks, gone, pod_event, pod_list
from tests.virtual_loop import run

NAMES = ("a", "b", "c", "d")
SECONDS = 60.0
QUIET = 90.0
"""Seconds without changes and faults at the end, in which the watch has to catch up."""


class ChangingPods:
    """Pods that change at random until `end`, with all their versions; and the lists and watches of them."""

    namespace = "jobs"
    deadlines = Deadlines()

    def __init__(self, rng: random.Random, trouble: float) -> None:
        self.version = 10
        self.at: dict[int, dict[str, PodState]] = {10: {}}
        """Pods that existed at each resourceVersion."""
        self.deleted: dict[str, PodState] = {}
        """Last states of all deleted pods, by uid."""
        self._events: list[tuple[str, PodState]] = []
        self._floor = 0
        self._rng, self._trouble = rng, trouble
        self.watch_outages = watch_outage_log(SystemClock())

    @property
    def lister_watcher(self) -> Self:
        return self

    async def change(self) -> None:
        end = self._now() + SECONDS
        while self._now() < end:
            await asyncio.sleep(self._rng.uniform(0.0, 2.0))
            self._change_one(self._rng.choice(NAMES))
            if self._rng.random() < self._trouble / 2:
                self._events, self._floor = [], self.version
        self._trouble = 0.0

    def _change_one(self, name: str) -> None:
        pods = dict(self.at[self.version])
        self.version += 1
        existing = pods.pop(name, None)
        if existing is not None and self._rng.random() < 0.4:
            pod = msgspec.structs.replace(existing, version=self.version, phase="Failed")
            self.deleted[pod.uid] = pod
            self._events.append(("DELETED", pod))
        else:
            uid = existing.uid if existing is not None else f"{name}-{self.version}"
            pod = pods[name] = PodState(name=name, uid=uid, version=self.version)
            self._events.append(("ADDED" if existing is None else "MODIFIED", pod))
        self.at[self.version] = pods

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:  # an interface
        body = pod_list(self.at[self.version].values(), self.version)
        async with aclosing(self._arriving(body)) as arriving:
            yield arriving

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        version = int(parse_qs(urlsplit(path).query)["resourceVersion"][0])
        if version < self._floor and self._rng.random() < 0.5:
            raise ApiError(410, "Expired", "too old resource version")
        async with aclosing(self._watch(version, self._now() + seconds)) as arriving:
            yield arriving

    async def _watch(self, version: int, end: float) -> AsyncGenerator[bytes, None]:
        while self._now() < end:
            if version < self._floor:
                yield gone()
                return
            later = [event for event in self._events if event[1].version > version]
            body = b"".join(pod_event(*event) for event in later)
            version = self.version
            async with aclosing(self._arriving(body or bookmark(version))) as arriving:
                async for chunk in arriving:
                    yield chunk

    async def _arriving(self, body: bytes) -> AsyncGenerator[bytes, None]:
        for chunk in chunks(body, self._rng):
            await asyncio.sleep(self._rng.uniform(0.0, 3.0))
            if self._rng.random() < self._trouble:
                raise ApiError(0, "ConnectionLost", "the connection broke")
            yield chunk

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class CheckedStore(PodSnapshotStore):
    """Store that is compared with the pods after each merge."""

    def __init__(self, pods: ChangingPods, resumed: int | None) -> None:
        super().__init__(resumed)
        self._history = pods
        self._watched: set[str] = set()
        self.missed: set[str] = set()
        """Uids of the pods whose deletion no watch delivered before a list."""
        self.held: set[str] = set()
        """Uids of all pods that were stored."""
        self.violations: list[str] = []

    def merge(self, snapshot: PodsSnapshot) -> None:
        super().merge(snapshot)
        self._watched |= snapshot.deleted.keys()
        self.held |= {pod.uid for pod in self.pods.values()}
        if snapshot.complete:
            self.missed |= {
                uid
                for uid, pod in self._history.deleted.items()
                if pod.version <= (snapshot.resource_version or 0) and uid not in self._watched
            }
        version = self.resource_version
        if self.synced and version is not None and self.pods != self._history.at[version]:
            self.violations.append(f"at {version} {self.pods} are stored, {self._history.at[version]} exist")


async def watch(seed: int, resumed: int | None) -> None:
    """Watch changing pods; check the store, and the deletions that its subscriber receives."""
    rng = random.Random(seed)
    pods = ChangingPods(rng, rng.choice((0.0, 0.1, 0.3)))
    store, received = CheckedStore(pods, resumed), dict[str, PodState]()
    subscription = store.subscribe()

    async def receive() -> None:
        while True:
            received.update((await subscription.next()).deleted)

    source = PodsWatchSnapshotSource(pods, "x=y", store, resumed, rng)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(work) for work in (source.run(), receive())]
    await pods.change()
    await asyncio.sleep(QUIET)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not store.violations, store.violations[0]
    assert store.resource_version == pods.version
    assert store.pods == pods.at[pods.version]
    assert received.keys() == pods.deleted.keys() - (store.missed - store.held)
    for uid in received.keys() - store.missed:
        assert received[uid] == pods.deleted[uid], "the last state is missing"


@pytest.mark.parametrize("resumed", [None, 10], ids=["from a list", "resumed"])
def test_store_holds_what_existed_at_its_resource_version(resumed: int | None) -> None:
    for seed in range(60):
        run(watch(seed, resumed))


_change, _progress = PodsWatchSnapshotSource._handle_change, PodsWatchSnapshotSource._handle_progress


def _ignore_deletions(source: PodsWatchSnapshotSource, change: Change[Any]) -> None:
    if not isinstance(change, Deleted):
        _change(source, change)


def _drop_last_state(source: PodsWatchSnapshotSource, change: Change[Any]) -> None:
    _change(source, change._replace(object=None) if isinstance(change, Deleted) else change)


def _claim_gap(source: PodsWatchSnapshotSource, progress: Progress) -> None:
    is_first = source._resource_version is None
    _progress(source, progress._replace(is_list=progress.is_list and is_first))


def _list_changes_only(source: PodsWatchSnapshotSource, progress: Progress) -> None:
    source._pods = source._changed
    _progress(source, progress)


PLANTED = {
    "deletions are ignored": ("_handle_change", _ignore_deletions),
    "deleted pods lose their last state": ("_handle_change", _drop_last_state),
    "the gap after 410 is claimed as covered": ("_handle_progress", _claim_gap),
    "unchanged pods are missing in a list": ("_handle_progress", _list_changes_only),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_bug_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, bug = PLANTED[planted]
    monkeypatch.setattr(PodsWatchSnapshotSource, name, bug)
    assert any(_fails(seed, resumed) for seed in range(60) for resumed in (None, 10))


def _fails(seed: int, resumed: int | None) -> bool:
    try:
        run(watch(seed, resumed))
    except AssertionError:
        return True
    return False
