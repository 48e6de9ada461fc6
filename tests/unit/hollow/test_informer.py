"""The informer's cache and its listeners; `tests/unit/kube` has the tests of list and watch."""

from __future__ import annotations

import asyncio

from pyscheduler.embedded.client import Informer
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.objects import Json
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Watched
from tests.unit.kube.fake_api import FakeApi, event, expired, listed, watch
from tests.unit.kube.fixtures import api, clock, connection, kubeconfig
from tests.unit.kube.virtual import VirtualClock

__all__ = ["api", "clock", "connection", "kubeconfig"]
PATH = "/api/v1/pods"


def a_pod(name: str, version: int, **spec: object) -> Json:
    """Return a pod as JSON from the server."""
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"containers": [], **spec}}


A1, A2, B2, B3, C4 = a_pod("a", 1), a_pod("a", 2), a_pod("b", 2), a_pod("b", 3), a_pod("c", 4)


class RecordingListener:
    """Records changes as `NAME OLD>NEW` with the resourceVersions, and sets `called` after `count` of them."""

    def __init__(self, count: int) -> None:
        self.changes: list[str] = []
        self._count = count
        self.called = asyncio.Event()

    def __call__(self, before: Json | None, after: Json | None) -> None:
        old, new = (obj["metadata"]["resourceVersion"] if obj else "" for obj in (before, after))
        self.changes.append(f"{(before or after or {})['metadata']['name']} {old}>{new}")
        if len(self.changes) == self._count:
            self.called.set()


async def changes_of(connection: Connection, clock: VirtualClock, count: int) -> tuple[list[str], list[str]]:
    """Run an informer until its listener was called `count` times; return the calls and the cached names."""
    listener = RecordingListener(count)
    pods = Informer(Watched(PODS), Json, listener)
    task = asyncio.create_task(pods.run(connection, clock))
    async with asyncio.timeout(5):
        await asyncio.gather(pods.synced.wait(), listener.called.wait())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return listener.changes, sorted(name for _, name in pods.objects)


async def test_listener_is_called_with_the_object_before_and_after(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, listed(A1, version=1), watch(event("MODIFIED", A2), event("ADDED", B3), event("DELETED", C4)))
    api.script(PATH, watch(event("DELETED", a_pod("a", 5))))
    assert await changes_of(connection, clock, 4) == (["a >1", "a 1>2", "b >3", "a 2>"], ["b"])


async def test_listener_gets_the_cached_object_when_a_relist_finds_it_deleted(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, listed(A1, B2, version=2), expired(), listed(B2, C4, version=4))
    changes, names = await changes_of(connection, clock, 4)
    assert (sorted(changes), names) == (["a 1>", "a >1", "b >2", "c >4"], ["b", "c"])


async def test_struct_that_cannot_be_decoded_is_not_cached(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(PATH, listed(a_pod("broken", 1, containers="none"), A1, version=1))
    pods = Informer(Watched(PODS), HollowPod)
    task = asyncio.create_task(pods.run(connection, clock))
    await asyncio.wait_for(pods.synced.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [name for _, name in pods.objects] == ["a"]
