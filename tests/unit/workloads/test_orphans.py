"""Release of orphaned pods, aggregation of Events, and the order of writes."""

from __future__ import annotations

import pytest

from pyscheduler.api import ApiError
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER
from pyscheduler.embedded.workloads.orphans import release_orphan
from pyscheduler.embedded.workloads.recorder import MAX_SIMILAR_EVENTS, EventRecorder
from pyscheduler.kube.paths import PODS
from tests.unit.kube.virtual import VirtualClock
from tests.unit.workloads.builders import Json, a_pod, terminating, workload
from tests.unit.workloads.recording import RecordingClient

JOB = workload("Job", "j")
DONE = workload("Job", "j", status={"conditions": [{"type": "Complete", "status": "True"}]})
UNTRACKED = [{"metadata": {"uid": "p", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}]


def tracked(phase: str = "Running") -> Json:
    return a_pod("p", phase, finalizers=[FINALIZER])


@pytest.mark.parametrize(
    ("pod", "job", "patches"),
    [
        pytest.param(tracked(), None, UNTRACKED, id="its Job is deleted"),
        pytest.param(tracked(), DONE, UNTRACKED, id="its Job is finished"),
        pytest.param(tracked(), JOB, [], id="its Job is active"),
        pytest.param(a_pod("p"), None, [], id="no finalizer"),
        pytest.param(terminating(tracked()), JOB, [], id="its kubelet terminates it"),
        pytest.param(
            terminating(tracked("Pending")),
            JOB,
            [{"metadata": {"uid": "p"}, "status": {"phase": "Failed"}}],
            id="no kubelet",
        ),
    ],
)
def test_release_of_an_orphaned_pod(pod: Json, job: Json | None, patches: list[Json]) -> None:
    assert [action.patch for action in release_orphan(pod, job) if isinstance(action, Patch)] == patches


async def writes_of(client: RecordingClient, *actions: Action) -> list[str]:
    await apply_actions(client, actions, recorder=EventRecorder(client, VirtualClock(wall=60.0)))
    return client.lines


async def test_pod_is_patched_before_it_is_deleted() -> None:
    last = Patch(PODS, ("default", "p"), {"status": {}}, "status")
    deletion = Delete(PODS, ("default", "p"), "p", pre_patch=last, event_object=JOB)
    client = RecordingClient()
    assert await writes_of(client, deletion) == ["patch pods", "delete pods", "create events"]
    assert client.bodies[-1]["message"] == "Deleted pod: p"


async def test_creation_is_recorded_as_an_event_of_the_owner() -> None:
    client = RecordingClient()
    assert await writes_of(client, Create(PODS, a_pod("x"), event_object=JOB)) == ["create pods", "create events"]
    event = client.bodies[-1]
    assert (event["reason"], event["message"], event["source"]) == (
        "SuccessfulCreate",
        "Created pod: created-0",
        {"component": "job-controller"},
    )
    assert (event["involvedObject"]["kind"], event["firstTimestamp"]) == ("Job", "1970-01-01T00:01:00Z")


async def test_existing_object_is_not_an_error_if_ignored() -> None:
    assert await writes_of(RecordingClient("create"), Create(PODS, a_pod("x"), ignore_already_exists=True)) == []
    with pytest.raises(ApiError):
        await writes_of(RecordingClient("create"), Create(PODS, a_pod("x")))


async def test_repeated_events_are_counted_in_one_object() -> None:
    client = RecordingClient()
    again = RecordAction(JOB, "Suspended", "Job suspended")
    assert await writes_of(client, again, again, RecordAction(JOB, "Resumed", "Job resumed")) == [
        "create events",
        "patch events",
        "create events",
    ]
    assert client.bodies[1]["count"] == 2


async def test_many_similar_events_are_one_object_with_the_newest_message() -> None:
    client = RecordingClient()
    lines = await writes_of(client, *(RecordAction(JOB, "FailedCreate", f"no pod {n}") for n in range(20)))
    assert (lines.count("create events"), lines.count("patch events")) == (MAX_SIMILAR_EVENTS, 10)
    assert client.bodies[-1]["message"] == "(combined from similar events): no pod 19"


async def test_event_about_an_object_with_a_long_name_has_a_valid_name() -> None:
    client = RecordingClient()
    await writes_of(client, RecordAction(workload("Job", "j" * 250), "Suspended", "Job suspended"))
    assert len(client.bodies[-1]["metadata"]["name"]) < 250


async def test_rejected_event_is_dropped() -> None:
    assert await writes_of(RecordingClient("create"), RecordAction(JOB, "Suspended", "Job suspended")) == []
