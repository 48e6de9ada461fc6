"""The table of tasks, and the guard of its books: nothing changes but on the record that the change was decided on.

Owner and cluster change the same task at the same time: it is updated or killed while its pod starts to run or ends.
So every change names the record it was made from (compare-and-set); one that comes too late is refused, and decided
again on the record as it is. What tasks hold is counted with each change, by the difference that it makes: since a
final record never changes again but for `told` and `cleaned`, what a task held is given back exactly once.

There are two forms of each record: the newest, on which is decided, and the durable one, which is what anybody is told
and what is acted on. `commit` turns the first into the second, many at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from pyscheduler.backend.errors import TaskFinal
from pyscheduler.backend.resources import NOTHING, Resources
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.task import TaskRecord, allocated_resources


class TaskTable:
    """Records by id: the newest (`records`) and the durable (`durable`); the sum of what the newest hold (`held`)."""

    def __init__(self, state: StateStore, records: Mapping[str, TaskRecord], resource_version: str | None) -> None:
        self.records: dict[str, TaskRecord] = dict(records)
        self.durable: dict[str, TaskRecord] = dict(records)
        self.resource_version = resource_version
        self.allocated = NOTHING
        self.unsettled = {task for task, record in records.items() if not record.settled}
        """Tasks whose durable record is not settled, or that are not durable yet."""
        self._state = state
        self._gangs: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._forgotten: dict[str, None] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._committing = asyncio.Lock()
        self._failed: Exception | None = None
        for record in records.values():
            self._count(None, record)

    def change(self, old: TaskRecord | None, new: TaskRecord) -> bool:
        """Put `new` in the place of `old` (None: there is none). False, and nothing happens, if that is not there.

        TaskFinal if `old` is final and `new` says something else than that its end is told or cleaned: that is a bug.
        """
        if self.records.get(new.id) is not old:
            return False
        if old is not None and old.final and not _same_end(old, new):
            raise TaskFinal(f"task {new.id!r} is {old.phase} and cannot become {new.phase}")
        self.records[new.id] = new
        self._changed[new.id] = None
        self._forgotten.pop(new.id, None)
        self._count(old, new)
        if not new.settled:
            self.unsettled.add(new.id)
        return True

    def forget(self, task: str) -> None:
        """Drop a record with the next commit."""
        self._count(self.records.pop(task), None)
        self._changed.pop(task, None)
        self._forgotten[task] = None

    def is_durable(self, task: str) -> bool:
        """Whether the newest record is the durable one."""
        return self.records.get(task) is self.durable.get(task)

    def gang_size(self, gang: str) -> int:
        """How many tasks of the gang are not final."""
        return self._gangs.get(gang, 0)

    def gangs(self) -> set[str]:
        """The gangs that have tasks that are not final."""
        return set(self._gangs)

    async def wait(self) -> None:
        """Wait until all that has been changed so far is durable. Somebody has to commit meanwhile."""
        if self._changed or self._forgotten or self._committing.locked():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def commit(self, resource_version: str | None = None) -> Sequence[TaskRecord]:
        """Make everything durable that is not, and the resource_version if it is new; returns the records that the owner should
        see. StateProblem: nothing counts as durable, and the next commit tries all of it again."""
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
            except BaseException:
                self._changed = {t: None for t in (*changed, *self._changed) if t in self.records}
                self._forgotten = {t: None for t in (*forgotten, *self._forgotten) if t not in self.records}
                self._waiting = [*waiting, *self._waiting]
                if self._failed is not None:
                    self.fail(self._failed)
                raise
            self.resource_version = resource_version or self.resource_version
            self._wake(waiting)
            return self._settle(records, forgotten)

    def fail(self, problem: Exception) -> None:
        """Whoever waits for a commit waits in vain."""
        self._failed = problem
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_exception(problem)

    def recompute_allocated(self) -> Resources:
        """What all records hold, summed up from nothing: what `held` must be."""
        return sum((allocated_resources(record) for record in self.records.values()), NOTHING)

    def _settle(self, records: Sequence[TaskRecord], forgotten: Mapping[str, None]) -> Sequence[TaskRecord]:
        seen = []
        for record in records:
            before = self.durable.get(record.id)
            if before is None or before.version != record.version:
                seen.append(record)
            self.durable[record.id] = record
            if record.settled and self.records.get(record.id) is record:
                self.unsettled.discard(record.id)
        for task in forgotten:
            self.durable.pop(task, None)
            if task not in self.records:
                self.unsettled.discard(task)
        return seen

    @staticmethod
    def _wake(waiting: list[asyncio.Future[None]]) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
        waiting.clear()

    def _count(self, old: TaskRecord | None, new: TaskRecord | None) -> None:
        """Move the books by the difference between two forms of one record."""
        if old is not None and new is not None and _counts_alike(old, new):
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


def _counts_alike(old: TaskRecord, new: TaskRecord) -> bool:
    return old.spec is new.spec and old.next_spec is new.next_spec and old.final == new.final


def _same_end(old: TaskRecord, new: TaskRecord) -> bool:
    kept = msgspec.structs.replace(new, told=old.told, cleaned=old.cleaned)
    return kept == old and new.told >= old.told and new.cleaned >= old.cleaned
