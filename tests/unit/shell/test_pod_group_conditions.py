"""Conditions of pod groups are merged into those of the object as it is, and written again after a conflict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from pyscheduler.api import ApiError, ApiWriter, ResourceKind
from pyscheduler.clock import Clock
from pyscheduler.core.commands import PatchPodGroup
from pyscheduler.shell.pod_group_conditions import PodGroupConditionWriter, with_condition
from pyscheduler.truncation import MAX_MESSAGE, truncated

KIND = ResourceKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COMMAND = PatchPodGroup(KIND, "default", "a", "uid-a", "Scheduled", "True", "Scheduled", "all pods have a node")
WRITTEN = {"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": "all pods have a node"}
OTHER = {"type": "Running", "status": "True"}
PATH = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/a"


class WallClock:
    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0


class FakeApi:
    """Serves one PodGroup; each merge fails with the next of `errors`, 0 for none."""

    def __init__(self, *errors: int, uid: str = "uid-a", conditions: tuple[dict[str, str], ...] = ()) -> None:
        self.errors = list(errors)
        self.reads = 0
        self.merged: list[tuple[str, Mapping[str, Any]]] = []
        self.object = {
            "metadata": {"uid": uid, "resourceVersion": "1"},
            "status": {"conditions": list(conditions)},
        }

    async def get(self, path: str) -> dict[str, Any]:
        assert path == PATH
        self.reads += 1
        return self.object

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        self.merged.append((path, patch))
        if self.errors and (status := self.errors.pop(0)):
            raise ApiError(status, "Failed", "failed")
        return self.object


async def write(api: FakeApi, *commands: PatchPodGroup) -> None:
    """Run the writer until it has nothing to do."""
    writer = PodGroupConditionWriter(cast(ApiWriter, api), cast(Clock, WallClock()))
    for command in commands:
        writer.add(command)
    task = asyncio.create_task(writer.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def conditions(patch: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{k: v for k, v in each.items() if k != "lastTransitionTime"} for each in patch["status"]["conditions"]]


async def test_conditions_of_other_types_are_kept() -> None:
    api = FakeApi(conditions=(OTHER, {**WRITTEN, "status": "False"}))
    await write(api, COMMAND)
    [(path, patch)] = api.merged
    assert path == f"{PATH}/status"
    assert conditions(patch) == [OTHER, WRITTEN]
    assert patch["metadata"] == {"resourceVersion": "1"}


async def test_condition_is_written_again_after_a_conflict() -> None:
    api = FakeApi(409)
    await write(api, COMMAND)
    assert (api.reads, len(api.merged)) == (2, 2)


async def test_condition_is_given_up_after_three_conflicts(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(409, 409, 409, 409)
    await write(api, COMMAND)
    assert (api.reads, len(api.merged)) == (3, 3)
    assert "Failed to write the condition of a pod group" in caplog.text


async def test_condition_is_merged_into_an_object_without_status_subresource() -> None:
    api = FakeApi(404)
    await write(api, COMMAND)
    assert [path for path, _ in api.merged] == [f"{PATH}/status", PATH]


async def test_missing_object_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(404, 404)
    await write(api, COMMAND)
    assert (len(api.merged), caplog.text) == (2, "")


async def test_equal_condition_is_not_written() -> None:
    api = FakeApi(conditions=({**WRITTEN, "lastTransitionTime": "2026-01-01T00:00:00Z"},))
    await write(api, COMMAND)
    assert (api.reads, api.merged) == (1, [])


async def test_message_is_truncated_to_what_the_crd_allows() -> None:
    api = FakeApi()
    await write(api, msgspec.structs.replace(COMMAND, message="x" * 3_000_000))
    [(_, patch)] = api.merged
    assert [each["message"] for each in conditions(patch)] == [truncated("x" * 3_000_000, MAX_MESSAGE)]


async def test_condition_is_not_written_to_another_object_of_the_name() -> None:
    api = FakeApi(uid="uid-b")
    await write(api, COMMAND)
    assert (api.reads, api.merged) == (1, [])


async def test_only_the_newest_condition_of_a_type_is_written() -> None:
    api = FakeApi()
    older = PatchPodGroup(KIND, "default", "a", "uid-a", "Scheduled", "False", "Unschedulable", "no room")
    await write(api, older, COMMAND)
    assert [conditions(patch) for _, patch in api.merged] == [[WRITTEN]]


@pytest.mark.parametrize(("status", "expected"), [("True", "before"), ("False", "now")])
def test_transition_time_changes_with_the_status(status: str, expected: str) -> None:
    before = {**WRITTEN, "status": status, "message": "another", "lastTransitionTime": "before"}
    obj = {"metadata": {"resourceVersion": "1", "generation": 7}, "status": {"conditions": [before]}}
    patch = with_condition(obj, COMMAND, "now")
    assert patch is not None
    [condition] = patch["status"]["conditions"]
    assert (condition["lastTransitionTime"], condition["observedGeneration"]) == (expected, 7)
