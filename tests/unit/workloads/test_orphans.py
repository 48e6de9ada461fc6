"""Pods that nobody else looks after, Events that are counted up, and what is written before something is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.client import PODS, Key, Resource, StatusError
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, Record
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER
from pyscheduler.embedded.workloads.orphans import release_orphan
from pyscheduler.embedded.workloads.recorder import EventRecorder
from tests.unit.hollow.scripted import ScriptedServer
from tests.unit.workloads.builders import Json, a_pod, going, workload

JOB = workload("Job", "j")
DONE = workload("Job", "j", status={"conditions": [{"type": "Complete", "status": "True"}]})
UNTRACKED = [{"metadata": {"uid": "p", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}]


def tracked(phase: str = "Running") -> Json:
    return a_pod("p", phase, finalizers=[FINALIZER])


@pytest.mark.parametrize(
    ("pod", "job", "patches"),
    [
        pytest.param(tracked(), None, UNTRACKED, id="its job is gone"),
        pytest.param(tracked(), DONE, UNTRACKED, id="its job is done"),
        pytest.param(tracked(), JOB, [], id="its job sees to it"),
        pytest.param(a_pod("p"), None, [], id="nobody holds it"),
        pytest.param(going(tracked()), JOB, [], id="its kubelet sees to it"),
        pytest.param(
            going(tracked("Pending")), JOB, [{"metadata": {"uid": "p"}, "status": {"phase": "Failed"}}], id="no kubelet"
        ),
    ],
)
def test_what_is_done_for_a_loose_pod(pod: Json, job: Json | None, patches: list[Json]) -> None:
    assert [action.patch for action in release_orphan(pod, job) if isinstance(action, Patch)] == patches


class Log(ScriptedServer):
    """Notes each write, and refuses those it is told to."""

    def __init__(self, *refused: str) -> None:
        super().__init__([], [])
        self.lines: list[str] = []
        self.bodies: list[Json] = []
        self._refused = refused

    def _note(self, verb: str, resource: Resource, body: Json) -> None:
        if verb in self._refused:
            raise StatusError(409, "Conflict", verb)
        self.lines.append(f"{verb} {resource.plural}")
        self.bodies.append(body)

    async def create(self, resource: Resource, obj: Json) -> Json:
        self._note("create", resource, obj)
        return {**obj, "metadata": {**obj["metadata"], "name": "made", "uid": "made"}}

    async def patch(self, resource: Resource, key: Key, patch: Json, **_: Any) -> None:
        self._note("patch", resource, patch)

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        self._note("delete", resource, {})


async def written(server: Log, *actions: Action) -> list[str]:
    await apply_actions(server, actions, recorder=EventRecorder(server, lambda: 60.0))
    return server.lines


async def test_an_object_says_its_last_words_before_it_goes() -> None:
    last = Patch(PODS, ("default", "p"), {"status": {}}, "status")
    deletion = Delete(PODS, ("default", "p"), "p", pre_patch=last, event_object=JOB)
    server = Log()
    assert await written(server, deletion) == ["patch pods", "delete pods", "create events"]
    assert server.bodies[-1]["message"] == "Deleted pod: p"


async def test_what_is_made_is_told_by_its_owner() -> None:
    server = Log()
    assert await written(server, Create(PODS, a_pod("x"), event_object=JOB)) == ["create pods", "create events"]
    event = server.bodies[-1]
    assert (event["reason"], event["message"], event["source"]) == (
        "SuccessfulCreate",
        "Created pod: made",
        {"component": "job-controller"},
    )
    assert (event["involvedObject"]["kind"], event["firstTimestamp"]) == ("Job", "1970-01-01T00:01:00Z")


async def test_what_is_there_already_may_be_as_good() -> None:
    assert await written(Log("create"), Create(PODS, a_pod("x"), ignore_already_exists=True)) == []
    with pytest.raises(StatusError):
        await written(Log("create"), Create(PODS, a_pod("x")))


async def test_the_same_words_are_counted_up() -> None:
    server = Log()
    again = Record(JOB, "Suspended", "Job suspended")
    assert await written(server, again, again, Record(JOB, "Resumed", "Job resumed")) == [
        "create events",
        "patch events",
        "create events",
    ]
    assert server.bodies[1]["count"] == 2


async def test_an_event_that_is_refused_holds_up_nothing() -> None:
    assert await written(Log("create"), Record(JOB, "Suspended", "Job suspended")) == []
