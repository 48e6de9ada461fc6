"""Writer of statuses: once per burst, only if changed, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyscheduler.api import ApiError
from pyscheduler.controllers import Member, podgroup_status, status_writer
from pyscheduler.controllers.status_writer import PodGroupStatusWriter

KEY = ("default", "g")
GROUP: dict[str, Any] = {"metadata": {"name": "g", "namespace": "default", "generation": 1}, "spec": {"minMember": 1}}
RUNNING_MEMBER = Member("Running", True)


@pytest.fixture(autouse=True)
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "RETRY_SECONDS", 0.0)


class StatusApi:
    """API double that records written statuses; the first writes fail with the given errors."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.phases: list[str] = []
        self.versions: list[str] = []

    async def write(self, _: tuple[str, str], version: str, status: dict[str, Any]) -> None:
        self.versions.append(version)
        self.phases.append(status.get("phase", ""))
        if self.problems:
            raise self.problems.pop(0)


@asynccontextmanager
async def running_writer(server: StatusApi) -> AsyncIterator[PodGroupStatusWriter]:
    """Run a status writer until it is idle after the block."""
    writer = PodGroupStatusWriter(server.write, lambda: 0.0)
    task = asyncio.create_task(writer.run())
    yield writer
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()


async def test_burst_of_changes_is_written_once() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(KEY, GROUP, [])
        writer.enqueue(KEY, GROUP, [RUNNING_MEMBER])
    assert server.phases == ["Running"]


async def test_status_of_a_group_that_has_changed_meanwhile_is_computed_anew() -> None:
    """A retry of the old one would replace what the other writer has written."""
    server = StatusApi(ApiError(409, "Conflict", "the object has been modified"))
    changed = {**GROUP, "metadata": {**GROUP["metadata"], "resourceVersion": "2"}}
    async with running_writer(server) as writer:
        writer.enqueue(KEY, {**GROUP, "metadata": {**GROUP["metadata"], "resourceVersion": "1"}}, [])
        for _ in range(50):
            await asyncio.sleep(0)
        writer.enqueue(KEY, changed, [RUNNING_MEMBER])
    assert (server.versions, server.phases) == (["1", "2"], ["Pending", "Running"])


async def test_unchanged_status_is_not_written() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(KEY, GROUP | {"status": podgroup_status(GROUP, [RUNNING_MEMBER], 0.0)}, [RUNNING_MEMBER])
    assert server.phases == []


async def test_pods_of_a_missing_group_are_ignored() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(KEY, GROUP, [])
        writer.enqueue(KEY, None, [RUNNING_MEMBER])
    assert server.phases == []


@pytest.mark.parametrize("problem", [ApiError(500, "InternalError", "down"), ApiError(0, "ConnectionLost", "cut")])
async def test_failed_write_is_retried(problem: Exception) -> None:
    server = StatusApi(problem)
    async with running_writer(server) as writer:
        writer.enqueue(KEY, GROUP, [RUNNING_MEMBER])
    assert server.phases == ["Running", "Running"]


async def test_write_is_not_retried_when_the_group_is_deleted() -> None:
    server = StatusApi(ApiError(404, "NotFound", "no group"))
    async with running_writer(server) as writer:
        writer.enqueue(KEY, GROUP, [RUNNING_MEMBER])
    assert server.phases == ["Running"]
