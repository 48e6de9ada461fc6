"""Writer of statuses: once per burst, only if changed, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.controllers import status_writer
from pyscheduler.controllers.handlers import POD_GROUPS
from pyscheduler.controllers.podgroup_status import Member, podgroup_status
from pyscheduler.controllers.status_writer import ObjectStatusWriter, status_patch

KEY = ("default", "g")
GROUP: dict[str, Any] = {"metadata": {"name": "g", "namespace": "default", "generation": 1}, "spec": {"minMember": 1}}
RUNNING_MEMBER = Member("Running", True)


@pytest.fixture(autouse=True)
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "RETRY_SECONDS", 0.0)


def status_of(members: list[Member]) -> Callable[[dict[str, Any], float], dict[str, Any]]:
    return lambda obj, now: podgroup_status(obj, members, now)


class StatusApi:
    """API double that records written statuses; the first writes fail with the given errors."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.phases: list[str] = []
        self.called = asyncio.Event()

    async def patch(self, _kind: ResourceKind, _key: tuple[str, str], change: dict[str, Any]) -> None:
        self.phases.append(change["status"].get("phase", ""))
        self.called.set()
        if self.problems:
            raise self.problems.pop(0)


@asynccontextmanager
async def running_writer(server: StatusApi) -> AsyncIterator[ObjectStatusWriter]:
    """Run a status writer until it is idle after the block."""
    writer = ObjectStatusWriter(server.patch, lambda: 0.0)
    task = asyncio.create_task(writer.run())
    yield writer
    await until_idle()
    task.cancel()


async def until_idle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_burst_of_changes_is_written_once() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([]))
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Running"]


async def test_failing_write_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "RETRY_SECONDS", 3600.0)
    server = StatusApi(ApiError(500, "InternalError", "no luck"))
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([]))
        await until_idle()
        writer.enqueue(POD_GROUPS, ("default", "other"), GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Pending", "Running"]


async def test_newer_state_replaces_a_write_that_is_to_be_retried() -> None:
    server = StatusApi(ApiError(500, "InternalError", "no luck"))
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([]))
        await server.called.wait()
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Pending", "Running"]


async def test_unchanged_status_is_not_written() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(
            POD_GROUPS,
            KEY,
            GROUP | {"status": podgroup_status(GROUP, [RUNNING_MEMBER], 0.0)},
            status_of([RUNNING_MEMBER]),
        )
    assert server.phases == []


async def test_pods_of_a_missing_group_are_ignored() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([]))
        writer.enqueue(POD_GROUPS, KEY, None, status_of([RUNNING_MEMBER]))
    assert server.phases == []


@pytest.mark.parametrize("problem", [ApiError(500, "InternalError", "down"), ApiError(0, "ConnectionLost", "cut")])
async def test_failed_write_is_retried(problem: Exception) -> None:
    server = StatusApi(problem)
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Running", "Running"]


async def test_write_is_not_retried_when_the_group_is_deleted() -> None:
    server = StatusApi(ApiError(404, "NotFound", "no group"))
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Running"]


async def test_write_is_not_retried_after_a_conflict() -> None:
    server = StatusApi(ApiError(409, "Conflict", "newer"))
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Running"]


async def test_one_invalid_object_does_not_stop_the_others() -> None:
    server = StatusApi()
    async with running_writer(server) as writer:
        writer.enqueue(POD_GROUPS, ("default", "bad"), {**GROUP, "spec": {"minMember": "x"}}, status_of([]))
        writer.enqueue(POD_GROUPS, KEY, GROUP, status_of([RUNNING_MEMBER]))
    assert server.phases == ["Running"]


def test_patch_has_only_changed_fields_and_a_version_with_those_that_others_write() -> None:
    obj = {"metadata": {"resourceVersion": "7"}, "status": {"phase": "Running", "running": 1}}
    assert status_patch(obj, {"phase": "Running", "running": 2}) == {"status": {"running": 2}}
    with_conditions = {"metadata": {"resourceVersion": "7"}, "status": {"conditions": [{}]}}
    assert status_patch(obj, {"phase": "Running", "conditions": [{}]}) == with_conditions
    assert status_patch(obj, {"phase": "Running"}) is None


def test_state_of_a_queue_that_a_user_has_closed_meanwhile_is_not_overwritten() -> None:
    created = {"metadata": {"resourceVersion": "7"}}
    patch = status_patch(created, {"state": "Open", "running": 0})
    assert patch == {"metadata": {"resourceVersion": "7"}, "status": {"state": "Open", "running": 0}}
    assert status_patch({**created, "status": {"state": "Closing"}}, {"state": "Closing", "running": 0}) == {
        "status": {"running": 0}
    }


def test_patch_removes_amounts_that_are_gone() -> None:
    obj = {"metadata": {}, "status": {"allocated": {"cpu": "1", "nvidia.com/gpu": "4"}, "state": "Open"}}
    assert status_patch(obj, {"allocated": {"cpu": "2"}}) == {
        "status": {"allocated": {"cpu": "2", "nvidia.com/gpu": None}}
    }
    assert status_patch(obj, {"allocated": {"cpu": "1", "nvidia.com/gpu": "4"}}) is None
