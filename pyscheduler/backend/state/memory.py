"""State in memory: for tests, and for owners with their own storage."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.backend.state import SavedState, StateIdentity, StateInUse
from pyscheduler.backend.task import TaskRecord


class MemoryState:
    """`StateStore` in memory. After `close` or `crash` it can be opened again with all committed records."""

    def __init__(self) -> None:
        self.records: dict[str, TaskRecord] = {}
        self.resource_version: str | None = None
        self.identity: StateIdentity | None = None
        self.place = ""
        self.commits = 0
        self._is_open = False

    async def open(self) -> SavedState:
        if self._is_open:
            raise StateInUse("this MemoryState is already open; close it first")
        self._is_open = True
        return SavedState(dict(self.records), self.resource_version, self.identity, self.place)

    async def bind(self, identity: StateIdentity) -> None:
        self.identity = identity

    async def check(self) -> None:
        return None

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        self.commits += 1
        self.records.update({record.id: record for record in changed})
        for task in forgotten:
            self.records.pop(task, None)
        self.resource_version = self.resource_version if resource_version is None else resource_version

    async def close(self) -> None:
        self._is_open = False

    crash = close
