"""State in the cluster: API errors, fencing between two owners, and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend.state import SavedState, StateInUse, StateLost, StateProblem
from pyscheduler.backend.state.cluster import WRITE_LIMITS, ClusterTaskState, WriteLimits
from pyscheduler.backend.state.objects import CONFIG_MAPS
from pyscheduler.backend.state.shards import LIMITS, ShardLimits
from tests.tasks.fake_objects import FakeClient, FakeObjects
from tests.tasks.records import record
from tests.virtual_loop import run

SMALL = ShardLimits(filled=2_000, full=3_000, shards=3)


def state(
    client: FakeClient, limits: ShardLimits = LIMITS, write_limits: WriteLimits = WRITE_LIMITS
) -> ClusterTaskState:
    return ClusterTaskState(client, "tasks", limits=limits, write_limits=write_limits)


def on_virtual_time(function: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an async test on virtual time."""

    def test() -> None:
        run(function())

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


async def saved_state(server: FakeObjects, limits: ShardLimits = LIMITS) -> SavedState:
    store = state(server.client(), limits)
    saved = await store.open()
    await store.close()
    return saved


@on_virtual_time
async def test_commit_writes_only_changed_shards() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    await store.commit([record(f"t-{i}") for i in range(12)])
    before = dict(server.calls)
    await store.commit([record("t-0", attempt=2), record("t-1", attempt=2)])
    assert server.calls["replace"] - before["replace"] == 1
    assert server.calls["create"] == before["create"]


@on_virtual_time
async def test_writes_are_rate_limited_and_the_resource_version_is_written_periodically() -> None:
    server = FakeObjects()
    store = state(server.client(), write_limits=WriteLimits(writes_per_second=5.0, burst=5))
    await store.open()
    began, calls = asyncio.get_running_loop().time(), server.calls["replace"]
    for number in range(100):
        await store.commit([record("a", version=number)], resource_version=str(number))
    seconds = asyncio.get_running_loop().time() - began
    written = server.calls["replace"] - calls
    assert 100 + seconds / 5.0 - 2 <= written <= 5.0 * seconds + 6 + seconds / 5.0


@on_virtual_time
async def test_saved_resource_version_is_never_ahead_of_the_records() -> None:
    """At each call, the server has all records of the commit with the saved resourceVersion."""
    server = FakeObjects()
    client = server.client()
    store = state(client, SMALL, WriteLimits(writes_per_second=50.0, place_seconds=0.1))
    await store.open()

    def check_order(verb: str, path: str) -> None:
        saved = int(server.data("tasks")["place"] or 0)
        shards = [server.data(name) for _, name in server.objects if name.startswith("tasks-")]
        versions = [json.loads(text).get("version", 1) for shard in shards for text in shard.values()]
        assert not saved or (len(versions) == 9 and min(versions) >= saved)

    client.before_call = check_order
    for number in range(2, 60):
        records = [record(f"t-{i}", version=number, acknowledged=True) for i in range(9)]
        await store.commit(records, resource_version=str(number))
    assert int(server.data("tasks")["place"]) > 10
    client.before_call = lambda verb, path: None
    await store.close()


@on_virtual_time
async def test_write_without_a_response_is_recognised_as_own() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    client.lost_responses = 1
    await store.commit([record("new-shard")])
    client.lost_responses = 2
    await store.commit([record("a")], resource_version="3")
    await store.close()
    assert await saved_state(server) == SavedState({"new-shard": record("new-shard"), "a": record("a")}, "3")


@on_virtual_time
async def test_commit_is_retried_while_the_server_is_unavailable() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    loop, available_at = asyncio.get_running_loop(), 8.0 + asyncio.get_running_loop().time()

    def unavailable(verb: str, path: str) -> None:
        if loop.time() < available_at:
            raise ApiError(503, "ServiceUnavailable", "etcd has no leader")

    client.before_call = unavailable
    await store.commit([record("a")])
    assert loop.time() >= available_at
    await store.close()
    assert set((await saved_state(server)).records) == {"a"}


@on_virtual_time
async def test_forbidden_write_raises_and_can_be_retried() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()

    def forbid(verb: str, path: str) -> None:
        if path == "configmaps/tasks-0":
            raise ApiError(403, "Forbidden", "configmaps is forbidden: User cannot create")

    client.before_call = forbid
    with pytest.raises(StateProblem, match=r"ConfigMap tasks-0: configmaps is forbidden.*manifests/examples/tasks/"):
        await store.commit([record("a")])
    client.before_call = lambda verb, path: None
    await store.commit([record("b")])
    await store.close()
    assert set((await saved_state(server)).records) == {"a", "b"}


@on_virtual_time
async def test_commit_cancelled_during_a_write_leaves_the_store_usable() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    await store.commit([record("a")])
    never = asyncio.Event()

    def hold(verb: str, path: str) -> Awaitable[object] | None:
        return never.wait() if verb == "replace" and path == "configmaps/tasks-0" else None

    client.before_call = hold
    commit = asyncio.create_task(store.commit([record("a", attempt=2)]))
    await asyncio.sleep(1.0)
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)
    client.before_call = lambda verb, path: None
    # The server completes the write although the client has closed the connection.
    server.write(CONFIG_MAPS, "tasks-0", server.objects[CONFIG_MAPS, "tasks-0"])
    await store.commit([record("a", attempt=3)])
    await store.close()
    assert (await saved_state(server)).records == {"a": record("a", attempt=3)}


@on_virtual_time
async def test_state_in_use_is_raised_while_the_owner_renews() -> None:
    server = FakeObjects()
    first = state(server.client())
    await first.open()
    for _ in range(3):
        await asyncio.sleep(100.0)
        with pytest.raises(StateInUse, match="the Lease tasks is held by "):
            await state(server.client()).open()
    await first.commit([record("a")])
    await first.close()


@on_virtual_time
async def test_state_of_a_dead_owner_opens_once_its_lease_has_expired() -> None:
    server = FakeObjects()
    dead = server.client()
    first = state(dead)
    await first.open()
    await first.commit([record("a")])
    dead.before_call = lambda verb, path: asyncio.Event().wait()
    began = asyncio.get_running_loop().time()
    second = state(server.client())
    assert set((await second.open()).records) == {"a"}
    assert 25.0 <= asyncio.get_running_loop().time() - began <= 36.0
    await second.close()


@on_virtual_time
async def test_released_state_opens_at_once() -> None:
    server = FakeObjects()
    first = state(server.client())
    await first.open()
    await first.close()
    began = asyncio.get_running_loop().time()
    second = state(server.client())
    await second.open()
    assert asyncio.get_running_loop().time() - began < 1.0
    await second.close()


@on_virtual_time
async def test_commit_raises_until_an_expired_lease_is_renewed() -> None:
    """The Lease cannot be renewed for a time, while ConfigMaps can still be written."""
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()

    def no_leases(verb: str, path: str) -> None:
        if path == "leases/tasks" and verb == "replace":
            raise ApiError(503, "ServiceUnavailable", "no")

    client.before_call = no_leases
    await asyncio.sleep(19.0)
    await store.commit([record("a")])
    await asyncio.sleep(2.0)
    before = {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS}
    with pytest.raises(StateProblem, match="could not be renewed in time"):
        await store.commit([record("b")])
    await store.check()  # the state is not lost, so the backend goes on
    assert {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS} == before
    client.before_call = lambda verb, path: None
    await asyncio.sleep(6.0)
    await store.commit([record("b")])
    await store.close()
    assert set((await saved_state(server)).records) == {"a", "b"}


@on_virtual_time
async def test_event_loop_that_was_blocked_for_long_costs_no_lease() -> None:
    loop: Any = asyncio.get_running_loop()
    server = FakeObjects()
    store = state(server.client())
    await store.open()
    loop.at += 40.0  # a callback blocks; nothing runs
    with pytest.raises(StateProblem, match="could not be renewed in time"):
        await store.commit([record("a")])
    await asyncio.sleep(6.0)
    await store.commit([record("a")])
    await store.close()


@on_virtual_time
async def test_lease_that_another_process_had_meanwhile_is_lost() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    away = asyncio.Event()
    client.before_call = lambda verb, path: away.wait()
    second = state(server.client())
    await second.open()
    await second.close()  # and has released it
    away.set()
    await asyncio.sleep(60.0)
    with pytest.raises(StateLost, match="another process has acquired it"):
        await store.check()
    with pytest.raises(StateLost, match="another process has acquired it"):
        await store.commit([record("a")])
    await store.close()


@on_virtual_time
async def test_late_writes_of_a_former_owner_are_rejected() -> None:
    """The old owner's process was frozen during its writes; they arrive after another process took the state."""
    server = FakeObjects()
    old = server.client()
    first = state(old, SMALL)
    await first.open()
    await first.commit([record(f"t-{i}") for i in range(10)], resource_version="1")
    resumed = asyncio.Event()
    old.before_call = lambda verb, path: resumed.wait()
    changed = [record(f"t-{i}", attempt=2) for i in range(10)]
    late = asyncio.create_task(first.commit([*changed, *(record(f"new-{i}") for i in range(3))], resource_version="2"))
    second = state(server.client(), SMALL)
    saved = await second.open()
    before = {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS}
    resumed.set()
    with pytest.raises(StateLost):
        await late
    with pytest.raises(StateLost):
        await first.commit([record("t-0", attempt=3)])
    assert {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS} == before
    await second.commit([record("t-0", attempt=9)])
    await first.close()
    await second.close()
    expected = {**saved.records, "t-0": record("t-0", attempt=9)}
    assert (await saved_state(server, SMALL)).records == expected


@on_virtual_time
async def test_configmap_edited_by_another_client_loses_the_state() -> None:
    server = FakeObjects()
    store = state(server.client())
    await store.open()
    await store.commit([record("a")])
    edited = server.objects[CONFIG_MAPS, "tasks-0"]
    edited["metadata"]["annotations"] = {}
    server.write(CONFIG_MAPS, "tasks-0", edited)
    for _ in range(2):
        with pytest.raises(StateLost, match="ConfigMap tasks-0 was written by another client"):
            await store.commit([record("a", attempt=2)])


@on_virtual_time
async def test_foreign_configmap_is_rejected_and_unchanged() -> None:
    server = FakeObjects()
    server.write(CONFIG_MAPS, "tasks", {"metadata": {"name": "tasks"}, "data": {"theirs": "1"}})
    with pytest.raises(StateProblem, match="ConfigMap tasks exists and holds no task state"):
        await state(server.client()).open()
    assert server.data("tasks") == {"theirs": "1"}


@on_virtual_time
async def test_commit_without_room_writes_nothing_and_later_commits_succeed() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    big = record("big", message="x" * 4_000)
    with pytest.raises(
        StateProblem, match=r"the record of task 'big' has .* bytes, over the limit of 3000 per ConfigMap"
    ):
        await store.commit([record("a"), big])
    await store.commit([record("b")])
    many = [record(f"t-{i}") for i in range(200)]
    with pytest.raises(StateProblem, match="3 ConfigMaps are full and there is no room for task"):
        await store.commit(many)
    await store.commit([record("b", attempt=2)])
    await store.close()
    assert (await saved_state(server, SMALL)).records == {"b": record("b", attempt=2)}


@on_virtual_time
async def test_room_of_forgotten_records_is_reused() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    for round in range(40):
        ids = [f"{round}-{i}" for i in range(5)]
        await store.commit([record(id) for id in ids])
        await store.commit([], forgotten=ids)
    await store.close()
    assert len([name for path, name in server.objects if path == CONFIG_MAPS]) <= 3
