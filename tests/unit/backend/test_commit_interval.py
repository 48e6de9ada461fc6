"""Commits of a busy backend: one for all changes of an interval, at once for an owner that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from pyscheduler.backend import TaskRecord
from pyscheduler.backend.lifecycle import COMMIT_INTERVAL_SECONDS
from pyscheduler.backend.state.memory import MemoryState
from tests.unit.backend.test_backend import BackendFixture, on_virtual_time, task


class TimedState(MemoryState):
    """State that records the times of its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.committed_at: list[float] = []

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        self.committed_at.append(asyncio.get_running_loop().time())
        await super().commit(changed, resource_version, forgotten)


@on_virtual_time
async def test_changes_of_many_tasks_share_commits() -> None:
    fixture = BackendFixture()
    fixture.state = state = TimedState()
    async with fixture.backend() as backend:
        await backend.submit_all([task(f"t{number}") for number in range(100)])
        state.committed_at.clear()
        await backend.wait_until_settled()
        gaps = [later - earlier for earlier, later in pairwise(state.committed_at)]
        assert len(gaps) > 20
        assert min(gaps) >= COMMIT_INTERVAL_SECONDS - 1e-6


@on_virtual_time
async def test_owner_that_submits_one_task_after_another_waits_for_no_interval() -> None:
    fixture = BackendFixture()
    async with fixture.backend() as backend:
        began = asyncio.get_running_loop().time()
        for number in range(40):
            await backend.submit(task(f"t{number}"))
        assert asyncio.get_running_loop().time() - began < COMMIT_INTERVAL_SECONDS
