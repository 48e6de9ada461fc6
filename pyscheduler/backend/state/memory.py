"""State that lives as long as the object: for tests, and for owners who keep what they need themselves."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.backend.state import SavedState, StateInUse
from pyscheduler.backend.task import TaskRecord


class MemoryState:
    """A `StateStore` in memory. Open it again after `close`, or after `crash`, and what was committed is there."""

    def __init__(self) -> None:
        self.records: dict[str, TaskRecord] = {}
        self.resource_version: str | None = None
        self.commits = 0
        self._held = False

    async def open(self) -> SavedState:
        if self._held:
            raise StateInUse("this MemoryState is open already; close it first")
        self._held = True
        return SavedState(dict(self.records), self.resource_version)

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        self.commits += 1
        self.records.update({record.id: record for record in changed})
        for task in forgotten:
            self.records.pop(task, None)
        self.resource_version = self.resource_version if resource_version is None else resource_version

    async def close(self) -> None:
        self._held = False

    crash = close
