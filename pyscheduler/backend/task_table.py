"""Table of task records with compare-and-set changes, and the accounting of allocated resources.

Owner and cluster change a task concurrently: it is updated or killed while its pod starts or ends. So each change
names the record that it is based on; a stale change is rejected and decided again on the newest record. Each change
also adjusts the allocated resources by its difference. A final record never changes again except for `acknowledged`,
`cleaned` and `unreleased`, so the resources of a task are released exactly once.

Decisions use the newest form of a record; API calls and updates to the owner use the durable one. `commit` makes the
newest records durable, many at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyscheduler.backend.errors import TaskFinal
from pyscheduler.backend.resources import NOTHING, Resources
from pyscheduler.backend.state import StateProblem, StateStore
from pyscheduler.backend.task import TaskRecord, allocated_resources

FAILING_SECONDS: Final = 5.0
"""Seconds of failing commits, as on a full disk, after which waiting owners get the error."""


class TaskTable:
    """Records by id: the newest (`records`) and the durable ones (`durable`); resources of the newest (`allocated`)."""

    def __init__(self, state: StateStore, records: Mapping[str, TaskRecord], resource_version: str | None) -> None:
        self.records: dict[str, TaskRecord] = dict(records)
        self.durable: dict[str, TaskRecord] = dict(records)
        self.resource_version = resource_version
        self.allocated = NOTHING
        self.unsettled = {task for task, record in records.items() if not record.settled}
        """Ids of tasks that are not durable yet or not settled in their durable record."""
        self._state = state
        self._gangs: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._forgotten: dict[str, None] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._committing = asyncio.Lock()
        self._failed: Exception | None = None
        self.problem: StateProblem | None = None
        """Error of the last commit, None if it succeeded."""
        self._failing_since = 0.0
        for record in records.values():
            self._count(None, record)

    def change(self, old: TaskRecord | None, new: TaskRecord) -> bool:
        """Replace `old` (None: no record) by `new`; return False and change nothing if `old` is not the newest record.

        TaskFinal, a bug, if `old` is final and `new` differs in more than `_keeps_end` allows.
        """
        if self.records.get(new.id) is not old:
            return False
        if old is not None and old.final and not _keeps_end(old, new):
            raise TaskFinal(f"task {new.id!r} is {old.phase} and cannot become {new.phase}")
        self.records[new.id] = new
        self._changed[new.id] = None
        self._forgotten.pop(new.id, None)
        self._count(old, new)
        if not new.settled:
            self.unsettled.add(new.id)
        return True

    def forget(self, task: str) -> None:
        """Delete a record with the next commit."""
        self._count(self.records.pop(task), None)
        self._changed.pop(task, None)
        self._forgotten[task] = None

    def is_durable(self, task: str) -> bool:
        """Return True if the newest record is durable."""
        return self.records.get(task) is self.durable.get(task)

    def gang_size(self, gang: str) -> int:
        """Return the number of tasks of the gang that are not final."""
        return self._gangs.get(gang, 0)

    def gangs(self) -> set[str]:
        """Return the gangs with tasks that are not final."""
        return set(self._gangs)

    async def wait(self) -> None:
        """Wait until all changes so far are durable; another coroutine must call `commit`.

        StateProblem if commits have failed for `FAILING_SECONDS`: the changes are kept and may become durable later.
        """
        if self.problem is not None and self._fails_for_long():
            raise StateProblem(str(self.problem))
        if self._changed or self._forgotten or self._committing.locked():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def commit(self, resource_version: str | None = None) -> Sequence[TaskRecord]:
        """Make all changes and a new resourceVersion durable; return the records that the owner should see.

        StateProblem: nothing counts as durable, and the next commit retries everything.
        """
        async with self._committing:
            resource_version = resource_version if resource_version != self.resource_version else None
            changed, forgotten, waiting = self._changed, self._forgotten, self._waiting
            if not changed and not forgotten and resource_version is None:
                self._wake(waiting)
                return []
            records = [self.records[task] for task in changed]
            self._changed, self._forgotten, self._waiting = {}, {}, []
            try:
                await self._state.commit(records, resource_version, tuple(forgotten))
            except BaseException as problem:
                self._changed = {t: None for t in (*changed, *self._changed) if t in self.records}
                self._forgotten = {t: None for t in (*forgotten, *self._forgotten) if t not in self.records}
                self._waiting = [*waiting, *self._waiting]
                if self._failed is not None:
                    self.fail(self._failed)
                elif isinstance(problem, StateProblem):
                    self._handle_failed_commit(problem)
                raise
            self.problem = None
            self.resource_version = resource_version or self.resource_version
            self._wake(waiting)
            return self._mark_durable(records, forgotten)

    def fail(self, problem: Exception) -> None:
        """Raise `problem` in all current and later `wait` calls of uncommitted changes."""
        self._failed = problem
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_exception(problem)

    def _handle_failed_commit(self, problem: StateProblem) -> None:
        if self.problem is None:
            self._failing_since = asyncio.get_running_loop().time()
        self.problem = problem
        if self._fails_for_long():
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_exception(StateProblem(str(problem)))

    def _fails_for_long(self) -> bool:
        return asyncio.get_running_loop().time() >= self._failing_since + FAILING_SECONDS

    def recompute_allocated(self) -> Resources:
        """Return the resources of all records, computed anew: must equal `allocated`."""
        return sum((allocated_resources(record) for record in self.records.values()), NOTHING)

    def _mark_durable(self, records: Sequence[TaskRecord], forgotten: Mapping[str, None]) -> Sequence[TaskRecord]:
        changed = []
        for record in records:
            before = self.durable.get(record.id)
            if before is None or before.version != record.version:
                changed.append(record)
            self.durable[record.id] = record
            if record.settled and self.records.get(record.id) is record:
                self.unsettled.discard(record.id)
        for task in forgotten:
            self.durable.pop(task, None)
            if task not in self.records:
                self.unsettled.discard(task)
        return changed

    @staticmethod
    def _wake(waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
        waiting.clear()

    def _count(self, old: TaskRecord | None, new: TaskRecord | None) -> None:
        """Adjust resources and gang sizes by the difference between two forms of one record."""
        if old is not None and new is not None and _has_equal_counts(old, new):
            return
        before, after = (
            allocated_resources(old) if old is not None else NOTHING,
            allocated_resources(new) if new is not None else NOTHING,
        )
        if before != after:
            self.allocated = self.allocated - before + after
        for record, step in ((old, -1), (new, 1)):
            if record is not None and not record.final and record.spec.gang is not None:
                gang = record.spec.gang.name
                count = self._gangs.pop(gang, 0) + step
                if count:
                    self._gangs[gang] = count


def _has_equal_counts(old: TaskRecord, new: TaskRecord) -> bool:
    return old.spec is new.spec and old.next_spec is new.next_spec and old.final == new.final


def _keeps_end(old: TaskRecord, new: TaskRecord) -> bool:
    """Return True if only `acknowledged`, `cleaned` and `unreleased` differ, the first two only from False to True."""
    reverted = msgspec.structs.replace(
        new, acknowledged=old.acknowledged, cleaned=old.cleaned, unreleased=old.unreleased
    )
    return reverted == old and new.acknowledged >= old.acknowledged and new.cleaned >= old.cleaned
