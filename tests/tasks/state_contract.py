"""What every store of the state keeps, told once; each form of it is a subclass that gives the fixture `again`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyscheduler.backend.state import SavedState, StateInUse, StateStore
from pyscheduler.backend.task import TaskPhase
from tests.tasks.records import full_record, record

Again = Callable[[], StateStore]
"""A store on the same state as the one before, as after a restart."""


async def reopened(again: Again) -> SavedState:
    """What a process finds that starts now, and ends at once."""
    store = again()
    saved = await store.open()
    await store.close()
    return saved


class StateContract:
    """The stories. Every commit is on its way to somebody who dies next."""

    async def test_a_new_state_is_empty(self, again: Again) -> None:
        assert await reopened(again) == SavedState({}, None)

    async def test_what_was_committed_is_there_again_to_the_last_field(self, again: Again) -> None:
        store, records = again(), {id: full_record(id) for id in ("a", "b")}
        await store.open()
        await store.commit(list(records.values()), resource_version="17")
        await store.close()
        assert await reopened(again) == SavedState(records, "17")

    @pytest.mark.parametrize("id", ["a/b", "naïve ☃", "x" * 253, "A", "a.b-c_d", "'; DROP TABLE task; --", "%s{}"])
    async def test_any_id_may_be_used(self, again: Again, id: str) -> None:
        store = again()
        await store.open()
        await store.commit([record(id), record("a")])
        await store.close()
        assert set((await reopened(again)).records) == {id, "a"}

    async def test_a_later_record_replaces_the_earlier_one_whole(self, again: Again) -> None:
        store = again()
        await store.open()
        await store.commit([full_record("a"), record("b")])
        await store.commit([record("a", phase=TaskPhase.RUNNING)])
        await store.close()
        found = (await reopened(again)).records
        assert found == {"a": record("a", phase=TaskPhase.RUNNING), "b": record("b")}

    async def test_of_one_commit_the_last_record_of_a_task_counts(self, again: Again) -> None:
        store = again()
        await store.open()
        await store.commit([record("a", version=1), record("a", version=2)])
        await store.close()
        assert (await reopened(again)).records["a"].version == 2

    async def test_the_forgotten_are_gone_and_the_unknown_may_be_forgotten(self, again: Again) -> None:
        store = again()
        await store.open()
        await store.commit([record("a"), record("b")])
        await store.commit([record("c")], forgotten=["a", "never-there"])
        await store.close()
        assert set((await reopened(again)).records) == {"b", "c"}

    async def test_one_that_was_forgotten_may_come_again(self, again: Again) -> None:
        store = again()
        await store.open()
        await store.commit([record("a", version=5)])
        await store.commit([], forgotten=["a"])
        await store.commit([record("a")])
        await store.close()
        assert (await reopened(again)).records == {"a": record("a")}

    async def test_the_place_stays_until_there_is_another(self, again: Again) -> None:
        store = again()
        await store.open()
        await store.commit([], resource_version="5")
        await store.commit([record("a")])
        await store.close()
        assert await reopened(again) == SavedState({"a": record("a")}, "5")
        store = again()
        await store.open()
        await store.commit([], resource_version="6")
        await store.close()
        assert (await reopened(again)).resource_version == "6"

    async def test_a_second_is_refused_and_the_first_goes_on(self, again: Again) -> None:
        first = again()
        await first.open()
        with pytest.raises(StateInUse):
            await again().open()
        await first.commit([record("a")])
        await first.close()
        assert set((await reopened(again)).records) == {"a"}

    async def test_closing_is_harmless(self, again: Again) -> None:
        await again().close()
        store = again()
        await store.open()
        await store.close()
        await store.close()
        assert await reopened(again) == SavedState({}, None)

    async def test_a_commit_that_is_cancelled_leaves_each_record_whole(self, again: Again) -> None:
        store = again()
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
        saved = await reopened(again)
        assert saved.records.pop("last") == record("last")
        assert saved.resource_version == "9"
        assert set(saved.records) == {f"t-{i}" for i in range(50)}
        assert all(saved.records[id] == record(id, attempt=saved.records[id].attempt) for id in saved.records)

    async def test_many_records_are_kept(self, again: Again) -> None:
        store, records = again(), {f"t-{i}": full_record(f"t-{i}") for i in range(2_000)}
        await store.open()
        await store.commit(list(records.values()), resource_version="1")
        await store.close()
        assert await reopened(again) == SavedState(records, "1")
