"""Task decisions: pure functions of a task's record, its observed pods and the time.

`observe` returns the new record, which is made durable before anything else happens; `act` returns the one API call
that is due then. Both are idempotent and depend on nothing else, so a process killed between any two steps repeats the
decision after its restart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pyscheduler.backend.outcomes import OUTCOME_INFO, Outcome
from pyscheduler.backend.pod_outcome import CRASH_LOOP, IMAGE_ERRORS, container_outcome, outcome_of, startup_failure
from pyscheduler.backend.pods import PodState, PodTimes
from pyscheduler.backend.rejections import CreateRejection
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.task import TaskPhase, TaskRecord, UpdatePolicy


class Get(NamedTuple):
    """Read the pod of an attempt to find out if it exists; `uid` is "" if it is not known."""

    attempt: int
    uid: str


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
    gone: frozenset[str] = frozenset()
    """Uids of pods that are deleted or released."""
    missing: tuple[Get, ...] = ()
    """Reads of pods that were to be released and are neither gone nor observed: they may have lost their label."""
    rejection: CreateRejection | None = None
    times: Mapping[str, PodTimes] = {}
    """Times of the pods' states, by uid."""

    def times_of(self, pod: PodState, now: float) -> PodTimes:
        """Return the times of the pod's states, `now` for all of them if the pod is new."""
        times = self.times.get(pod.uid)
        return times if times is not None else PodTimes(observed=now).after(pod, now)


class CreatePod(NamedTuple):
    """Create the attempt's pod, with its gang's PodGroup where that is needed."""


class DeletePod(NamedTuple):
    """Delete the pod; `grace` in seconds, None for the pod's own, 0 to force."""

    pod: PodState
    grace: int | None


class ReleasePod(NamedTuple):
    """Remove the finalizer of a pod with a recorded end, and delete the pod."""

    pod: PodState


Call = CreatePod | DeletePod | ReleasePod | Get


class NextCall(NamedTuple):
    """Call that is due, if any, and the latest time of the next decision (math.inf: at the next event)."""

    call: Call | None
    wake: float


def observe(record: TaskRecord, observation: Observation, now: float, settings: BackendSettings) -> TaskRecord:
    """Return the record that follows from the observation; the given object if nothing has changed."""
    if record.final:
        pods_left = observation.pod is not None or observation.others or observation.missing
        if record.cleaned or pods_left or observation.busy or not observation.synced:
            return record
        return msgspec.structs.replace(record, cleaned=True, unreleased={})
    record = _with_requested_end(_without_gone(record, observation), now)
    if observation.pod is not None:
        return _with_pod(record, observation.pod, observation.times_of(observation.pod, now), now, settings)
    deleted = observation.deleted
    # A pod is deleted once it has no finalizer; one that a watch reports with it has lost its label.
    is_deleted = deleted is not None and (deleted.deleting or deleted.stopped) and not deleted.has_finalizer
    if deleted is not None and (is_deleted or observation.absence_confirmed):
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
    steps = [_next_for_leftover_pod(pod, observation.times_of(pod, now), now, settings) for pod in observation.others]
    due = next((step for step in steps if step.call is not None), None)
    if due is not None:
        return due
    if observation.missing and observation.synced:
        return NextCall(observation.missing[0], math.inf)
    wake = min((step.wake for step in steps), default=math.inf)
    pod = observation.pod
    if record.final and pod is not None:
        step = _next_for_leftover_pod(pod, observation.times_of(pod, now), now, settings)
    elif pod is not None:
        step = _next_for_current_pod(record, pod, observation.times_of(pod, now), now, settings)
    elif record.final:
        step = NextCall(None, math.inf)
    elif _may_be_unlabelled(record, observation) or (observation.create_unconfirmed and record.ending is not None):
        step = NextCall(Get(record.attempt, record.pod_uid), math.inf)
    elif _may_create(record, observation):
        step = NextCall(CreatePod(), math.inf) if _is_due(record, now) else NextCall(None, record.attempt_at)
    else:
        step = NextCall(None, math.inf)
    return NextCall(step.call, min(step.wake, wake, _next_limit(record, observation.rejection, now)))


def _is_due(record: TaskRecord, now: float) -> bool:
    """Return True once the backoff is over; also if it is longer than any, because the clock was set back."""
    return now >= record.attempt_at or record.attempt_at - now > record.spec.retry.longest_backoff_seconds


def _may_be_unlabelled(record: TaskRecord, observation: Observation) -> bool:
    """Return True if the attempt's pod has disappeared without being deleted, and may exist without its label."""
    existed = bool(record.pod_uid) or observation.deleted is not None
    return existed and observation.synced and not observation.absence_confirmed


def _without_gone(record: TaskRecord, observation: Observation) -> TaskRecord:
    """Remove the ended pods that are gone."""
    left = {uid: attempt for uid, attempt in record.unreleased.items() if uid not in observation.gone}
    return record if len(left) == len(record.unreleased) else msgspec.structs.replace(record, unreleased=left)


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


def _with_pod(record: TaskRecord, pod: PodState, times: PodTimes, now: float, settings: BackendSettings) -> TaskRecord:
    no_scheduler = _is_untried(pod) and now >= times.observed + settings.scheduler_seconds
    record = _with_pod_status(record, pod, Outcome.NO_SCHEDULER if no_scheduler else None)
    if pod.stopped:
        return _ended(record, outcome_of(pod, record.ending), pod, now, exists=True)
    if record.ending is not None:
        return record
    if pod.deleting:
        return _changed(record, ending=Outcome.NODE_LOST) if now >= _lost_at(pod, times, settings) else record
    if times.main_ended is not None and now >= times.main_ended + settings.sidecar_seconds:
        return _changed(record, ending=container_outcome(pod), message=pod.message)
    failure = _startup_failure(record, pod, times, now, settings)
    if failure is not None:
        message = pod.message or pod.unschedulable or OUTCOME_INFO[failure].description
        return _changed(record, ending=failure, reason=failure.value, message=message)
    return record


def _is_untried(pod: PodState) -> bool:
    """Return True if no scheduler has set a condition on a pod that one could place."""
    return pod.phase == "Pending" and not (pod.node or pod.unschedulable or pod.gated)


def _lost_at(pod: PodState, times: PodTimes, settings: BackendSettings) -> float:
    """Return the time at which a pod that is being deleted counts as lost."""
    return (times.deleting if times.deleting is not None else math.inf) + pod.grace + settings.lost_seconds


def _with_pod_status(record: TaskRecord, pod: PodState, untried: Outcome | None = None) -> TaskRecord:
    """Copy the status of a live pod into the record. A running attempt never returns to Pending."""
    running = pod.phase == "Running" or record.phase is TaskPhase.RUNNING
    phase = TaskPhase.RUNNING if running else TaskPhase.PENDING
    started = _started_at(record, pod) if running else record.started_at
    before = (record.phase, record.pod_uid, record.node)
    reason, message = _waiting_reason(record, pod, untried, running=running)
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


def _started_at(record: TaskRecord, pod: PodState) -> float | None:
    """Return the start that the record has, else that of the pod."""
    return _in_attempt(record, pod.started_at) if record.started_at is None else record.started_at


def _in_attempt(record: TaskRecord, at: float | None) -> float | None:
    """Return a time of the pod, not before the attempt: pods have whole seconds, and those of the node's clock."""
    return None if at is None else max(at, record.attempt_at)


def _waiting_reason(record: TaskRecord, pod: PodState, untried: Outcome | None, *, running: bool) -> tuple[str, str]:
    """Return reason and message: why the pod does not run yet, or why it is being ended."""
    if record.ending is not None:
        return record.reason, record.message
    if running:
        return (pod.waiting, pod.message) if pod.waiting == CRASH_LOOP else ("", "")
    if untried is not None:
        return untried.value, OUTCOME_INFO[untried].description
    if pod.gated:
        return "SchedulingGated", pod.gate_message or "the pod has scheduling gates"
    reason = pod.waiting or (Outcome.UNSCHEDULABLE.value if pod.unschedulable else "")
    return reason, (pod.message or pod.unschedulable) if reason else ""


def _startup_failure(
    record: TaskRecord, pod: PodState, times: PodTimes, now: float, settings: BackendSettings
) -> Outcome | None:
    started_for = now - times.accepted if times.accepted is not None else 0.0
    failure = startup_failure(pod, started_for, settings)
    if failure is not None:
        return failure
    if pod.phase != "Pending" or record.phase is TaskPhase.RUNNING or now < _start_limit(record, pod, times):
        return None
    if pod.waiting in IMAGE_ERRORS:
        return Outcome.IMAGE
    if pod.node:
        return Outcome.STUCK
    return Outcome.NO_SCHEDULER if _is_untried(pod) else Outcome.UNSCHEDULABLE


def _start_limit(record: TaskRecord, pod: PodState, times: PodTimes) -> float:
    """Return the time by which a pending pod must have a node, or have started; math.inf if there is none.

    Waiting for room counts from the first attempt of a scheduler: a gated pod, or one whose gang is incomplete, cannot
    be placed yet. Without any scheduler it counts from the creation.
    """
    if times.bound is not None:
        return times.bound + record.spec.start_seconds
    since = times.observed if _is_untried(pod) else times.tried
    limit = record.spec.pending_seconds
    return since + limit if since is not None and limit is not None else math.inf


def _without_pod(record: TaskRecord, rejection: CreateRejection | None, now: float) -> TaskRecord:
    """Return the record of an attempt without a pod: none was observed and no create is in flight."""
    if record.ending is not None:
        return _ended(record, record.ending, None, now)
    if rejection is None:
        return record
    if not rejection.retriable or now >= _rejection_limit(record, rejection):
        return _ended(record, rejection.outcome, None, now, rejection.message)
    if record.reason != rejection.outcome:
        return _changed(record, reason=rejection.outcome.value, message=rejection.message)
    return record


def _rejection_limit(record: TaskRecord, rejection: CreateRejection) -> float:
    """Return the time until which creates are retried. A quota is waiting for room, other rejections are not."""
    limit = record.spec.pending_seconds
    if limit is None:
        limit = math.inf if rejection.outcome is Outcome.QUOTA else record.spec.start_seconds
    return rejection.since + limit


def _ended(
    record: TaskRecord,
    outcome: Outcome,
    pod: PodState | None,
    now: float,
    message: str = "",
    *,
    exists: bool = False,
) -> TaskRecord:
    """End the attempt: make the task final or begin its next attempt. `exists`: the pod is still to be released."""
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
    if pod is not None and exists:
        fields["unreleased"] = {**record.unreleased, pod.uid: record.attempt}
    retry = failures[kind.value] <= record.spec.retry.allowed(kind) and now < _deadline(record)
    if retry and not record.killing:
        return _next_attempt(record, failures, fields, now)
    if outcome in (Outcome.SUCCEEDED, Outcome.KILLED):
        failures = record.failures
    if record.next_spec is not None:
        if _runs_update(record, outcome, now):
            return _next_attempt(record, failures, fields, now)
        fields["message"] = f"{fields['message']}; its updated spec was not run"
    phase = {Outcome.SUCCEEDED: TaskPhase.SUCCEEDED, Outcome.KILLED: TaskPhase.KILLED}.get(outcome, TaskPhase.FAILED)
    started, finished = record.started_at, None
    if pod is not None:
        started, finished = _started_at(record, pod), _in_attempt(record, pod.finished_at)
    return _changed(
        record,
        phase=phase,
        finished_at=now if finished is None else finished,
        started_at=started,
        failures=failures,
        **fields,
    )


def _runs_update(record: TaskRecord, outcome: Outcome, now: float) -> bool:
    """Return True if the end of the attempt begins the next one only because the spec was updated meanwhile."""
    spec = record.next_spec
    is_stopped = record.killing or outcome in (Outcome.KILLED, Outcome.DEADLINE) or now >= _deadline(record)
    return spec is not None and spec.update_policy is UpdatePolicy.RUN and not is_stopped


def _next_attempt(record: TaskRecord, failures: dict[str, int], fields: dict[str, object], now: float) -> TaskRecord:
    """Return the record of the next attempt, with the updated spec if there is one."""
    fresh = {"pod_uid": "", "node": "", "started_at": None, "ending": None, "phase": TaskPhase.SUBMITTED}
    return _changed(
        record,
        **{**fields, **fresh},
        spec=record.next_spec or record.spec,
        next_spec=None,
        attempt=record.attempt + 1,
        attempt_at=now + (0.0 if failures == record.failures else record.spec.retry.pause(record.attempt)),
        failures=failures,
    )


def _next_for_leftover_pod(pod: PodState, times: PodTimes, now: float, settings: BackendSettings) -> NextCall:
    """Return the next call for a pod that is no longer needed."""
    if not pod.stopped:
        return _stop(pod, times, now, settings)
    if pod.phase == "Failed" and not pod.deleting and times.stopped is not None:
        kept_until = times.stopped + settings.keep_failed_seconds
        if now < kept_until:
            return NextCall(None, kept_until)
    return NextCall(ReleasePod(pod), math.inf)


def _next_for_current_pod(
    record: TaskRecord, pod: PodState, times: PodTimes, now: float, settings: BackendSettings
) -> NextCall:
    """Return the next call for the pod of the current attempt."""
    if record.ending is not None or pod.deleting:
        return _stop(pod, times, now, settings)
    limits = [_start_limit(record, pod, times) if pod.phase == "Pending" else math.inf]
    if _is_untried(pod):
        limits.append(times.observed + settings.scheduler_seconds)
    if times.accepted is not None and pod.waiting:
        limits.append(times.accepted + settings.image_seconds)
    if times.main_ended is not None:
        limits.append(times.main_ended + settings.sidecar_seconds)
    return NextCall(None, min((at for at in limits if at > now), default=math.inf))


def _stop(pod: PodState, times: PodTimes, now: float, settings: BackendSettings) -> NextCall:
    if not pod.deleting:
        return NextCall(DeletePod(pod, settings.kill_grace_seconds), math.inf)
    lost_at = _lost_at(pod, times, settings)
    return NextCall(DeletePod(pod, 0), math.inf) if now >= lost_at else NextCall(None, lost_at)


def _next_limit(record: TaskRecord, rejection: CreateRejection | None, now: float) -> float:
    """Return the next time at which the task, or an attempt whose pod is rejected, reaches a limit."""
    if record.final:
        return math.inf
    limits = [_deadline(record), math.inf if rejection is None else _rejection_limit(record, rejection)]
    return min((at for at in limits if at > now), default=math.inf)


def _deadline(record: TaskRecord) -> float:
    limit = record.spec.deadline_seconds
    return record.submitted_at + limit if limit is not None else math.inf


def _changed(record: TaskRecord, **changes: object) -> TaskRecord:
    return msgspec.structs.replace(record, version=record.version + 1, **changes)
