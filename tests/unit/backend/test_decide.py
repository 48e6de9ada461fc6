"""Task decisions as tables: pure functions of record, observation and time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.backend import (
    BackendSettings,
    Outcome,
    PodState,
    RetryPolicy,
    TaskPhase,
    TaskRecord,
    TaskSpec,
    UpdatePolicy,
)
from pyscheduler.backend.decide import (
    Call,
    CreatePod,
    DeletePod,
    Get,
    Observation,
    ReleasePod,
    act,
    observe,
)
from pyscheduler.backend.pods import PodTimes
from pyscheduler.backend.rejections import CreateRejection

NOW = 10_000.0
SETTINGS = BackendSettings(image_seconds=60.0, lost_seconds=100.0)
NO_RETRY = RetryPolicy(infrastructure=0)
ONE_RETRY = RetryPolicy(infrastructure=1, application=1, configuration=1, backoff_seconds=7.0)


def record(**fields: Any) -> TaskRecord:
    """Return the record of a task with a running pod, submitted 100 s ago."""
    spec = TaskSpec(id="t", image="x", **fields.pop("spec", {}))
    defaults = {"phase": TaskPhase.RUNNING, "pod_uid": "u", "submitted_at": NOW - 100, "attempt_at": NOW - 100}
    return TaskRecord(spec=spec, **{**defaults, **fields})


def pod(**fields: Any) -> PodState:
    defaults = {"name": "t-1", "uid": "u", "version": 9, "phase": "Running", "node": "n", "has_finalizer": True}
    return PodState(**{**defaults, "created_at": NOW - 90, "started_at": NOW - 80, **fields})


ENDED_BY_DELETION = {"deleting": True, "grace": 0, "delete_at": NOW}

ENDS = [
    pytest.param(pod(phase="Succeeded", exit_code=0), "Succeeded", id="success"),
    pytest.param(pod(phase="Failed", exit_code=3, exit_reason="Error"), "Failed", id="exit code 3"),
    pytest.param(pod(phase="Failed", exit_code=137, exit_reason="OOMKilled"), "OOMKilled", id="out of memory"),
    pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", id="evicted by the kubelet"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="EvictionByEvictionAPI"), "Evicted", id="API eviction"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="PreemptionByScheduler"), "Preempted", id="preempted"),
    pytest.param(pod(phase="Failed", exit_code=143, disruption="SomethingNew"), "Disrupted", id="disrupted"),
    pytest.param(pod(phase="Failed", reason="OutOfcpu"), "NodeRefused", id="rejected by the kubelet"),
    pytest.param(pod(phase="Failed", disruption="DeletionByPodGC"), "NodeLost", id="node object deleted"),
    pytest.param(pod(phase="Failed", reason="DeadlineExceeded"), "DeadlineExceeded", id="the pod's own deadline"),
    pytest.param(pod(**ENDED_BY_DELETION), "Deleted", id="force deleted"),
    pytest.param(pod(phase="Failed", exit_code=143, **ENDED_BY_DELETION), "Deleted", id="deleted, stopped by SIGTERM"),
    pytest.param(pod(phase="Succeeded", exit_code=0, **ENDED_BY_DELETION), "Succeeded", id="deleted, but succeeded"),
    pytest.param(
        pod(phase="Failed", exit_code=3, finished_at=NOW - 50, **ENDED_BY_DELETION), "Failed", id="failed, then deleted"
    ),
]


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_outcome_of_a_stopped_pod(end: PodState, reason: str) -> None:
    new = observe(record(spec={"retry": NO_RETRY}), Observation(pod=end), NOW, SETTINGS)
    assert new.reason == reason
    assert new.phase is (TaskPhase.SUCCEEDED if reason == "Succeeded" else TaskPhase.FAILED)
    assert (new.exit_code, new.message != "") == (end.exit_code, True)


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_outcome_of_a_deleted_pod_follows_its_last_state(end: PodState, reason: str) -> None:
    assert (
        observe(
            record(spec={"retry": NO_RETRY}),
            Observation(deleted=msgspec.structs.replace(end, has_finalizer=False)),
            NOW,
            SETTINGS,
        ).reason
        == reason
    )


def test_times_of_a_pod_are_not_before_its_attempt() -> None:
    pending = record(phase=TaskPhase.PENDING, attempt_at=NOW - 0.5)
    in_whole_seconds = {"started_at": NOW - 1, "finished_at": NOW - 1, "exit_code": 0}
    running = observe(pending, Observation(pod=pod(started_at=NOW - 1)), NOW, SETTINGS)
    ended = observe(pending, Observation(pod=pod(phase="Succeeded", **in_whole_seconds)), NOW, SETTINGS)
    assert running.started_at == NOW - 0.5
    assert (ended.started_at, ended.finished_at) == (NOW - 0.5, NOW - 0.5)


def test_failure_with_retries_left_begins_the_next_attempt_after_the_backoff() -> None:
    first = record(spec={"retry": ONE_RETRY}, ending=None, started_at=NOW - 80)
    second = observe(first, Observation(pod=pod(phase="Failed", exit_code=3)), NOW, SETTINGS)
    assert (second.phase, second.attempt, second.attempt_at) == (TaskPhase.SUBMITTED, 2, NOW + 7.0)
    assert (second.pod_uid, second.node, second.started_at, second.failures) == ("", "", None, {"application": 1})
    last = msgspec.structs.replace(second, phase=TaskPhase.RUNNING, pod_uid="u")
    third = observe(last, Observation(pod=pod(phase="Failed", exit_code=3)), NOW, SETTINGS)
    assert (third.phase, third.attempt) == (TaskPhase.FAILED, 2)


def test_next_attempt_uses_the_updated_spec() -> None:
    updated = TaskSpec(id="t", image="y", retry=ONE_RETRY)
    old = record(spec={"retry": ONE_RETRY}, next_spec=updated)
    new = observe(old, Observation(pod=pod(phase="Failed")), NOW, SETTINGS)
    assert (new.spec, new.next_spec) == (updated, None)


WAITS = pod(phase="Pending", node="", started_at=None, unschedulable="0/3 nodes are available")
UNTRIED = pod(phase="Pending", node="", started_at=None)
GATED = pod(phase="Pending", node="", started_at=None, gated=True)
PULLS = pod(phase="Pending", waiting="ErrImagePull")
STOPS = pod(deleting=True, grace=30, delete_at=NOW - 9000)  # the API server's clock is hours behind
CRASHES = pod(waiting="CrashLoopBackOff", restarts=5)
MAIN_ENDED = pod(main_ended=True, exit_code=0)

STARTUP_CASES = [
    pytest.param(PULLS, {"accepted": 60}, "ImageError", id="image error for 60 s"),
    pytest.param(PULLS, {"accepted": 50}, None, id="image error for 50 s"),
    pytest.param(pod(phase="Pending", waiting="InvalidImageName"), {}, "ImageError", id="invalid image name"),
    pytest.param(
        pod(phase="Pending", waiting="CreateContainerConfigError"),
        {"accepted": 60},
        "CreateContainerConfigError",
        id="missing secret",
    ),
    pytest.param(WAITS, {"tried": 599}, None, id="unschedulable for 599 s"),
    pytest.param(WAITS, {"tried": 600}, "Unschedulable", id="unschedulable for 600 s"),
    pytest.param(WAITS, {"observed": 9000, "tried": 9}, None, id="tried by a scheduler for the first time 9 s ago"),
    pytest.param(UNTRIED, {"observed": 600}, "NoScheduler", id="not tried by any scheduler for 600 s"),
    pytest.param(GATED, {"observed": 9000}, None, id="gated for hours"),
    pytest.param(pod(phase="Pending"), {"bound": 299, "observed": 9000}, None, id="bound for 299 s"),
    pytest.param(pod(phase="Pending"), {"bound": 300}, "Stuck", id="bound for 300 s"),
    pytest.param(CRASHES, {}, "CrashLoopBackOff", id="restarted 5 times"),
    pytest.param(pod(waiting="CrashLoopBackOff", restarts=4), {"bound": 9000}, None, id="restarted 4 times"),
    pytest.param(MAIN_ENDED, {"main_ended": 30}, "Succeeded", id="sidecar runs 30 s after the task's container"),
    pytest.param(MAIN_ENDED, {"main_ended": 29}, None, id="sidecar runs 29 s after the task's container"),
    pytest.param(pod(main_ended=True, exit_code=3), {"main_ended": 30}, "Failed", id="sidecar runs after a failure"),
    pytest.param(STOPS, {"deleting": 129}, None, id="99 s after the grace period"),
    pytest.param(STOPS, {"deleting": 130}, "NodeLost", id="100 s after the grace period"),
    pytest.param(STOPS, {}, None, id="deletion was observed now"),
    pytest.param(pod(phase="Unknown"), {}, None, id="phase Unknown"),
]


def seen(state: PodState, **seconds_ago: float) -> Observation:
    """Return the observation of a pod whose states were first observed so many seconds ago, at the latest now."""
    times = PodTimes(observed=NOW - seconds_ago.pop("observed", 0))
    since = {name: NOW - ago for name, ago in seconds_ago.items()}
    return Observation(pod=state, times={state.uid: msgspec.structs.replace(times, **since)})


@pytest.mark.parametrize(("observed", "seconds_ago", "ending"), STARTUP_CASES)
def test_attempt_that_cannot_start_or_stop_in_time_is_ended(
    observed: PodState, seconds_ago: dict[str, float], ending: str | None
) -> None:
    begun = NOW - 100_000  # the task is old; only the times of the pod's states count
    phase = TaskPhase.PENDING if observed.phase == "Pending" else TaskPhase.RUNNING
    limits = {"pending_seconds": 600.0, "start_seconds": 300.0}
    old = record(phase=phase, attempt_at=begun, submitted_at=begun, spec=limits)
    observation = seen(observed, **seconds_ago)
    new = observe(old, observation, NOW, SETTINGS)
    assert new.ending == ending
    assert not new.final
    due = act(new, observation, NOW, SETTINGS)
    assert isinstance(due.call, DeletePod) == (ending is not None)
    assert due.call is not None or due.wake > NOW


@pytest.mark.parametrize("observed", [WAITS, UNTRIED, GATED])
def test_waiting_for_room_is_no_failure_by_default(observed: PodState) -> None:
    new = observe(record(phase=TaskPhase.PENDING), seen(observed, observed=90_000, tried=90_000), NOW, SETTINGS)
    assert (new.ending, new.phase) == (None, TaskPhase.PENDING)
    assert new.reason in ("Unschedulable", "NoScheduler", "SchedulingGated")


def test_gated_pod_shows_what_its_condition_waits_for() -> None:
    gated = msgspec.structs.replace(GATED, gate_message="waiting for 1 more pod of the gang train")
    new = observe(record(phase=TaskPhase.PENDING), seen(gated), NOW, SETTINGS)
    assert (new.reason, new.message) == ("SchedulingGated", "waiting for 1 more pod of the gang train")


def test_pod_without_a_scheduler_is_reported_as_such_after_a_while() -> None:
    young = observe(record(phase=TaskPhase.PENDING), seen(UNTRIED, observed=29), NOW, SETTINGS)
    assert (young.reason, act(young, seen(UNTRIED, observed=29), NOW, SETTINGS).wake) == ("", NOW + 1)
    old = observe(record(phase=TaskPhase.PENDING), seen(UNTRIED, observed=30), NOW, SETTINGS)
    assert (old.reason, old.message) == (
        "NoScheduler",
        "no scheduler has tried the pod: is one running with its schedulerName?",
    )


def test_task_succeeds_although_its_sidecar_is_stopped_by_a_signal() -> None:
    ending = observe(record(), seen(MAIN_ENDED, main_ended=30), NOW, SETTINGS)
    stopped = pod(main_ended=True, exit_code=0, phase="Failed", **ENDED_BY_DELETION)
    ended = observe(ending, Observation(pod=stopped), NOW, SETTINGS)
    assert (ended.phase, ended.reason, ended.exit_code) == (TaskPhase.SUCCEEDED, "Succeeded", 0)


def test_failed_pod_is_kept_for_a_time() -> None:
    failed, settings = pod(phase="Failed", exit_code=3), msgspec.structs.replace(SETTINGS, keep_failed_seconds=50.0)
    assert act(FINAL, seen(failed, stopped=49), NOW, settings) == (None, NOW + 1)
    assert act(FINAL, seen(failed, stopped=50), NOW, settings).call == ReleasePod(failed)
    deleted = msgspec.structs.replace(failed, deleting=True)
    assert act(FINAL, seen(deleted, stopped=1), NOW, settings).call == ReleasePod(deleted), "deleted by a user"


UPDATED = TaskSpec(id="t", image="y")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(pod(phase="Succeeded", exit_code=0), id="succeeded"),
        pytest.param(pod(phase="Failed", exit_code=3), id="failed without a retry left"),
    ],
)
def test_task_updated_while_its_pod_ran_runs_again_with_the_new_spec(end: PodState) -> None:
    again = observe(record(next_spec=UPDATED), Observation(pod=end), NOW, SETTINGS)
    assert (again.phase, again.attempt, again.spec, again.next_spec) == (TaskPhase.SUBMITTED, 2, UPDATED, None)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        pytest.param({"killing": True}, TaskPhase.KILLED, id="killed"),
        pytest.param({"spec": {"deadline_seconds": 100.0}}, TaskPhase.FAILED, id="past its deadline"),
        pytest.param(
            {"next_spec": msgspec.structs.replace(UPDATED, update_policy=UpdatePolicy.DISCARD)},
            TaskPhase.FAILED,
            id="by its policy",
        ),
    ],
)
def test_update_that_was_not_run_is_reported(changes: dict[str, Any], phase: TaskPhase) -> None:
    old = record(**{"next_spec": UPDATED, **changes})
    final = observe(old, Observation(pod=pod(phase="Failed", exit_code=143)), NOW, SETTINGS)
    assert (final.phase, final.next_spec) == (phase, old.next_spec)
    assert final.message.endswith("its updated spec was not run")


def test_backoff_that_a_clock_set_back_has_made_too_long_is_over() -> None:
    waits = record(phase=TaskPhase.SUBMITTED, pod_uid="", attempt_at=NOW + 3600)
    assert act(waits, Observation(), NOW, SETTINGS).call == CreatePod()


def test_running_task_never_returns_to_pending() -> None:
    new = observe(record(), Observation(pod=pod(phase="Pending")), NOW, SETTINGS)
    assert new.phase is TaskPhase.RUNNING


KILLED = record(killing=True)
KILLED_EARLY = record(phase=TaskPhase.SUBMITTED, pod_uid="", killing=True)


@pytest.mark.parametrize(
    ("killed", "observation", "phase"),
    [
        pytest.param(KILLED, Observation(pod=pod()), TaskPhase.RUNNING, id="pod is running"),
        pytest.param(
            KILLED, Observation(pod=pod(phase="Failed", exit_code=143)), TaskPhase.KILLED, id="pod has stopped"
        ),
        pytest.param(KILLED, Observation(pod=pod(phase="Succeeded")), TaskPhase.SUCCEEDED, id="pod succeeded first"),
        pytest.param(KILLED, Observation(absence_confirmed=True), TaskPhase.KILLED, id="pod is gone"),
        pytest.param(KILLED, Observation(), TaskPhase.RUNNING, id="pod may have lost its label"),
        pytest.param(KILLED_EARLY, Observation(), TaskPhase.KILLED, id="no pod yet"),
        pytest.param(KILLED_EARLY, Observation(busy=True), TaskPhase.SUBMITTED, id="create in flight"),
        pytest.param(KILLED_EARLY, Observation(create_unconfirmed=True), TaskPhase.SUBMITTED, id="create unconfirmed"),
        pytest.param(KILLED_EARLY, Observation(synced=False), TaskPhase.SUBMITTED, id="pods not synced"),
    ],
)
def test_phase_of_a_killed_task(killed: TaskRecord, observation: Observation, phase: TaskPhase) -> None:
    assert observe(killed, observation, NOW, SETTINGS).phase is phase


def test_task_past_its_deadline_is_not_retried() -> None:
    late = record(spec={"retry": ONE_RETRY, "deadline_seconds": 100.0})
    ending = observe(late, Observation(pod=pod()), NOW, SETTINGS)
    assert (ending.ending, ending.phase) == (Outcome.DEADLINE, TaskPhase.RUNNING)
    ended = observe(ending, Observation(pod=pod(phase="Failed", exit_code=143)), NOW, SETTINGS)
    assert (ended.phase, ended.reason) == (TaskPhase.FAILED, "DeadlineExceeded")


NEW = record(phase=TaskPhase.SUBMITTED, pod_uid="")
OLD_RUNNING = pod(name="t-0", uid="o", attempt=0)
OLD_ENDED = pod(name="t-0", uid="o", attempt=0, phase="Failed")
QUOTA_REJECTION = CreateRejection(Outcome.QUOTA, "exceeded quota", NOW - 1, retriable=True)
RBAC_REJECTION = CreateRejection(Outcome.FORBIDDEN, "cannot create resource pods", NOW - 1, retriable=True)
FINAL = record(phase=TaskPhase.SUCCEEDED)
LOST = Get(0, "o")


@pytest.mark.parametrize(
    ("task", "observation", "call"),
    [
        pytest.param(NEW, Observation(), CreatePod(), id="create a missing pod"),
        pytest.param(NEW, Observation(synced=False), None, id="not before pods are synced"),
        pytest.param(NEW, Observation(busy=True), None, id="one call at a time"),
        pytest.param(
            NEW,
            Observation(others=(OLD_RUNNING,)),
            DeletePod(OLD_RUNNING, None),
            id="delete the running pod of an earlier attempt first",
        ),
        pytest.param(
            NEW,
            Observation(others=(OLD_ENDED,)),
            ReleasePod(OLD_ENDED),
            id="release the ended pod of an earlier attempt first",
        ),
        pytest.param(NEW, Observation(rejection=QUOTA_REJECTION), CreatePod(), id="retry a create rejected by quota"),
        pytest.param(record(), Observation(), Get(1, "u"), id="read a pod that is missing in lists"),
        pytest.param(record(), Observation(absence_confirmed=True), None, id="pod is gone, not recorded yet"),
        pytest.param(NEW, Observation(deleted=pod()), Get(1, ""), id="read a pod that disappeared without a deletion"),
        pytest.param(
            msgspec.structs.replace(NEW, attempt_at=NOW + 5), Observation(), None, id="not before the backoff is over"
        ),
        pytest.param(
            record(ending=Outcome.KILLED),
            Observation(pod=pod()),
            DeletePod(pod(), None),
            id="delete the pod of a killed task",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, ending=Outcome.KILLED),
            Observation(create_unconfirmed=True),
            Get(1, ""),
            id="look for an unconfirmed pod",
        ),
        pytest.param(
            FINAL,
            Observation(pod=pod(phase="Succeeded")),
            ReleasePod(pod(phase="Succeeded")),
            id="release a pod with a recorded end",
        ),
        pytest.param(FINAL, Observation(pod=pod()), DeletePod(pod(), None), id="delete a pod of a final task"),
        pytest.param(FINAL, Observation(), None, id="final task without a pod"),
        pytest.param(FINAL, Observation(missing=(LOST,)), LOST, id="read a pod that is missing and not released"),
        pytest.param(NEW, Observation(missing=(LOST,)), LOST, id="read a missing pod of an earlier attempt"),
        pytest.param(FINAL, Observation(missing=(LOST,), synced=False), None, id="not before pods are synced either"),
        pytest.param(
            NEW, Observation(missing=(LOST,), others=(OLD_ENDED,)), ReleasePod(OLD_ENDED), id="release ended pods first"
        ),
    ],
)
def test_next_call(task: TaskRecord, observation: Observation, call: Call | None) -> None:
    due = act(task, observation, NOW, SETTINGS).call
    assert (type(due), due) == (type(call), call)


@pytest.mark.parametrize(
    ("rejection", "reason", "final"),
    [
        pytest.param(
            CreateRejection(Outcome.REFUSED, "no such field", NOW, retriable=False), "Refused", True, id="invalid pod"
        ),
        pytest.param(QUOTA_REJECTION, "QuotaExceeded", False, id="quota exceeded"),
        pytest.param(
            QUOTA_REJECTION._replace(since=NOW - 90_000), "QuotaExceeded", False, id="quota exceeded for long"
        ),
        pytest.param(RBAC_REJECTION, "Forbidden", False, id="forbidden"),
        pytest.param(RBAC_REJECTION._replace(since=NOW - 600), "Forbidden", True, id="forbidden for 600 s"),
    ],
)
def test_rejected_create(rejection: CreateRejection, reason: str, final: bool) -> None:
    new = observe(NEW, Observation(rejection=rejection), NOW, SETTINGS)
    assert (new.reason, new.message, new.final) == (reason, rejection.message, final)


@pytest.mark.parametrize(
    ("observation", "cleaned"),
    [
        pytest.param(Observation(), True, id="no pods"),
        pytest.param(Observation(synced=False), False, id="pods not synced"),
        pytest.param(Observation(busy=True), False, id="call in flight"),
        pytest.param(Observation(pod=pod(phase="Succeeded")), False, id="pod exists"),
        pytest.param(Observation(others=(OLD_ENDED,)), False, id="pod of an earlier attempt exists"),
        pytest.param(Observation(missing=(LOST,)), False, id="pod of an earlier attempt may exist without its label"),
    ],
)
def test_final_record_is_cleaned_once_no_pod_is_left(observation: Observation, cleaned: bool) -> None:
    new = observe(FINAL, observation, NOW, SETTINGS)
    assert new == msgspec.structs.replace(FINAL, cleaned=cleaned)
    assert (new is FINAL) != cleaned


def test_ended_pod_is_recorded_until_it_is_gone() -> None:
    ended = pod(phase="Failed", exit_code=3, exit_reason="Error")
    second = observe(record(spec={"retry": ONE_RETRY}), Observation(pod=ended), NOW, SETTINGS)
    assert (second.attempt, second.unreleased) == (2, {"u": 1})
    assert observe(second, Observation(others=(ended,)), NOW, SETTINGS) is second
    without = observe(second, Observation(gone=frozenset({"u"})), NOW, SETTINGS)
    assert without == msgspec.structs.replace(second, unreleased={}), "no update for the owner: the same version"


@pytest.mark.parametrize("absence_confirmed", [False, True])
def test_pod_that_is_deleted_when_its_attempt_ends_is_not_recorded(absence_confirmed: bool) -> None:
    deleted = pod(phase="Failed", exit_code=3, deleting=True, has_finalizer=absence_confirmed)
    observation = Observation(deleted=deleted, absence_confirmed=absence_confirmed)
    second = observe(record(spec={"retry": ONE_RETRY}), observation, NOW, SETTINGS)
    assert (second.attempt, second.unreleased) == (2, {})
