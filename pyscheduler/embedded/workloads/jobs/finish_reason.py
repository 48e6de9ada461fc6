"""Finish reasons of a Job. A recorded reason is final; failure is checked before success."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.objects import Json, condition, dig, seconds
from pyscheduler.embedded.workloads.jobs.job_state import JobState
from pyscheduler.embedded.workloads.jobs.pods import completions_of, is_failed, is_indexed
from pyscheduler.embedded.workloads.jobs.policies import FAIL_JOB, match_failure_policy, match_success_policy
from pyscheduler.embedded.workloads.objects import phase

SUCCESS_MET, COMPLETE, FAILURE_TARGET, FAILED = "SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"


class FinishReason(NamedTuple):
    """Reason why a Job is finished.

    `interim_condition` is set at once, `final_condition` when all pods have terminated and are counted.
    """

    interim_condition: str
    reason: str
    message: str

    @property
    def final_condition(self) -> str:
        return COMPLETE if self.interim_condition == SUCCESS_MET else FAILED


COMPLETED = FinishReason(SUCCESS_MET, "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY = FinishReason(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = FinishReason(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES = FinishReason(
    FAILURE_TARGET, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_INDEXES_FAILED = FinishReason(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")


def has_condition(job: Json, kind: str) -> bool:
    """Return True if the Job has the condition with status True."""
    return bool(condition(job, kind).get("status") == "True")


def is_finished(job: Json) -> bool:
    """Return True if the Job is Complete or Failed."""
    return has_condition(job, COMPLETE) or has_condition(job, FAILED)


def is_suspended(job: Json) -> bool:
    """Return spec.suspend."""
    return bool(job["spec"].get("suspend"))


def find_finish_reason(view: JobState, started: float | None, now: float) -> FinishReason | None:
    """Return why the Job is finished, except for reached completions, which depend on the pod changes of this sync."""
    return _recorded_finish_reason(view.job) or _failure(view, started, now) or _indexed(view)


def deadline(job: Json, started: float | None) -> float:
    """Return the time of activeDeadlineSeconds, math.inf if there is none."""
    limit = job["spec"].get("activeDeadlineSeconds")
    return math.inf if limit is None or started is None or is_suspended(job) else started + int(limit)


def started_at(job: Json) -> float | None:
    """Return status.startTime in seconds since 1970, None if it is not set."""
    return seconds(dig(job, "status", "startTime"))


def _recorded_finish_reason(job: Json) -> FinishReason | None:
    for first in (SUCCESS_MET, FAILURE_TARGET):
        if has_condition(job, first):
            found = condition(job, first)
            return FinishReason(first, str(found.get("reason", "")), str(found.get("message", "")))
    return None


def _failure(view: JobState, started: float | None, now: float) -> FinishReason | None:
    job = view.job
    for pod in view.pods if job["spec"].get("podFailurePolicy") else ():
        if is_failed(pod, job) and (match := match_failure_policy(job, pod)).action == FAIL_JOB:
            return FinishReason(FAILURE_TARGET, "PodFailurePolicy", match.message)
    limit = job["spec"].get("backoffLimit")
    limit = 6 if limit is None else int(limit)
    if view.failed > limit or _restarts(view) >= max(1, limit):
        return _TOO_MANY
    return _TOO_LONG if now >= deadline(job, started) else None


def _restarts(view: JobState) -> int:
    """Return the container restarts, which count as failures if the restart policy is OnFailure, else 0."""
    if view.job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return 0
    return sum(
        int(status.get("restartCount") or 0)
        for pod in view.pods
        if phase(pod) in ("Running", "Pending")
        for field in ("initContainerStatuses", "containerStatuses")
        for status in dig(pod, "status", field) or ()
    )


def _indexed(view: JobState) -> FinishReason | None:
    if not is_indexed(view.job):
        return None
    completions = completions_of(view.job) or 0
    if view.failed_indexes:
        most = view.job["spec"].get("maxFailedIndexes")
        if most is not None and len(view.failed_indexes) > int(most):
            return _TOO_MANY_INDEXES
        if len(view.failed_indexes) + len(view.done) >= completions:
            return _INDEXES_FAILED
    met = match_success_policy(view.job, view.done, completions)
    return FinishReason(SUCCESS_MET, "SuccessPolicy", met) if met else None
