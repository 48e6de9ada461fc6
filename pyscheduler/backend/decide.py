"""Task decisions: pure functions of a task's record, its observed pods and the time.

`observe` returns the new record, which is made durable before anything else happens; `act` returns the one API call
that is due then. Both are idempotent and depend on nothing else, so a process killed between any two steps repeats the
decision after its restart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from pyscheduler.backend.outcomes import OUTCOME_INFO, Outcome
from pyscheduler.backend.pod_outcome import IMAGE_ERRORS, outcome_of, startup_failure
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.task import TaskPhase, TaskRecord


class CreateRejection(NamedTuple):
    """Rejection of a pod by the API server; `retriable` if it may accept the pod later (quota or RBAC changes)."""

    outcome: Outcome
    message: str
    since: float
    retriable: bool


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of a task's pods."""

    synced: bool = True
    """True once a complete list was read: a pod that is missing here does not exist."""
    pod: PodState | None = None
    """Pod of the current attempt."""
    deleted: PodState | None = None
    """Last state of the current attempt's pod, if it was deleted."""
    others: tuple[PodState, ...] = ()
    """Leftover pods to delete: of earlier attempts, or with another uid than the record's."""
    busy: bool = False
    """True while an API call for the task is in flight: it may create a pod that is not observed yet."""
    create_unconfirmed: bool = False
    """True if a create got no response: the pod may exist unobserved."""
    absence_confirmed: bool = False
    """True if a read has shown that the attempt's pod does not exist. Lists and watches also omit a pod that has only
    lost the backend's label."""
    rejection: CreateRejection | None = None


class CreatePod(NamedTuple):
    """Create the attempt's pod, with its gang's PodGroup where that is needed."""


class DeletePod(NamedTuple):
    """Delete the pod; `grace` in seconds, None for the pod's own, 0 to force."""

    pod: PodState
    grace: int | None


class ReleasePod(NamedTuple):
    """Remove the finalizer of a pod with a recorded end, and delete the pod."""

    pod: PodState


class Get(NamedTuple):
    """Read the attempt's pod to find out if it exists."""


Call = CreatePod | DeletePod | ReleasePod | Get


class NextCall(NamedTuple):
    """Call that is due, if any, and the latest time of the next decision (math.inf: at the next event)."""

    call: Call | None
    wake: float


def observe(record: TaskRecord, observation: Observation, now: float, settings: BackendSettings) -> TaskRecord:
    """Return the record that follows from the observation; the given object if nothing has changed."""
    if record.final:
        pods_left = observation.busy or not observation.synced or observation.pod is not None or observation.others
        return record if pods_left or record.cleaned else msgspec.structs.replace(record, cleaned=True)
    record = _with_requested_end(record, now)
    if observation.pod is not None:
        return _with_pod(record, observation.pod, now, settings)
    deleted = observation.deleted
    if deleted is not None and (deleted.deleting or deleted.stopped or observation.absence_confirmed):
        return _ended(record, outcome_of(deleted, record.ending), deleted, now)
    if not observation.synced or observation.busy or _may_be_unlabelled(record, observation):
        return record
    if record.pod_uid:
        return _ended(record, record.ending or Outcome.GONE, None, now)
    if observation.create_unconfirmed and record.ending is not None:
        return record
    return _without_pod(record, observation.rejection, now)


def act(record: TaskRecord, observation: Observation, now: float, settings: BackendSettings) -> NextCall:
    """Return the call that is due for a durable record."""
    if observation.busy:
        return NextCall(None, math.inf)
    steps = [_next_for_leftover_pod(pod, now, settings) for pod in observation.others]
    due = next((step for step in steps if step.call is not None), None)
    if due is not None:
        return due
    wake = min((step.wake for step in steps), default=math.inf)
    if record.final:
        step = (
            _next_for_leftover_pod(observation.pod, now, settings)
            if observation.pod is not None
            else NextCall(None, math.inf)
        )
    elif observation.pod is not None:
        step = _next_for_current_pod(record, observation.pod, now, settings)
    elif _may_be_unlabelled(record, observation) or (observation.create_unconfirmed and record.ending is not None):
        step = NextCall(Get(), math.inf)
    elif _may_create(record, observation):
        step = NextCall(CreatePod(), math.inf) if now >= record.attempt_at else NextCall(None, record.attempt_at)
    else:
        step = NextCall(None, math.inf)
    return NextCall(step.call, min(step.wake, wake, _next_limit(record, now)))


def _may_be_unlabelled(record: TaskRecord, observation: Observation) -> bool:
    """Return True if the attempt's pod has disappeared without being deleted, and may exist without its label."""
    existed = bool(record.pod_uid) or observation.deleted is not None
    return existed and observation.synced and not observation.absence_confirmed


def _may_create(record: TaskRecord, observation: Observation) -> bool:
    """Return True if the attempt's pod is missing and no other pod of the task is running."""
    if record.pod_uid or record.ending is not None or not observation.synced:
        return False
    if observation.rejection is not None and not observation.rejection.retriable:
        return False
    return all(pod.stopped for pod in observation.others)


def _with_requested_end(record: TaskRecord, now: float) -> TaskRecord:
    """Set `ending` if the task was killed or its deadline has passed."""
    if record.killing:
        ending: Outcome | None = Outcome.KILLED
    else:
        ending = Outcome.DEADLINE if now >= _deadline(record) else record.ending
    if ending == record.ending:
        return record
    return _changed(record, ending=ending)


def _with_pod(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> TaskRecord:
    if pod.stopped:
        return _ended(_with_pod_status(record, pod), outcome_of(pod, record.ending), pod, now)
    record = _with_pod_status(record, pod)
    if record.ending is not None:
        return record
    if pod.deleting:
        lost = pod.delete_at is not None and now >= pod.delete_at + settings.lost_seconds
        return _changed(record, ending=Outcome.NODE_LOST) if lost else record
    failure = _startup_failure(record, pod, now, settings)
    if failure is not None:
        return _changed(record, ending=failure, reason=failure.value, message=pod.message or pod.unschedulable)
    return record


def _with_pod_status(record: TaskRecord, pod: PodState) -> TaskRecord:
    """Copy the status of a live pod into the record. A running attempt never returns to Pending."""
    running = pod.phase == "Running" or record.phase is TaskPhase.RUNNING
    phase = TaskPhase.RUNNING if running else TaskPhase.PENDING
    started = record.started_at if record.started_at is not None or not running else pod.started_at
    before = (record.phase, record.pod_uid, record.node)
    reason, message = _waiting_reason(record, pod, running=running)
    # A new message alone is no update: a scheduler rewrites it with every attempt.
    if before == (phase, pod.uid, pod.node or record.node) and reason == record.reason:
        return record
    return _changed(
        record,
        phase=phase,
        pod_uid=pod.uid,
        node=pod.node or record.node,
        started_at=started,
        reason=reason,
        message=message,
        exit_code=None,
    )


def _waiting_reason(record: TaskRecord, pod: PodState, *, running: bool) -> tuple[str, str]:
    """Return reason and message: why the pod does not run yet, or why it is being ended."""
    if record.ending is not None:
        return record.reason, record.message
    if running:
        return "", ""
    reason = pod.waiting or (Outcome.UNSCHEDULABLE.value if pod.unschedulable else "")
    return reason, (pod.message or pod.unschedulable) if reason else ""


def _startup_failure(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> Outcome | None:
    started_for = now - pod.started_at if pod.started_at is not None else 0.0
    failure = startup_failure(pod, started_for, settings.image_seconds)
    if failure is not None:
        return failure
    if pod.phase != "Pending" or record.phase is TaskPhase.RUNNING:
        return None
    if now < _pending_since(record, pod) + record.spec.pending_seconds:
        return None
    if pod.waiting in IMAGE_ERRORS:
        return Outcome.IMAGE
    return Outcome.STUCK if pod.node else Outcome.UNSCHEDULABLE


def _without_pod(record: TaskRecord, rejection: CreateRejection | None, now: float) -> TaskRecord:
    """Return the record of an attempt without a pod: none was observed and no create is in flight."""
    if record.ending is not None:
        return _ended(record, record.ending, None, now)
    if rejection is None:
        return record
    if not rejection.retriable or now >= rejection.since + record.spec.pending_seconds:
        return _ended(record, rejection.outcome, None, now, rejection.message)
    if record.reason != rejection.outcome:
        return _changed(record, reason=rejection.outcome.value, message=rejection.message)
    return record


def _ended(record: TaskRecord, outcome: Outcome, pod: PodState | None, now: float, message: str = "") -> TaskRecord:
    """End the attempt: make the task final or begin its next attempt."""
    kind = OUTCOME_INFO[outcome].kind
    failures = {**record.failures, kind.value: record.failures.get(kind.value, 0) + 1}
    recorded = record.message if record.ending is outcome and record.reason == outcome.value else ""
    pod_message = pod.message if pod is not None else ""
    fields: dict[str, object] = {
        "reason": outcome.value,
        "message": message or recorded or pod_message or OUTCOME_INFO[outcome].description,
        "exit_code": pod.exit_code if pod is not None else None,
    }
    if pod is not None:
        fields |= {"node": pod.node, "pod_uid": pod.uid}
    retry = failures[kind.value] <= record.spec.retry.allowed(kind) and now < _deadline(record)
    if retry and not record.killing:
        return _next_attempt(record, failures, fields, now)
    phase = TaskPhase.FAILED
    if outcome in (Outcome.SUCCEEDED, Outcome.KILLED):
        phase = TaskPhase.SUCCEEDED if outcome is Outcome.SUCCEEDED else TaskPhase.KILLED
        failures = record.failures
    started = record.started_at if record.started_at is not None or pod is None else pod.started_at
    finished = pod.finished_at if pod is not None and pod.finished_at is not None else now
    return _changed(record, phase=phase, finished_at=finished, started_at=started, failures=failures, **fields)


def _next_attempt(record: TaskRecord, failures: dict[str, int], fields: dict[str, object], now: float) -> TaskRecord:
    """Return the record of the next attempt, with the updated spec if there is one."""
    fresh = {"pod_uid": "", "node": "", "started_at": None, "ending": None, "phase": TaskPhase.SUBMITTED}
    return _changed(
        record,
        **{**fields, **fresh},
        spec=record.next_spec or record.spec,
        next_spec=None,
        attempt=record.attempt + 1,
        attempt_at=now + record.spec.retry.pause(record.attempt),
        failures=failures,
    )


def _next_for_leftover_pod(pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    """Return the next call for a pod that is no longer needed."""
    if pod.stopped:
        return NextCall(ReleasePod(pod), math.inf)
    return _stop(pod, now, settings)


def _next_for_current_pod(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    """Return the next call for the pod of the current attempt."""
    if record.ending is not None or pod.deleting:
        return _stop(pod, now, settings)
    limits = [_pending_since(record, pod) + record.spec.pending_seconds if pod.phase == "Pending" else math.inf]
    if pod.started_at is not None and pod.waiting:
        limits.append(pod.started_at + settings.image_seconds)
    return NextCall(None, min((at for at in limits if at > now), default=math.inf))


def _stop(pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    if not pod.deleting:
        return NextCall(DeletePod(pod, settings.kill_grace_seconds), math.inf)
    lost_at = (pod.delete_at if pod.delete_at is not None else now) + settings.lost_seconds
    return NextCall(DeletePod(pod, 0), math.inf) if now >= lost_at else NextCall(None, lost_at)


def _pending_since(record: TaskRecord, pod: PodState) -> float:
    """Return the start of the pending limit: time before the pod existed (the backend may have been down) is free."""
    return max(record.attempt_at, pod.created_at or 0.0)


def _next_limit(record: TaskRecord, now: float) -> float:
    deadline = _deadline(record)
    return deadline if not record.final and deadline > now else math.inf


def _deadline(record: TaskRecord) -> float:
    limit = record.spec.deadline_seconds
    return record.submitted_at + limit if limit is not None else math.inf


def _changed(record: TaskRecord, **changes: object) -> TaskRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **changes)
