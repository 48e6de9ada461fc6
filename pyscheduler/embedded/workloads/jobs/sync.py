"""Sync of one Job: from its observed state to actions. Follows kube-controller-manager's syncJob (1.36.3).

Not implemented: adoption and release of pods by label (it manages only pods that it created), slow-start batches,
the batching of syncs to one a second, and the Workload and PodGroup of the alpha gate WorkloadWithJob.
"""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.embedded.client import JOBS
from pyscheduler.embedded.objects import Json, condition, dig, seconds, timestamp, without_nulls
from pyscheduler.embedded.workloads.actions import Action, Delete, Patch, Plan, RecordAction
from pyscheduler.embedded.workloads.jobs.backoff import NO_FAILURES, Failures
from pyscheduler.embedded.workloads.jobs.finish_reason import (
    COMPLETE,
    COMPLETED,
    FinishReason,
    deadline,
    find_finish_reason,
    has_condition,
    is_finished,
    is_suspended,
    started_at,
)
from pyscheduler.embedded.workloads.jobs.indexes import compress
from pyscheduler.embedded.workloads.jobs.job_state import JobState, observe_job
from pyscheduler.embedded.workloads.jobs.pod_changes import PodChanges, delete_active_pods, keep_pods, manage_pods
from pyscheduler.embedded.workloads.jobs.pods import completions_of, is_indexed, is_tracked, remove_finalizer_action
from pyscheduler.embedded.workloads.jobs.tracking import JobCounts, count_ended_pods
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, uid_of

_CONTROLLER = "kubernetes.io/job-controller"
_SUSPENDED = {True: ("JobSuspended", "Job suspended"), False: ("JobResumed", "Job resumed")}


class JobSyncResult(NamedTuple):
    """The plan, and the failure record to keep once it is performed."""

    plan: Plan
    failures: Failures


def reconcile(
    job: Json,
    pods: list[Json],
    now: float,
    failures: Failures = NO_FAILURES,
    backoff_seconds: float = 10.0,
    missing: int = 0,
) -> JobSyncResult:
    """Return the outcome for a Job that owns `pods`. `backoff_seconds` is the initial backoff; it doubles.

    The status does not count as active the `missing` pods, whose creation the API server has rejected.
    """
    if job["spec"].get("managedBy") not in (None, _CONTROLLER):
        return JobSyncResult(Plan(), failures)
    if is_finished(job):
        return JobSyncResult(_sync_finished_job(job, pods, now), NO_FAILURES)
    view = observe_job(job, pods)
    failures = failures.after(view.new_succeeded, view.new_failed)
    started = started_at(job)
    if started is None and not is_suspended(job):
        started = now
    end = find_finish_reason(view, started, now)
    changes = _pod_changes(view, end, failures, (backoff_seconds, now))
    changes = changes._replace(active=max(len(view.active), changes.active - missing)) if missing else changes
    if end is None and _is_complete(view, changes):
        end = COMPLETED
    counts = count_ended_pods(view, end)
    status, records = _status(view, changes, counts, end, now)
    actions = [
        *changes.actions,
        *_status_patch(job, status),
        *map(remove_finalizer_action, counts.finalizers_to_remove),
        *records,
    ]
    requeue_at = changes.requeue_at if end is not None else min(changes.requeue_at, deadline(job, started))
    return JobSyncResult(Plan(actions, requeue_at), failures)


def finish_time(job: Json) -> float:
    """Return when the Job became Complete or Failed."""
    kind = COMPLETE if has_condition(job, COMPLETE) else "Failed"
    return seconds(condition(job, kind).get("lastTransitionTime")) or 0.0


def _sync_finished_job(job: Json, pods: list[Json], now: float) -> Plan:
    """Remove the finalizers of a finished Job's pods; delete the Job after ttlSecondsAfterFinished."""
    actions: list[Action] = [remove_finalizer_action(pod) for pod in pods if is_tracked(pod)]
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or is_deleting(job):
        return Plan(actions)
    expires = finish_time(job) + int(ttl)
    if now < expires:
        return Plan(actions, expires)
    return Plan([*actions, Delete(JOBS, key_of(job), uid_of(job))])


def _pod_changes(
    view: JobState, end: FinishReason | None, failures: Failures, times: tuple[float, float]
) -> PodChanges:
    if end is not None:
        return delete_active_pods(view)
    return keep_pods(view) if is_deleting(view.job) else manage_pods(view, failures, *times)


def _is_complete(view: JobState, changes: PodChanges) -> bool:
    """Return True if the Job has its successes and no active pods."""
    completions = completions_of(view.job)
    enough = view.succeeded > 0 if completions is None else view.succeeded >= completions
    return enough and changes.active == 0


def _status(
    view: JobState, changes: PodChanges, counts: JobCounts, end: FinishReason | None, now: float
) -> tuple[Json, list[RecordAction]]:
    """Return the whole status, and the Events for its changes."""
    job = view.job
    conditions: list[Json] = list(dig(job, "status", "conditions") or ())
    started, completed = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    records: list[RecordAction] = []
    if started is None and not is_suspended(job):
        started = timestamp(now)
    if end is None and not is_deleting(job):
        suspended = is_suspended(job)
        changed = _set(conditions, "Suspended", suspended, _SUSPENDED[suspended], now)
        if changed:
            started = None if suspended else timestamp(now)
            words = ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")
            records.append(RecordAction(job, *words))
    if end is not None:
        if not has_condition(job, end.interim_condition):
            _set(conditions, end.interim_condition, True, end[1:], now)
        if counts.is_fully_counted and not changes.terminating and not changes.active:
            _set(conditions, end.final_condition, True, end[1:], now)
            completed = timestamp(now) if end.final_condition == COMPLETE else None
            records += _finish_events(view, end)
    status = {
        "startTime": started,
        "completionTime": completed,
        "active": changes.active or None,
        "ready": changes.ready,
        "terminating": changes.terminating,
        "succeeded": counts.succeeded or None,
        "failed": counts.failed or None,
        "conditions": conditions or None,
        "uncountedTerminatedPods": {
            "succeeded": counts.uncounted_succeeded or None,
            "failed": counts.uncounted_failed or None,
        },
    }
    if is_indexed(job):
        status["completedIndexes"] = compress(counts.done) or None
    if view.failed_indexes is not None:
        status["failedIndexes"] = compress(view.failed_indexes)
    return status, records


def _finish_events(view: JobState, end: FinishReason) -> list[RecordAction]:
    if end.final_condition != COMPLETE:
        return [RecordAction(view.job, end.reason, end.message, "Warning")]
    too_many = view.succeeded > (completions_of(view.job) or view.succeeded)
    words = "Too many succeeded pods running after completion count reached"
    excess = [RecordAction(view.job, "TooManySucceededPods", words, "Warning")] if too_many else []
    return [*excess, RecordAction(view.job, "Completed", "Job completed")]


def _set(conditions: list[Json], kind: str, true: bool, why: tuple[str, ...], now: float) -> bool:
    """Set a condition in place; return True if it changed. A missing condition that is not true is not added."""
    at = next((n for n, found in enumerate(conditions) if found["type"] == kind), None)
    if at is None and not true:
        return False
    wanted = {"type": kind, "status": str(true), "reason": why[0], "message": why[1]}
    if at is not None and all(conditions[at].get(name) == value for name, value in wanted.items()):
        return False
    updated = wanted | {"lastProbeTime": timestamp(now), "lastTransitionTime": timestamp(now)}
    if at is None:
        conditions.append(updated)
    else:
        conditions[at] = updated
    return True


def _status_patch(job: Json, wanted: Json) -> list[Action]:
    """Return a patch of the status fields that differ.

    With resourceVersion as precondition the server rejects counts from a stale cache; then the sync is retried.
    """
    present = job.get("status") or {}
    changed = {name: value for name, value in wanted.items() if present.get(name) != without_nulls(value)}
    if not changed:
        return []
    version = job["metadata"].get("resourceVersion", "")
    return [Patch(JOBS, key_of(job), {"metadata": {"resourceVersion": version}, "status": changed}, "status")]
