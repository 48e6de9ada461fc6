"""The table of tasks keeps its books, whoever changes what meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from pyscheduler.backend import Gang, Resources, TaskFinal, TaskPhase, TaskRecord, TaskSpec, TaskTable
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.memory import MemoryState

BIG, SMALL = (TaskSpec(id="a", image="x", cpu=cpu, owner=1) for cpu in ("2", "500m"))


def guard(*records: TaskRecord) -> TaskTable:
    return TaskTable(MemoryState(), {record.id: record for record in records}, None)


def changed(record: TaskRecord, **changes: object) -> TaskRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **changes)


def test_a_change_decided_on_an_older_record_is_refused() -> None:
    """The owner kills a task at the moment in which its pod is seen to run."""
    table, submitted = guard(), TaskRecord(spec=BIG)
    assert table.change(None, submitted)
    assert table.change(submitted, killed := changed(submitted, killing=True))
    assert not table.change(submitted, changed(submitted, phase=TaskPhase.RUNNING))
    assert table.records["a"] is killed


def test_what_a_task_holds_is_given_back_once() -> None:
    table, running = guard(), TaskRecord(spec=BIG, phase=TaskPhase.RUNNING)
    table.change(None, running)
    assert table.allocated == Resources({"cpu": 2000, "pods": 1})
    done = changed(running, phase=TaskPhase.SUCCEEDED)
    table.change(running, done)
    assert not table.allocated
    assert not table.change(running, changed(running, phase=TaskPhase.FAILED))
    table.change(done, told := msgspec.structs.replace(done, told=True))
    table.change(told, msgspec.structs.replace(told, cleaned=True))
    table.forget("a")
    assert table.allocated == table.recompute_allocated() == Resources()


@pytest.mark.parametrize("change", [{"phase": TaskPhase.FAILED}, {"attempt": 2}, {"told": False}], ids=str)
def test_a_final_record_does_not_change(change: dict[str, object]) -> None:
    done = TaskRecord(spec=BIG, phase=TaskPhase.SUCCEEDED, told=True)
    with pytest.raises(TaskFinal, match="'a' is Succeeded"):
        guard(done).change(done, msgspec.structs.replace(done, **change))


def test_a_task_that_is_made_smaller_while_it_runs_holds_what_its_pod_has() -> None:
    running = TaskRecord(spec=BIG, phase=TaskPhase.RUNNING)
    table = guard(running)
    table.change(running, smaller := changed(running, next_spec=SMALL))
    assert table.allocated.cpu == 2000
    table.change(smaller, changed(smaller, spec=SMALL, next_spec=None, attempt=2, phase=TaskPhase.SUBMITTED))
    assert table.allocated == table.recompute_allocated()
    assert table.allocated.cpu == 500


def test_a_task_that_is_made_larger_while_it_runs_holds_that_at_once() -> None:
    running = TaskRecord(spec=SMALL, phase=TaskPhase.RUNNING)
    table = guard(running)
    table.change(running, larger := changed(running, next_spec=BIG))
    assert table.allocated.cpu == 2000
    table.change(larger, changed(larger, phase=TaskPhase.FAILED))
    assert not table.allocated


def test_a_gang_is_counted_by_its_tasks_that_are_not_final() -> None:
    specs = [TaskSpec(id=name, image="x", gang=Gang(name="crew", size=2)) for name in "ab"]
    a, b = (TaskRecord(spec=spec) for spec in specs)
    table = guard(a, b)
    assert table.gang_size("crew") == 2
    table.change(a, changed(a, phase=TaskPhase.KILLED))
    table.change(b, changed(b, phase=TaskPhase.SUCCEEDED))
    assert (table.gang_size("crew"), table.gangs()) == (0, set())


class Moody(MemoryState):
    """A disk that is full at times."""

    full = False

    async def commit(
        self, changed: Sequence[TaskRecord], place: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        await asyncio.sleep(0)
        if self.full:
            raise StateProblem("the disk is full")
        await super().commit(changed, place, forgotten)


async def test_what_could_not_be_written_is_written_the_next_time() -> None:
    state = Moody()
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


async def test_a_change_during_a_commit_is_durable_after_the_next() -> None:
    state = Moody()
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


async def test_told_and_cleaned_are_written_and_not_shown() -> None:
    done = TaskRecord(spec=BIG, phase=TaskPhase.SUCCEEDED)
    table = guard(done)
    table.change(done, told := msgspec.structs.replace(done, told=True))
    assert await table.commit() == []
    assert (table.durable["a"], table.unsettled) == (told, {"a"})
    table.change(told, msgspec.structs.replace(told, cleaned=True))
    await table.commit()
    assert table.unsettled == set()
