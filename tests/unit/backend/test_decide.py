"""What becomes of a task, row by row: pure functions of record, sight and time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.backend import BackendSettings, Outcome, PodState, RetryPolicy, TaskPhase, TaskRecord, TaskSpec
from pyscheduler.backend.decide import Call, Create, CreateRejection, Delete, Get, Observation, Release, act, observe

NOW = 10_000.0
SETTINGS = BackendSettings(image_seconds=60.0, lost_seconds=100.0)
MANY = RetryPolicy(infrastructure=1, application=1, configuration=1, backoff_seconds=7.0)


def record(**fields: Any) -> TaskRecord:
    """A task whose pod is up, submitted a hundred seconds ago."""
    spec = TaskSpec(id="t", image="x", **fields.pop("spec", {}))
    known = {"phase": TaskPhase.RUNNING, "pod_uid": "u", "submitted_at": NOW - 100, "attempt_at": NOW - 100}
    return TaskRecord(spec=spec, **{**known, **fields})


def pod(**fields: Any) -> PodState:
    known = {"name": "t-1", "uid": "u", "version": 9, "phase": "Running", "node": "n", "has_finalizer": True}
    return PodState(**{**known, "created_at": NOW - 90, "started_at": NOW - 80, **fields})


ENDED_BY_DELETION = {"deleting": True, "grace": 0, "delete_at": NOW}

ENDS = [
    pytest.param(pod(phase="Succeeded", exit_code=0), "Succeeded", id="well"),
    pytest.param(pod(phase="Failed", exit_code=3, exit_reason="Error"), "Failed", id="with an error"),
    pytest.param(pod(phase="Failed", exit_code=137, exit_reason="OOMKilled"), "OOMKilled", id="out of memory"),
    pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", id="evicted by the kubelet"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="EvictionByEvictionAPI"), "Evicted", id="API eviction"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="PreemptionByScheduler"), "Preempted", id="preempted"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="SomethingNew"), "Disrupted", id="disrupted"),
    pytest.param(pod(phase="Failed", reason="OutOfcpu"), "NodeRefused", id="refused by the node"),
    pytest.param(pod(phase="Failed", disruption="DeletionByPodGC"), "NodeLost", id="node object gone"),
    pytest.param(pod(phase="Failed", reason="DeadlineExceeded"), "DeadlineExceeded", id="the pod's own deadline"),
    pytest.param(pod(**ENDED_BY_DELETION), "Deleted", id="deleted, by force"),
    pytest.param(pod(phase="Failed", exit_code=143, **ENDED_BY_DELETION), "Deleted", id="deleted, and stopped"),
    pytest.param(pod(phase="Succeeded", exit_code=0, **ENDED_BY_DELETION), "Succeeded", id="deleted, yet done"),
    pytest.param(
        pod(phase="Failed", exit_code=3, finished_at=NOW - 50, **ENDED_BY_DELETION), "Failed", id="failed, then deleted"
    ),
]


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_each_end_has_its_outcome(end: PodState, reason: str) -> None:
    never = RetryPolicy(infrastructure=0)
    found = observe(record(spec={"retry": never}), Observation(pod=end), NOW, SETTINGS)
    assert found.reason == reason
    assert found.phase is (TaskPhase.SUCCEEDED if reason == "Succeeded" else TaskPhase.FAILED)
    assert (found.exit_code, found.message != "") == (end.exit_code, True)


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_a_pod_that_is_gone_ended_as_it_was_last_seen(end: PodState, reason: str) -> None:
    never = RetryPolicy(infrastructure=0)
    assert observe(record(spec={"retry": never}), Observation(deleted=end), NOW, SETTINGS).reason == reason


def test_an_end_that_may_be_retried_leads_to_another_attempt_after_a_pause() -> None:
    first = record(spec={"retry": MANY}, ending=None, started_at=NOW - 80)
    second = observe(first, Observation(pod=pod(phase="Failed", exit_code=3)), NOW, SETTINGS)
    assert (second.phase, second.attempt, second.attempt_at) == (TaskPhase.SUBMITTED, 2, NOW + 7.0)
    assert (second.pod_uid, second.node, second.started_at, second.failures) == ("", "", None, {"application": 1})
    last = msgspec.structs.replace(second, phase=TaskPhase.RUNNING, pod_uid="u")
    third = observe(last, Observation(pod=pod(phase="Failed", exit_code=3)), NOW, SETTINGS)
    assert (third.phase, third.attempt) == (TaskPhase.FAILED, 2)


def test_the_next_attempt_is_made_of_what_the_owner_wants_by_now() -> None:
    wanted = TaskSpec(id="t", image="y", retry=MANY)
    found = observe(record(spec={"retry": MANY}, next_spec=wanted), Observation(pod=pod(phase="Failed")), NOW, SETTINGS)
    assert (found.spec, found.next_spec) == (wanted, None)


STAYS = Observation(pod=pod(phase="Pending", node=""))

TROUBLES = [
    pytest.param(pod(phase="Pending", waiting="ErrImagePull"), "ImageError", id="an image for 80 s"),
    pytest.param(pod(phase="Pending", waiting="ErrImagePull", started_at=NOW - 50), None, id="an image for 50 s"),
    pytest.param(pod(phase="Pending", waiting="InvalidImageName", started_at=NOW), "ImageError", id="a bad name"),
    pytest.param(
        pod(phase="Pending", waiting="CreateContainerConfigError"), "CreateContainerConfigError", id="a missing secret"
    ),
    pytest.param(pod(phase="Pending", node="", created_at=NOW - 599), None, id="pending for 599 s"),
    pytest.param(pod(phase="Pending", node="", created_at=NOW - 600), "Unschedulable", id="pending for 600 s"),
    pytest.param(pod(phase="Pending", created_at=NOW - 600), "Stuck", id="on a node for 600 s"),
    pytest.param(pod(deleting=True, grace=30, delete_at=NOW - 99), None, id="deleted, 99 s late"),
    pytest.param(pod(deleting=True, grace=30, delete_at=NOW - 100), "NodeLost", id="deleted, 100 s late"),
    pytest.param(pod(phase="Unknown"), None, id="unknown"),
]


@pytest.mark.parametrize(("seen", "ending"), TROUBLES)
def test_hopeless_attempts_are_ended(seen: PodState, ending: str | None) -> None:
    begun = NOW - 1000  # the task is old; the pod's own age counts
    phase = TaskPhase.PENDING if seen.phase == "Pending" else TaskPhase.RUNNING
    found = observe(record(phase=phase, attempt_at=begun, submitted_at=begun), Observation(pod=seen), NOW, SETTINGS)
    assert found.ending == ending
    assert not found.final
    due = act(found, Observation(pod=seen), NOW, SETTINGS)
    assert isinstance(due.call, Delete) == (ending is not None)
    assert due.call is not None or due.wake > NOW


def test_time_without_a_pod_does_not_count_as_pending() -> None:
    """The backend was away between writing the task down and creating its pod."""
    found = observe(record(phase=TaskPhase.PENDING, attempt_at=NOW - 9000), STAYS, NOW, SETTINGS)
    assert found.ending is None


def test_a_running_task_never_goes_back_to_pending() -> None:
    found = observe(record(), Observation(pod=pod(phase="Pending")), NOW, SETTINGS)
    assert found.phase is TaskPhase.RUNNING


KILLED = record(killing=True)
KILLED_EARLY = record(phase=TaskPhase.SUBMITTED, pod_uid="", killing=True)


@pytest.mark.parametrize(
    ("killed", "sight", "phase"),
    [
        pytest.param(KILLED, Observation(pod=pod()), TaskPhase.RUNNING, id="while it runs, not yet"),
        pytest.param(
            KILLED, Observation(pod=pod(phase="Failed", exit_code=143)), TaskPhase.KILLED, id="once it has stopped"
        ),
        pytest.param(
            KILLED, Observation(pod=pod(phase="Succeeded")), TaskPhase.SUCCEEDED, id="unless it succeeded first"
        ),
        pytest.param(KILLED, Observation(), TaskPhase.KILLED, id="if it is gone"),
        pytest.param(KILLED_EARLY, Observation(), TaskPhase.KILLED, id="without a pod"),
        pytest.param(KILLED_EARLY, Observation(busy=True), TaskPhase.SUBMITTED, id="not while a pod may come to be"),
        pytest.param(
            KILLED_EARLY, Observation(create_unconfirmed=True), TaskPhase.SUBMITTED, id="not while a pod may be"
        ),
        pytest.param(KILLED_EARLY, Observation(synced=False), TaskPhase.SUBMITTED, id="not before pods are known"),
    ],
)
def test_a_kill(killed: TaskRecord, sight: Observation, phase: TaskPhase) -> None:
    assert observe(killed, sight, NOW, SETTINGS).phase is phase


def test_after_the_deadline_nothing_is_tried_again() -> None:
    late = record(spec={"retry": MANY, "deadline_seconds": 100.0})
    found = observe(late, Observation(pod=pod()), NOW, SETTINGS)
    assert (found.ending, found.phase) == (Outcome.DEADLINE, TaskPhase.RUNNING)
    over = observe(found, Observation(pod=pod(phase="Failed", exit_code=143)), NOW, SETTINGS)
    assert (over.phase, over.reason) == (TaskPhase.FAILED, "DeadlineExceeded")


NEW = record(phase=TaskPhase.SUBMITTED, pod_uid="")
OLD_RUNS = pod(name="t-0", uid="o", attempt=0)
OLD_ENDED = pod(name="t-0", uid="o", attempt=0, phase="Failed")
WAITS_FOR_QUOTA = CreateRejection(Outcome.QUOTA, "exceeded quota", NOW - 1, retriable=True)
FINAL = record(phase=TaskPhase.SUCCEEDED)


@pytest.mark.parametrize(
    ("known", "sight", "call"),
    [
        pytest.param(NEW, Observation(), Create(), id="a pod that is missing"),
        pytest.param(NEW, Observation(synced=False), None, id="not before it is known what there is"),
        pytest.param(NEW, Observation(busy=True), None, id="one call at a time"),
        pytest.param(NEW, Observation(others=(OLD_RUNS,)), Delete(OLD_RUNS, None), id="an old pod first"),
        pytest.param(NEW, Observation(others=(OLD_ENDED,)), Release(OLD_ENDED), id="an old end first"),
        pytest.param(NEW, Observation(rejection=WAITS_FOR_QUOTA), Create(), id="a quota may have room by now"),
        pytest.param(record(), Observation(), None, id="its pod is gone, which is to be written down first"),
        pytest.param(
            msgspec.structs.replace(NEW, attempt_at=NOW + 5), Observation(), None, id="not before the pause is over"
        ),
        pytest.param(record(ending=Outcome.KILLED), Observation(pod=pod()), Delete(pod(), None), id="what is to end"),
        pytest.param(
            msgspec.structs.replace(NEW, ending=Outcome.KILLED),
            Observation(create_unconfirmed=True),
            Get(),
            id="look for what may be",
        ),
        pytest.param(
            FINAL, Observation(pod=pod(phase="Succeeded")), Release(pod(phase="Succeeded")), id="what is on record"
        ),
        pytest.param(FINAL, Observation(pod=pod()), Delete(pod(), None), id="what came to be too late"),
        pytest.param(FINAL, Observation(), None, id="nothing"),
    ],
)
def test_the_call_that_is_due(known: TaskRecord, sight: Observation, call: Call | None) -> None:
    found = act(known, sight, NOW, SETTINGS).call
    assert (type(found), found) == (type(call), call)


@pytest.mark.parametrize(
    ("rejection", "reason", "final"),
    [
        pytest.param(
            CreateRejection(Outcome.REFUSED, "no such field", NOW, retriable=False), "Refused", True, id="for good"
        ),
        pytest.param(WAITS_FOR_QUOTA, "QuotaExceeded", False, id="for want of quota"),
        pytest.param(WAITS_FOR_QUOTA._replace(since=NOW - 600), "QuotaExceeded", True, id="for too long"),
    ],
)
def test_a_refused_create(rejection: CreateRejection, reason: str, final: bool) -> None:
    found = observe(NEW, Observation(rejection=rejection), NOW, SETTINGS)
    assert (found.reason, found.message, found.final) == (reason, rejection.message, final)


@pytest.mark.parametrize(
    ("sight", "cleaned"),
    [
        pytest.param(Observation(), True, id="nothing is left"),
        pytest.param(Observation(synced=False), False, id="not known yet"),
        pytest.param(Observation(busy=True), False, id="a call is under way"),
        pytest.param(Observation(pod=pod(phase="Succeeded")), False, id="its pod"),
        pytest.param(Observation(others=(OLD_ENDED,)), False, id="an old pod"),
    ],
)
def test_a_final_record_only_becomes_clean(sight: Observation, cleaned: bool) -> None:
    found = observe(FINAL, sight, NOW, SETTINGS)
    assert found == msgspec.structs.replace(FINAL, cleaned=cleaned)
    assert (found is FINAL) != cleaned
