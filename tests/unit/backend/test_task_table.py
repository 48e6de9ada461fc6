"""Task table: compare-and-set changes, accounting of resources and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from pyscheduler.backend import Resources, TaskFinal, TaskGang, TaskPhase, TaskRecord, TaskSpec, TaskTable
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.memory import MemoryState

BIG, SMALL = (TaskSpec(id="a", image="x", cpu=cpu, owner=1) for cpu in ("2", "500m"))


def table_of(*records: TaskRecord) -> TaskTable:
    return TaskTable(MemoryState(), {record.id: record for record in records}, None)


def changed(record: TaskRecord, **changes: object) -> TaskRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **changes)


def test_change_based_on_an_older_record_is_rejected() -> None:
    """The owner kills a task while its pod starts to run."""
    table, submitted = table_of(), TaskRecord(spec=BIG)
    assert table.change(None, submitted)
    assert table.change(submitted, killed := changed(submitted, killing=True))
    assert not table.change(submitted, changed(submitted, phase=TaskPhase.RUNNING))
    assert table.records["a"] is killed


def test_resources_of_a_task_are_released_once() -> None:
    table, running = table_of(), TaskRecord(spec=BIG, phase=TaskPhase.RUNNING)
    table.change(None, running)
    assert table.allocated == Resources({"cpu": 2000, "pods": 1})
    done = changed(running, phase=TaskPhase.SUCCEEDED)
    table.change(running, done)
    assert not table.allocated
    assert not table.change(running, changed(running, phase=TaskPhase.FAILED))
    table.change(done, acknowledged := msgspec.structs.replace(done, acknowledged=True))
    table.change(acknowledged, msgspec.structs.replace(acknowledged, cleaned=True))
    table.forget("a")
    assert table.allocated == table.recompute_allocated() == Resources()


@pytest.mark.parametrize("change", [{"phase": TaskPhase.FAILED}, {"attempt": 2}, {"acknowledged": False}], ids=str)
def test_change_of_a_final_record_raises(change: dict[str, object]) -> None:
    done = TaskRecord(spec=BIG, phase=TaskPhase.SUCCEEDED, acknowledged=True)
    with pytest.raises(TaskFinal, match="'a' is Succeeded"):
        table_of(done).change(done, msgspec.structs.replace(done, **change))


def test_smaller_requests_of_a_running_task_are_released_with_the_next_attempt() -> None:
    running = TaskRecord(spec=BIG, phase=TaskPhase.RUNNING)
    table = table_of(running)
    table.change(running, smaller := changed(running, next_spec=SMALL))
    assert table.allocated.cpu == 2000
    table.change(smaller, changed(smaller, spec=SMALL, next_spec=None, attempt=2, phase=TaskPhase.SUBMITTED))
    assert table.allocated == table.recompute_allocated()
    assert table.allocated.cpu == 500


def test_larger_requests_of_a_running_task_are_allocated_at_once() -> None:
    running = TaskRecord(spec=SMALL, phase=TaskPhase.RUNNING)
    table = table_of(running)
    table.change(running, larger := changed(running, next_spec=BIG))
    assert table.allocated.cpu == 2000
    table.change(larger, changed(larger, phase=TaskPhase.FAILED))
    assert not table.allocated


def test_gang_size_counts_tasks_that_are_not_final() -> None:
    specs = [TaskSpec(id=name, image="x", gang=TaskGang(name="crew", size=2)) for name in "ab"]
    a, b = (TaskRecord(spec=spec) for spec in specs)
    table = table_of(a, b)
    assert table.gang_size("crew") == 2
    table.change(a, changed(a, phase=TaskPhase.KILLED))
    table.change(b, changed(b, phase=TaskPhase.SUCCEEDED))
    assert (table.gang_size("crew"), table.gangs()) == (0, set())


class FlakyState(MemoryState):
    """State that cannot be written while `full` is set."""

    full = False

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        await asyncio.sleep(0)
        if self.full:
            raise StateProblem("the disk is full")
        await super().commit(changed, resource_version, forgotten)


async def test_failed_commit_is_written_with_the_next_one() -> None:
    state = FlakyState()
    table = TaskTable(state, {}, None)
    table.change(None, TaskRecord(spec=BIG))
    waiting = asyncio.create_task(table.wait())
    await asyncio.sleep(0)
    state.full = True
    with pytest.raises(StateProblem):
        await table.commit("7")
    assert (table.durable, table.resource_version, waiting.done()) == ({}, None, False)
    state.full = False
    assert [record.id for record in await table.commit("8")] == ["a"]
    await waiting
    assert (set(state.records), state.resource_version) == ({"a"}, "8")


async def test_change_during_a_commit_is_durable_after_the_next_commit() -> None:
    state = FlakyState()
    table, first = TaskTable(state, {}, None), TaskRecord(spec=BIG)
    table.change(None, first)
    committing = asyncio.create_task(table.commit())
    await asyncio.sleep(0)
    table.change(first, changed(first, killing=True))
    await committing
    assert (table.durable["a"].killing, table.is_durable("a")) == (False, False)
    await table.commit()
    assert table.is_durable("a")
    assert state.records["a"].killing


async def test_acknowledged_and_cleaned_are_committed_without_an_update() -> None:
    done = TaskRecord(spec=BIG, phase=TaskPhase.SUCCEEDED)
    table = table_of(done)
    table.change(done, acknowledged := msgspec.structs.replace(done, acknowledged=True))
    assert await table.commit() == []
    assert (table.durable["a"], table.unsettled) == (acknowledged, {"a"})
    table.change(acknowledged, msgspec.structs.replace(acknowledged, cleaned=True))
    await table.commit()
    assert table.unsettled == set()
