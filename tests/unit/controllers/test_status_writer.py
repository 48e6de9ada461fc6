"""Statuses are written once per burst, only if something is new, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes_asyncio.client.exceptions import ApiException

from pyscheduler.controllers import Member, podgroup_status, status_writer
from pyscheduler.controllers.status_writer import StatusWriter

KEY = ("default", "g")
GROUP: dict[str, Any] = {"metadata": {"name": "g", "namespace": "default", "generation": 1}, "spec": {"minMember": 1}}
RUNS = Member("Running", True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "RETRY_SECONDS", 0.0)


class StatusApi:
    """Records the statuses written; fails first in the ways given."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.phases: list[str] = []

    async def write(self, _: tuple[str, str], status: dict[str, Any]) -> None:
        self.phases.append(status.get("phase", ""))
        if self.problems:
            raise self.problems.pop(0)


@asynccontextmanager
async def keeping(server: StatusApi) -> AsyncIterator[StatusWriter]:
    """Runs the keeper until it has nothing more to do after the block."""
    kept = StatusWriter(server.write, lambda: 0.0)
    task = asyncio.create_task(kept.run())
    yield kept
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()


async def test_a_burst_of_changes_is_one_write_of_the_last() -> None:
    server = StatusApi()
    async with keeping(server) as kept:
        kept.enqueue(KEY, GROUP, [])
        kept.enqueue(KEY, GROUP, [RUNS])
    assert server.phases == ["Running"]


async def test_what_is_known_is_not_written() -> None:
    server = StatusApi()
    async with keeping(server) as kept:
        kept.enqueue(KEY, GROUP | {"status": podgroup_status(GROUP, [RUNS], 0.0)}, [RUNS])
    assert server.phases == []


async def test_pods_of_a_group_that_is_not_there_are_ignored() -> None:
    server = StatusApi()
    async with keeping(server) as kept:
        kept.enqueue(KEY, GROUP, [])
        kept.enqueue(KEY, None, [RUNS])
    assert server.phases == []


@pytest.mark.parametrize("problem", [ApiException(status=500, reason="down"), OSError("cut"), TimeoutError()])
async def test_a_failed_write_is_repeated(problem: Exception) -> None:
    server = StatusApi(problem)
    async with keeping(server) as kept:
        kept.enqueue(KEY, GROUP, [RUNS])
    assert server.phases == ["Running", "Running"]


async def test_a_group_that_has_gone_meanwhile_is_let_go() -> None:
    server = StatusApi(ApiException(status=404, reason="Not Found"))
    async with keeping(server) as kept:
        kept.enqueue(KEY, GROUP, [RUNS])
    assert server.phases == ["Running"]
