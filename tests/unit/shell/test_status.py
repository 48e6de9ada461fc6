"""Writes of pod statuses, and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ApiError, Pod
from pyscheduler.clock import rfc3339
from pyscheduler.core.commands import Condition, Evict, PatchStatus
from pyscheduler.kube.connection import STRATEGIC_PATCH, Connection
from pyscheduler.shell.writers.status import StatusWriter
from pyscheduler.testing import pod
from pyscheduler.truncation import MAX_MESSAGE, truncated
from tests.unit.kube.fake_api import FakeApi, Hangup, ok, refused
from tests.unit.kube.virtual import VirtualClock

POD = "/api/v1/namespaces/default/pods/a"
STATUS = f"{POD}/status"
UNFIT = Condition("Unschedulable", "0/1 nodes are available")
OTHER_UID = refused(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b")

IMMUTABLE = refused(422, "Invalid", 'Pod "a" is invalid: metadata.uid: Invalid value: "a": field is immutable')


def unschedulable_pod(**changes: Any) -> Pod:
    """Return pod a with an old PodScheduled condition equal to UNFIT."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": UNFIT.reason,
        "message": UNFIT.message,
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    built = pod("a")
    built.manifest["status"] = {"conditions": [condition | changes]}
    built.manifest["metadata"]["generation"] = 4
    return built.build()


@pytest.fixture
def writer(connection: Connection, clock: VirtualClock) -> StatusWriter:
    return StatusWriter(connection, clock)


async def test_a_new_condition(api: FakeApi, writer: StatusWriter, clock: VirtualClock) -> None:
    api.script(STATUS, ok({}))
    await writer.patch(PatchStatus(pod("a").build(), UNFIT, "n1"))
    [call] = api.calls
    assert (call.method, call.content_type) == ("PATCH", STRATEGIC_PATCH)
    assert call.json == {
        "metadata": {"uid": "a"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available",
                    "lastProbeTime": None,
                    "lastTransitionTime": rfc3339(clock.wall()),
                }
            ],
            "nominatedNodeName": "n1",
        },
    }


@pytest.mark.parametrize(
    ("has", "since"),
    [({"message": "older message"}, "2020-01-01T00:00:00Z"), ({"status": "True"}, "2027-01-15T08:00:00Z")],
    ids=["new message keeps the transition time", "new status sets it"],
)
async def test_a_changed_condition(api: FakeApi, writer: StatusWriter, has: dict[str, str], since: str) -> None:
    api.script(STATUS, ok({}))
    await writer.patch(PatchStatus(unschedulable_pod(**has), UNFIT))
    [condition] = api.calls[0].json["status"]["conditions"]
    assert condition["lastTransitionTime"] == since
    assert condition["observedGeneration"] == 4
    assert "nominatedNodeName" not in api.calls[0].json["status"]


async def test_lone_surrogates_of_plugins_are_replaced(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, ok({}))
    await writer.patch(PatchStatus(pod("a").build(), Condition("Unschedulable", "no file caf\udce9"), "n\udce9"))
    status = api.calls[0].json["status"]
    assert (status["conditions"][0]["message"], status["nominatedNodeName"]) == ("no file caf?", "n?")
    await writer.patch(PatchStatus(unschedulable_pod(message="caf?"), Condition("Unschedulable", "caf\udce9")))
    assert len(api.calls) == 1, "the pod has the condition already"


async def test_equal_condition_is_not_written(api: FakeApi, writer: StatusWriter) -> None:
    await writer.patch(PatchStatus(unschedulable_pod(), UNFIT))
    assert api.calls == []


async def test_a_nomination_is_cleared_with_null(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, ok({}))
    await writer.patch(PatchStatus(pod("a").nominated("n1").build(), None, ""))
    assert api.calls[0].json["status"] == {"nominatedNodeName": None}


@pytest.mark.parametrize("answer", [refused(404, "NotFound"), OTHER_UID, IMMUTABLE])
async def test_deleted_pod_needs_no_status(api: FakeApi, writer: StatusWriter, answer: Any) -> None:
    api.script(STATUS, answer)
    await writer.patch(PatchStatus(pod("a").build(), UNFIT))
    assert len(api.calls) == 1


@pytest.mark.parametrize("answer", [refused(500), refused(503), refused(409, "Conflict", "modified"), Hangup()])
async def test_transient_errors_are_retried(
    api: FakeApi, writer: StatusWriter, clock: VirtualClock, answer: Any
) -> None:
    api.script(STATUS, answer, answer, answer, ok({}))
    await writer.patch(PatchStatus(pod("a").build(), UNFIT))
    assert clock.slept == [0.01, 0.05, 0.25]


@pytest.mark.parametrize(("answer", "calls"), [(refused(500), 4), (refused(403, "Forbidden"), 1)])
async def test_other_errors_are_raised(api: FakeApi, writer: StatusWriter, answer: Any, calls: int) -> None:
    api.script(STATUS, *[answer] * 9)
    with pytest.raises(ApiError):
        await writer.patch(PatchStatus(pod("a").build(), UNFIT))
    assert len(api.calls) == calls


EVICT = Evict(
    pod("a").build(), pod("vip").build(), "default-scheduler: preempting to accommodate a higher priority pod"
)


async def test_victim_gets_disruption_target_and_is_deleted(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, ok({}))
    api.script(POD, ok({}))
    assert await writer.evict(EVICT)
    marked, deleted = api.calls
    [condition] = marked.json["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        EVICT.message,
    )
    assert deleted.method == "DELETE"
    assert deleted.json["preconditions"] == {"uid": "a"}


async def test_evict_returns_false_for_a_deleted_victim(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, refused(404), ok({}))
    api.script(POD, OTHER_UID)
    assert not await writer.evict(EVICT)
    assert len(api.calls) == 1, "no DELETE after a 404"
    assert not await writer.evict(EVICT)


async def test_failed_deletion_of_a_victim_is_raised(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, ok({}))
    api.script(POD, refused(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="no"):
        await writer.evict(EVICT)


async def test_message_of_a_condition_is_truncated(api: FakeApi, writer: StatusWriter) -> None:
    api.script(STATUS, ok({}))
    await writer.patch(PatchStatus(pod("a").build(), Condition("SchedulerError", "x" * 3_000_000)))
    [call] = api.calls
    message = call.json["status"]["conditions"][0]["message"]
    assert message == truncated("x" * 3_000_000, MAX_MESSAGE)
    api.script(STATUS, ok({}))
    unchanged = unschedulable_pod(reason="SchedulerError", message=message)
    await writer.patch(PatchStatus(unchanged, Condition("SchedulerError", "x" * 3_000_000)))
    assert len(api.calls) == 1
