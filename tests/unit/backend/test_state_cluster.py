"""The state in the cluster under an API server's troubles, and between two owners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.state import SavedState, StateInUse, StateLost, StateProblem
from pyscheduler.backend.state.cluster import ClusterState, WriteLimits
from pyscheduler.backend.state.objects import CONFIG_MAPS
from pyscheduler.backend.state.shards import ShardLimits
from tests.tasks.fake_objects import FakeClient, FakeObjects
from tests.tasks.records import record
from tests.tasks.virtual_time import in_virtual_time

SMALL = ShardLimits(filled=2_000, full=3_000, shards=3)


def state(
    client: FakeClient, limits: ShardLimits = ShardLimits(), write_limits: WriteLimits = WriteLimits()
) -> ClusterState:  # noqa: B008
    return ClusterState(client, "tasks", limits=limits, write_limits=write_limits)


def virtually(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time."""

    def test() -> None:
        in_virtual_time(story())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


async def found(server: FakeObjects, limits: ShardLimits = ShardLimits()) -> SavedState:  # noqa: B008
    store = state(server.client(), limits)
    saved = await store.open()
    await store.close()
    return saved


@virtually
async def test_a_commit_writes_no_more_than_the_shards_that_changed() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    await store.commit([record(f"t-{i}") for i in range(12)])
    before = dict(server.calls)
    await store.commit([record("t-0", attempt=2), record("t-1", attempt=2)])
    assert server.calls["replace"] - before["replace"] == 1
    assert server.calls["create"] == before["create"]


@virtually
async def test_writes_keep_to_their_pace_and_the_place_is_written_now_and_then() -> None:
    server = FakeObjects()
    store = state(server.client(), write_limits=WriteLimits(writes_per_second=5.0, burst=5))
    await store.open()
    began, calls = asyncio.get_running_loop().time(), server.calls["replace"]
    for number in range(100):
        await store.commit([record("a", version=number)], resource_version=str(number))
    seconds = asyncio.get_running_loop().time() - began
    written = server.calls["replace"] - calls
    assert 100 + seconds / 5.0 - 2 <= written <= 5.0 * seconds + 6 + seconds / 5.0


@virtually
async def test_the_place_is_never_ahead_of_the_records() -> None:
    """Whatever the server has at any moment, each record of the place's commit is in it."""
    server = FakeObjects()
    client = server.client()
    store = state(client, SMALL, WriteLimits(writes_per_second=50.0, place_seconds=0.1))
    await store.open()

    def look(verb: str, path: str) -> None:
        place = int(server.data("tasks")["place"] or 0)
        shards = [server.data(name) for _, name in server.objects if name.startswith("tasks-")]
        versions = [json.loads(text).get("version", 1) for shard in shards for text in shard.values()]
        assert not place or (len(versions) == 9 and min(versions) >= place)

    client.trouble = look
    for number in range(2, 60):
        await store.commit(
            [record(f"t-{i}", version=number, told=True) for i in range(9)], resource_version=str(number)
        )
    assert int(server.data("tasks")["place"]) > 10
    client.trouble = lambda verb, path: None
    await store.close()


@virtually
async def test_a_write_whose_answer_was_lost_is_not_taken_for_anothers() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    client.lose_answers = 1
    await store.commit([record("new-shard")])
    client.lose_answers = 2
    await store.commit([record("a")], resource_version="3")
    await store.close()
    assert await found(server) == SavedState({"new-shard": record("new-shard"), "a": record("a")}, "3")


@virtually
async def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    loop, answers = asyncio.get_running_loop(), 8.0 + asyncio.get_running_loop().time()

    def away(verb: str, path: str) -> None:
        if loop.time() < answers:
            raise ClusterProblem(503, "ServiceUnavailable", "etcd has no leader")

    client.trouble = away
    await store.commit([record("a")])
    assert loop.time() >= answers
    await store.close()
    assert set((await found(server)).records) == {"a"}


@virtually
async def test_a_refused_write_is_a_problem_and_may_be_tried_again() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()

    def forbid(verb: str, path: str) -> None:
        if path == "configmaps/tasks-0":
            raise ClusterProblem(403, "Forbidden", "configmaps is forbidden: User cannot create")

    client.trouble = forbid
    with pytest.raises(StateProblem, match=r"ConfigMap tasks-0: configmaps is forbidden.*manifests/examples/tasks/"):
        await store.commit([record("a")])
    client.trouble = lambda verb, path: None
    await store.commit([record("b")])
    await store.close()
    assert set((await found(server)).records) == {"a", "b"}


@virtually
async def test_a_commit_cancelled_with_a_write_on_its_way_costs_nothing() -> None:
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()
    await store.commit([record("a")])
    held = asyncio.Event()

    def hold(verb: str, path: str) -> Awaitable[object] | None:
        return held.wait() if verb == "replace" and path == "configmaps/tasks-0" else None

    client.trouble = hold
    commit = asyncio.create_task(store.commit([record("a", attempt=2)]))
    await asyncio.sleep(1.0)
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)
    client.trouble = lambda verb, path: None
    # The server got it all the same, as one does whose client has hung up.
    kept = server.objects[CONFIG_MAPS, "tasks-0"]
    server.write(CONFIG_MAPS, "tasks-0", kept)
    await store.commit([record("a", attempt=3)])
    await store.close()
    assert (await found(server)).records == {"a": record("a", attempt=3)}


@virtually
async def test_an_owner_that_renews_keeps_others_out_for_ever() -> None:
    server = FakeObjects()
    first = state(server.client())
    await first.open()
    for _ in range(3):
        await asyncio.sleep(100.0)
        with pytest.raises(StateInUse, match="the Lease tasks is held by "):
            await state(server.client()).open()
    await first.commit([record("a")])
    await first.close()


@virtually
async def test_the_state_of_one_that_died_is_had_once_its_lease_has_run_out() -> None:
    server = FakeObjects()
    dead = server.client()
    first = state(dead)
    await first.open()
    await first.commit([record("a")])
    dead.trouble = lambda verb, path: asyncio.Event().wait()
    began = asyncio.get_running_loop().time()
    second = state(server.client())
    assert set((await second.open()).records) == {"a"}
    assert 25.0 <= asyncio.get_running_loop().time() - began <= 36.0
    await second.close()


@virtually
async def test_one_that_gives_it_back_keeps_nobody_waiting() -> None:
    server = FakeObjects()
    first = state(server.client())
    await first.open()
    await first.close()
    began = asyncio.get_running_loop().time()
    second = state(server.client())
    await second.open()
    assert asyncio.get_running_loop().time() - began < 1.0
    await second.close()


@virtually
async def test_no_write_after_the_lease_is_lost() -> None:
    """The Lease cannot be renewed any more, while ConfigMaps could still be written."""
    server = FakeObjects()
    client = server.client()
    store = state(client)
    await store.open()

    def no_leases(verb: str, path: str) -> None:
        if path == "leases/tasks" and verb == "replace":
            raise ClusterProblem(503, "ServiceUnavailable", "no")

    client.trouble = no_leases
    await asyncio.sleep(19.0)
    await store.commit([record("a")])
    await asyncio.sleep(2.0)
    with pytest.raises(StateLost, match="it could not be renewed in time"):
        await store.commit([record("b")])
    await store.close()
    client.trouble = lambda verb, path: None
    assert set((await found(server)).records) == {"a"}


@virtually
async def test_a_write_that_arrives_after_another_has_taken_over_is_refused() -> None:
    """The old owner's process was frozen with writes on their way; they arrive when the state is another's."""
    server = FakeObjects()
    old = server.client()
    first = state(old, SMALL)
    await first.open()
    await first.commit([record(f"t-{i}") for i in range(10)], resource_version="1")
    thawed = asyncio.Event()
    old.trouble = lambda verb, path: thawed.wait()
    changed = [record(f"t-{i}", attempt=2) for i in range(10)]
    late = asyncio.create_task(first.commit([*changed, *(record(f"new-{i}") for i in range(3))], resource_version="2"))
    second = state(server.client(), SMALL)
    saved = await second.open()
    before = {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS}
    thawed.set()
    with pytest.raises(StateLost):
        await late
    with pytest.raises(StateLost):
        await first.commit([record("t-0", attempt=3)])
    assert {key: value for key, value in server.objects.items() if key[0] == CONFIG_MAPS} == before
    await second.commit([record("t-0", attempt=9)])
    await first.close()
    await second.close()
    expected = {**saved.records, "t-0": record("t-0", attempt=9)}
    assert (await found(server, SMALL)).records == expected


@virtually
async def test_somebody_who_writes_a_configmap_by_hand_ends_the_store() -> None:
    server = FakeObjects()
    store = state(server.client())
    await store.open()
    await store.commit([record("a")])
    edited = server.objects[CONFIG_MAPS, "tasks-0"]
    edited["metadata"]["annotations"] = {}
    server.write(CONFIG_MAPS, "tasks-0", edited)
    for _ in range(2):
        with pytest.raises(StateLost, match="ConfigMap tasks-0 was written by somebody else"):
            await store.commit([record("a", attempt=2)])


@virtually
async def test_a_configmap_of_somebody_else_is_left_alone() -> None:
    server = FakeObjects()
    server.write(CONFIG_MAPS, "tasks", {"metadata": {"name": "tasks"}, "data": {"theirs": "1"}})
    with pytest.raises(StateProblem, match="ConfigMap tasks is there and is not ours"):
        await state(server.client()).open()
    assert server.data("tasks") == {"theirs": "1"}


@virtually
async def test_what_has_no_room_is_refused_whole_and_the_rest_goes_on() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    big = record("big", message="x" * 4_000)
    with pytest.raises(
        StateProblem, match=r"the record of task 'big' takes .* bytes, and a ConfigMap has room for 3000"
    ):
        await store.commit([record("a"), big])
    await store.commit([record("b")])
    many = [record(f"t-{i}") for i in range(200)]
    with pytest.raises(StateProblem, match="3 ConfigMaps are full and there is no room for task"):
        await store.commit(many)
    await store.commit([record("b", attempt=2)])
    await store.close()
    assert (await found(server, SMALL)).records == {"b": record("b", attempt=2)}


@virtually
async def test_room_that_was_forgotten_is_used_again() -> None:
    server = FakeObjects()
    store = state(server.client(), SMALL)
    await store.open()
    for round in range(40):
        ids = [f"{round}-{i}" for i in range(5)]
        await store.commit([record(id) for id in ids])
        await store.commit([], forgotten=ids)
    await store.close()
    assert len([name for path, name in server.objects if path == CONFIG_MAPS]) <= 3
