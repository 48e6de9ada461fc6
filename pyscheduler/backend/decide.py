"""What becomes of a task, and what is to be done about it: pure functions of its record, what is seen, and the time.

`observe` says what the record should be; it is written down before anything is done. `act` says the one call that is
due then. Both may be asked at any time and any number of times: nothing but record and observation decides, so a process that
was killed between any two steps goes on with the same answer.
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
    """The API server does not take the pod; `retriable` if it may take it later (a quota, or rights not granted yet)."""

    outcome: Outcome
    message: str
    since: float
    retriable: bool


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All that is seen of a task's pods."""

    synced: bool = True
    """Whether pods that are not seen do not exist."""
    pod: PodState | None = None
    """The attempt's."""
    deleted: PodState | None = None
    """The attempt's as it was last; it exists no more."""
    others: tuple[PodState, ...] = ()
    """Of earlier attempts, or not the one that the record means: not wanted."""
    busy: bool = False
    """A call about the task is under way: a pod may come to be that is not seen yet."""
    create_unconfirmed: bool = False
    """A create got no answer, so the pod may exist unseen."""
    rejection: CreateRejection | None = None


class Create(NamedTuple):
    """Create the attempt's pod, with its gang's PodGroup where that is needed."""


class Delete(NamedTuple):
    """Ask for the pod's deletion; `grace` None is as its template says, 0 by force."""

    pod: PodState
    grace: int | None


class Release(NamedTuple):
    """Let go of a pod whose end is on record: the finalizer off, and deleted."""

    pod: PodState


class Get(NamedTuple):
    """Ask whether the attempt's pod exists."""


Call = Create | Delete | Release | Get


class NextCall(NamedTuple):
    """The call that is due, or when to ask again at the latest (math.inf: when something happens)."""

    call: Call | None
    wake: float


def observe(record: TaskRecord, observation: Observation, now: float, settings: BackendSettings) -> TaskRecord:
    """What the record should be; the same object if nothing has changed."""
    if record.final:
        left = observation.busy or not observation.synced or observation.pod is not None or observation.others
        return record if left or record.cleaned else msgspec.structs.replace(record, cleaned=True)
    record = _wanted_end(record, now)
    if observation.pod is not None:
        return _with_pod(record, observation.pod, now, settings)
    if observation.deleted is not None:
        return _ended(record, outcome_of(observation.deleted, record.ending), observation.deleted, now)
    if not observation.synced or observation.busy:
        return record
    if record.pod_uid:
        return _ended(record, record.ending or Outcome.GONE, None, now)
    if observation.create_unconfirmed and record.ending is not None:
        return record
    return _without_pod(record, observation.rejection, now)


def act(record: TaskRecord, observation: Observation, now: float, settings: BackendSettings) -> NextCall:
    """What is to be done about a record that is durable."""
    if observation.busy:
        return NextCall(None, math.inf)
    found = [_next_for_leftover_pod(pod, now, settings) for pod in observation.others]
    due = next((step for step in found if step.call is not None), None)
    if due is not None:
        return due
    wake = min((step.wake for step in found), default=math.inf)
    if record.final:
        step = (
            _next_for_leftover_pod(observation.pod, now, settings)
            if observation.pod is not None
            else NextCall(None, math.inf)
        )
    elif observation.pod is not None:
        step = _next_for_current_pod(record, observation.pod, now, settings)
    elif observation.create_unconfirmed and record.ending is not None:
        step = NextCall(Get(), math.inf)
    elif _may_create(record, observation):
        step = NextCall(Create(), math.inf) if now >= record.attempt_at else NextCall(None, record.attempt_at)
    else:
        step = NextCall(None, math.inf)
    return NextCall(step.call, min(step.wake, wake, _next_limit(record, now)))


def _may_create(record: TaskRecord, observation: Observation) -> bool:
    """Whether the attempt's pod is missing and nothing of the task runs that would be doubled by it."""
    if record.pod_uid or record.ending is not None or not observation.synced:
        return False
    if observation.rejection is not None and not observation.rejection.retriable:
        return False
    return all(pod.stopped for pod in observation.others)


def _wanted_end(record: TaskRecord, now: float) -> TaskRecord:
    """With the reason for which the attempt is to end, if the owner or the deadline wants its end."""
    if record.killing:
        wanted: Outcome | None = Outcome.KILLED
    else:
        wanted = Outcome.DEADLINE if now >= _deadline(record) else record.ending
    if wanted == record.ending:
        return record
    return _changed(record, ending=wanted)


def _with_pod(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> TaskRecord:
    if pod.stopped:
        return _ended(_with_pod_status(record, pod), outcome_of(pod, record.ending), pod, now)
    record = _with_pod_status(record, pod)
    if record.ending is not None:
        return record
    if pod.deleting:
        lost = pod.delete_at is not None and now >= pod.delete_at + settings.lost_seconds
        return _changed(record, ending=Outcome.NODE_LOST) if lost else record
    hopeless = _startup_failure(record, pod, now, settings)
    if hopeless is not None:
        return _changed(record, ending=hopeless, reason=hopeless.value, message=pod.message or pod.unschedulable)
    return record


def _with_pod_status(record: TaskRecord, pod: PodState) -> TaskRecord:
    """With what a living pod tells. A task that runs never goes back to Pending within an attempt."""
    running = pod.phase == "Running" or record.phase is TaskPhase.RUNNING
    phase = TaskPhase.RUNNING if running else TaskPhase.PENDING
    started = record.started_at if record.started_at is not None or not running else pod.started_at
    known = (record.phase, record.pod_uid, record.node)
    word, message = _waiting_reason(record, pod, running=running)
    # Only a change of the word counts: a scheduler rewrites its message with every attempt.
    if known == (phase, pod.uid, pod.node or record.node) and word == record.reason:
        return record
    return _changed(
        record,
        phase=phase,
        pod_uid=pod.uid,
        node=pod.node or record.node,
        started_at=started,
        reason=word,
        message=message,
        exit_code=None,
    )


def _waiting_reason(record: TaskRecord, pod: PodState, *, running: bool) -> tuple[str, str]:
    """Why it does not run yet, as a word and a sentence; once its end is decided, why that is."""
    if record.ending is not None:
        return record.reason, record.message
    if running:
        return "", ""
    word = pod.waiting or (Outcome.UNSCHEDULABLE.value if pod.unschedulable else "")
    return word, (pod.message or pod.unschedulable) if word else ""


def _startup_failure(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> Outcome | None:
    started_for = now - pod.started_at if pod.started_at is not None else 0.0
    found = startup_failure(pod, started_for, settings.image_seconds)
    if found is not None:
        return found
    if pod.phase != "Pending" or record.phase is TaskPhase.RUNNING:
        return None
    if now < _pending_since(record, pod) + record.spec.pending_seconds:
        return None
    if pod.waiting in IMAGE_ERRORS:
        return Outcome.IMAGE
    return Outcome.STUCK if pod.node else Outcome.UNSCHEDULABLE


def _without_pod(record: TaskRecord, rejection: CreateRejection | None, now: float) -> TaskRecord:
    """No pod of this attempt has ever been seen, and none is about to come."""
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
    """The attempt is over: the task is final, or goes on to the next attempt."""
    blame = OUTCOME_INFO[outcome].kind
    failures = {**record.failures, blame.value: record.failures.get(blame.value, 0) + 1}
    kept = record.message if record.ending is outcome and record.reason == outcome.value else ""
    said = message or kept or (pod.message if pod is not None else "") or OUTCOME_INFO[outcome].description
    told: dict[str, object] = {
        "reason": outcome.value,
        "message": said,
        "exit_code": pod.exit_code if pod is not None else None,
    }
    if pod is not None:
        told |= {"node": pod.node, "pod_uid": pod.uid}
    again = failures[blame.value] <= record.spec.retry.allowed(blame) and now < _deadline(record)
    if again and not record.killing:
        return _next_attempt(record, failures, told, now)
    phase = TaskPhase.FAILED
    if outcome in (Outcome.SUCCEEDED, Outcome.KILLED):
        phase = TaskPhase.SUCCEEDED if outcome is Outcome.SUCCEEDED else TaskPhase.KILLED
        failures = record.failures
    started = record.started_at if record.started_at is not None or pod is None else pod.started_at
    finished = pod.finished_at if pod is not None and pod.finished_at is not None else now
    return _changed(record, phase=phase, finished_at=finished, started_at=started, failures=failures, **told)


def _next_attempt(record: TaskRecord, failures: dict[str, int], told: dict[str, object], now: float) -> TaskRecord:
    """The next attempt, made of what the owner wants by now."""
    fresh = {"pod_uid": "", "node": "", "started_at": None, "ending": None, "phase": TaskPhase.SUBMITTED}
    return _changed(
        record,
        **{**told, **fresh},
        spec=record.next_spec or record.spec,
        next_spec=None,
        attempt=record.attempt + 1,
        attempt_at=now + record.spec.retry.pause(record.attempt),
        failures=failures,
    )


def _next_for_leftover_pod(pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    """What to do about a pod that nobody needs any more."""
    if pod.stopped:
        return NextCall(Release(pod), math.inf)
    return _stop(pod, now, settings)


def _next_for_current_pod(record: TaskRecord, pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    """What to do about the pod of the attempt under way."""
    if record.ending is not None or pod.deleting:
        return _stop(pod, now, settings)
    limits = [_pending_since(record, pod) + record.spec.pending_seconds if pod.phase == "Pending" else math.inf]
    if pod.started_at is not None and pod.waiting:
        limits.append(pod.started_at + settings.image_seconds)
    return NextCall(None, min((at for at in limits if at > now), default=math.inf))


def _stop(pod: PodState, now: float, settings: BackendSettings) -> NextCall:
    if not pod.deleting:
        return NextCall(Delete(pod, settings.kill_grace_seconds), math.inf)
    lost_at = (pod.delete_at if pod.delete_at is not None else now) + settings.lost_seconds
    return NextCall(Delete(pod, 0), math.inf) if now >= lost_at else NextCall(None, lost_at)


def _pending_since(record: TaskRecord, pod: PodState) -> float:
    """Time that went by before there was a pod (we may have been away) does not count."""
    return max(record.attempt_at, pod.created_at or 0.0)


def _next_limit(record: TaskRecord, now: float) -> float:
    deadline = _deadline(record)
    return deadline if not record.final and deadline > now else math.inf


def _deadline(record: TaskRecord) -> float:
    limit = record.spec.deadline_seconds
    return record.submitted_at + limit if limit is not None else math.inf


def _changed(record: TaskRecord, **changes: object) -> TaskRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **changes)
