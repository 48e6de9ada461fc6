"""Job: runs pods until enough of them have succeeded, or too many have failed.

completions, parallelism, backoffLimit, Indexed completion mode (name, label and annotation carry the index),
activeDeadlineSeconds and suspend. Left out, next to kube-controller-manager: tracking finalizers (a finished pod that
somebody deletes is run again), podFailurePolicy, successPolicy, per-index back-off, podReplacementPolicy,
ttlSecondsAfterFinished, and the JOB_COMPLETION_INDEX variable, which no hollow container would read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.client import JOBS, PODS, Json
from pyscheduler.embedded.objects import condition, dig, seconds, timestamp
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Plan, status_patch
from pyscheduler.embedded.workloads.indexes import compress
from pyscheduler.embedded.workloads.objects import (
    is_active,
    is_deleting,
    is_ready,
    key_of,
    owned_by,
    phase,
    pod_from_template,
    uid_of,
    with_condition,
)
from pyscheduler.embedded.workloads.replicaset import first_to_go

INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF_MAX_SECONDS = 600.0


class _Tally(NamedTuple):
    active: list[Json]
    going: list[Json]
    """Deleted, and not gone yet."""
    succeeded: list[Json]
    failed: list[Json]


class _End(NamedTuple):
    """Why a Job is over: the condition that says so first, the one that follows when its pods are gone."""

    first: str
    last: str
    reason: str
    message: str


_COMPLETE = _End("SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY_FAILURES = _End(
    "FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
_TOO_LONG = _End("FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
_ENDS = (_COMPLETE, _TOO_MANY_FAILURES, _TOO_LONG)


def reconcile(job: Json, pods: list[Json], now: float, backoff_seconds: float = 10.0) -> Plan:
    """What to do for a Job that owns `pods`. `backoff_seconds`: the wait after the first failure; it doubles."""
    if is_deleting(job) or _has_condition(job, "Complete") or _has_condition(job, "Failed"):
        return Plan()
    tally = _count(pods)
    started = seconds(dig(job, "status", "startTime"))
    end = _end(job, tally, started, now)
    again = math.inf
    actions: list[Action] = []
    if end is not None or job["spec"].get("suspend"):
        actions += [Delete(PODS, key_of(pod), uid_of(pod)) for pod in tally.active]
    else:
        moves, again = _move(job, tally, now, backoff_seconds)
        actions += moves
        again = min(again, _deadline(job, started if started is not None else now))
    return Plan(actions + status_patch(JOBS, job, _status(job, tally, end, now)), again)


def _count(pods: list[Json]) -> _Tally:
    return _Tally(
        active=[pod for pod in pods if is_active(pod)],
        going=[pod for pod in pods if is_deleting(pod) and phase(pod) not in ("Succeeded", "Failed")],
        succeeded=[pod for pod in pods if phase(pod) == "Succeeded"],
        failed=[pod for pod in pods if phase(pod) == "Failed"],
    )


def _end(job: Json, tally: _Tally, started: float | None, now: float) -> _End | None:
    """Why the Job is over; None while it is not. What was found once stands."""
    for end in _ENDS:
        if _has_condition(job, end.first, end.reason):
            return end
    limit = job["spec"].get("backoffLimit")
    limit = 6 if limit is None else int(limit)
    if len(tally.failed) > limit or _restarts(tally.active) >= max(1, limit):
        return _TOO_MANY_FAILURES
    if started is not None and now >= _deadline(job, started):
        return _TOO_LONG
    completions = job["spec"].get("completions")
    if completions is not None:
        return _COMPLETE if _done(job, tally) >= int(completions) else None
    # A work queue: the first success says that the work is done, the pods still running may finish.
    return _COMPLETE if tally.succeeded and not tally.active else None


def _move(job: Json, tally: _Tally, now: float, backoff_seconds: float) -> tuple[list[Action], float]:
    """The pods to make or take, and when to try again if a failure holds them back."""
    wanted = _wanted_active(job, tally)
    surplus = len(tally.active) - wanted
    if surplus > 0:
        return [Delete(PODS, key_of(pod), uid_of(pod)) for pod in first_to_go(tally.active)[:surplus]], math.inf
    # Pods on their way out still hold their place, so that parallelism is never exceeded.
    missing = -surplus - len(tally.going)
    allowed = _backoff_over(tally, backoff_seconds)
    if missing <= 0 or now < allowed:
        return [], allowed if missing > 0 else math.inf
    if _is_indexed(job):
        taken = {_index(pod) for pod in (*tally.active, *tally.going, *tally.succeeded)}
        free = (index for index in range(int(job["spec"].get("completions") or 0)) if index not in taken)
        return [Create(PODS, _pod(job, index)) for index, _ in zip(free, range(missing), strict=False)], math.inf
    return [Create(PODS, _pod(job)) for _ in range(missing)], math.inf


def _wanted_active(job: Json, tally: _Tally) -> int:
    parallelism = job["spec"].get("parallelism")
    parallelism = 1 if parallelism is None else int(parallelism)
    completions = job["spec"].get("completions")
    if completions is not None:
        return min(parallelism, max(0, int(completions) - _done(job, tally)))
    return min(parallelism, len(tally.active)) if tally.succeeded else parallelism


def _done(job: Json, tally: _Tally) -> int:
    return len(_done_indexes(job, tally)) if _is_indexed(job) else len(tally.succeeded)


def _done_indexes(job: Json, tally: _Tally) -> set[int]:
    completions = int(job["spec"].get("completions") or 0)
    return {index for index in map(_index, tally.succeeded) if 0 <= index < completions}


def _backoff_over(tally: _Tally, backoff_seconds: float) -> float:
    """When a new pod may be made after the last failure; failures before the last success are forgiven."""
    failures = sorted(_finished(pod) for pod in tally.failed)
    last_success = max((_finished(pod) for pod in tally.succeeded), default=-math.inf)
    counted = [at for at in failures if at > last_success]
    if not counted:
        return -math.inf
    doubled: float = backoff_seconds * 2 ** min(len(counted) - 1, 30)
    return counted[-1] + min(doubled, BACKOFF_MAX_SECONDS)


def _finished(pod: Json) -> float:
    ends = [
        seconds(dig(status, "state", "terminated", "finishedAt"))
        for status in dig(pod, "status", "containerStatuses") or ()
    ]
    return max((at for at in ends if at is not None), default=seconds(dig(pod, "status", "startTime")) or 0.0)


def _restarts(pods: list[Json]) -> int:
    """Restarts in place count as failures where the restart policy is OnFailure."""
    return sum(
        int(status.get("restartCount") or 0)
        for pod in pods
        if pod["spec"].get("restartPolicy") == "OnFailure"
        for status in dig(pod, "status", "containerStatuses") or ()
    )


def _deadline(job: Json, started: float) -> float:
    limit = job["spec"].get("activeDeadlineSeconds")
    return math.inf if limit is None or job["spec"].get("suspend") else started + int(limit)


def _is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def _has_condition(job: Json, kind: str, reason: str = "") -> bool:
    found = condition(job, kind)
    return bool(found.get("status") == "True" and reason in ("", found.get("reason")))


def _pod(job: Json, index: int | None = None) -> Json:
    pod = pod_from_template(job, owned_by(job, "Job", "batch/v1"), job["spec"]["template"])
    name, uid = job["metadata"]["name"], uid_of(job)
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    if index is not None:
        own[INDEX] = str(index)
        pod["metadata"]["generateName"] = f"{name}-{index}-"
        pod["metadata"]["annotations"][INDEX] = str(index)
    pod["metadata"]["labels"].update(own)
    return pod


def _status(job: Json, tally: _Tally, end: _End | None, now: float) -> Json:
    conditions = dig(job, "status", "conditions") or []
    started = dig(job, "status", "startTime")
    suspended = bool(job["spec"].get("suspend"))
    if suspended or _has_condition(job, "Suspended"):
        words = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        conditions = with_condition(conditions, "Suspended", suspended, now, reason=words[0], message=words[1])
    over = end is not None and not tally.active and not tally.going
    if end is not None:
        conditions = with_condition(conditions, end.first, True, now, reason=end.reason, message=end.message)
    if end is not None and over:
        conditions = with_condition(conditions, end.last, True, now, reason=end.reason, message=end.message)
    # Null takes a field away and equals a field that is not there.
    return {
        "startTime": None if suspended else started or timestamp(now),
        "completionTime": timestamp(now) if over and end is _COMPLETE else None,
        "active": len(tally.active) or None,
        "ready": sum(is_ready(pod) for pod in tally.active),
        "terminating": len(tally.going),
        "succeeded": _done(job, tally) or None,
        "failed": len(tally.failed) or None,
        "completedIndexes": compress(_done_indexes(job, tally)) or None if _is_indexed(job) else None,
        "conditions": conditions or None,
    }
