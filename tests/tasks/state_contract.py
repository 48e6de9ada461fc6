"""Contract of state stores as a test class; each implementation subclasses it and defines the fixture `open_store`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pyscheduler.backend.state import SavedState, StateIdentity, StateInUse, StateStore
from pyscheduler.backend.task import TaskPhase
from tests.tasks.records import full_record, record

OpenStore = Callable[[], StateStore]
"""Factory of a store on the same state as its last one, as after a restart."""


async def reopened(open_store: OpenStore) -> SavedState:
    """Return the state as a newly started process reads it."""
    store = open_store()
    saved = await store.open()
    await store.close()
    return without_place(saved)


def without_place(saved: SavedState) -> SavedState:
    """Return the content without the place of the state, which differs from file to file."""
    return replace(saved, place="")


class StateContract:
    """Tests of commits, restarts and locking."""

    async def test_a_new_state_is_empty(self, open_store: OpenStore) -> None:
        assert await reopened(open_store) == SavedState({}, None)

    async def test_committed_records_are_read_back_completely(self, open_store: OpenStore) -> None:
        store, records = open_store(), {id: full_record(id) for id in ("a", "b")}
        await store.open()
        await store.commit(list(records.values()), resource_version="17")
        await store.close()
        assert await reopened(open_store) == SavedState(records, "17")

    async def test_identity_is_stored_and_survives_later_commits(self, open_store: OpenStore) -> None:
        store, identity = open_store(), StateIdentity(namespace="jobs", backend="tasks", cluster_uid="u", state="s")
        await store.open()
        await store.bind(identity)
        await store.commit([record("a")], resource_version="7")
        await store.check()
        await store.close()
        assert await reopened(open_store) == SavedState({"a": record("a")}, "7", identity)

    @pytest.mark.parametrize("id", ["a/b", "naïve ☃", "x" * 253, "A", "a.b-c_d", "'; DROP TABLE task; --", "%s{}"])
    async def test_any_printable_id_is_stored(self, open_store: OpenStore, id: str) -> None:
        store = open_store()
        await store.open()
        await store.commit([record(id), record("a")])
        await store.close()
        assert set((await reopened(open_store)).records) == {id, "a"}

    async def test_later_record_replaces_the_earlier_one_completely(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([full_record("a"), record("b")])
        await store.commit([record("a", phase=TaskPhase.RUNNING)])
        await store.close()
        records = (await reopened(open_store)).records
        assert records == {"a": record("a", phase=TaskPhase.RUNNING), "b": record("b")}

    async def test_last_record_of_a_task_in_a_commit_counts(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([record("a", version=1), record("a", version=2)])
        await store.close()
        assert (await reopened(open_store)).records["a"].version == 2

    async def test_forgotten_records_are_deleted_and_unknown_ids_ignored(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([record("a"), record("b")])
        await store.commit([record("c")], forgotten=["a", "never-there"])
        await store.close()
        assert set((await reopened(open_store)).records) == {"b", "c"}

    async def test_forgotten_id_can_be_stored_again(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([record("a", version=5)])
        await store.commit([], forgotten=["a"])
        await store.commit([record("a")])
        await store.close()
        assert (await reopened(open_store)).records == {"a": record("a")}

    async def test_resource_version_stays_until_the_next_one_is_committed(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([], resource_version="5")
        await store.commit([record("a")])
        await store.close()
        assert await reopened(open_store) == SavedState({"a": record("a")}, "5")
        store = open_store()
        await store.open()
        await store.commit([], resource_version="6")
        await store.close()
        assert (await reopened(open_store)).resource_version == "6"

    async def test_second_open_raises_and_the_first_store_stays_usable(self, open_store: OpenStore) -> None:
        first = open_store()
        await first.open()
        with pytest.raises(StateInUse):
            await open_store().open()
        await first.commit([record("a")])
        await first.close()
        assert set((await reopened(open_store)).records) == {"a"}

    async def test_close_can_be_called_unopened_and_twice(self, open_store: OpenStore) -> None:
        await open_store().close()
        store = open_store()
        await store.open()
        await store.close()
        await store.close()
        assert await reopened(open_store) == SavedState({}, None)

    async def test_cancelled_commit_leaves_each_record_old_or_new(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.open()
        await store.commit([record(f"t-{i}") for i in range(50)])
        for round in range(5):
            commit = asyncio.create_task(store.commit([record(f"t-{i}", attempt=round + 2) for i in range(50)]))
            for _ in range(round):
                await asyncio.sleep(0)
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
        await store.commit([record("last")], resource_version="9")
        await store.close()
        saved = await reopened(open_store)
        assert saved.records.pop("last") == record("last")
        assert saved.resource_version == "9"
        assert set(saved.records) == {f"t-{i}" for i in range(50)}
        assert all(saved.records[id] == record(id, attempt=saved.records[id].attempt) for id in saved.records)

    async def test_thousands_of_records_are_stored(self, open_store: OpenStore) -> None:
        store, records = open_store(), {f"t-{i}": full_record(f"t-{i}") for i in range(2_000)}
        await store.open()
        await store.commit(list(records.values()), resource_version="1")
        await store.close()
        assert await reopened(open_store) == SavedState(records, "1")
