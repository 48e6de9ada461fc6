"""Counting of finished pods, each exactly once.

A pod is created with a finalizer. When it has finished, its uid is written to `status.uncountedTerminatedPods` (for a
success of an indexed Job, its index to `completedIndexes`); only then is the finalizer removed; and only when that is
observed does the uid move to the counts `succeeded` or `failed`. So no pod is lost or counted twice, even if the
controller crashes in between or a client deletes the pod. kube-controller-manager does several of these steps in one
sync; here each step is a sync of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.jobs.finish_reason import SUCCESS_MET, FinishReason
from pyscheduler.embedded.workloads.jobs.job_state import JobState
from pyscheduler.embedded.workloads.jobs.pods import (
    has_valid_index,
    index_of,
    is_failed,
    is_indexed,
    is_tracked,
)
from pyscheduler.embedded.workloads.jobs.policies import match_failure_policy
from pyscheduler.embedded.workloads.objects import is_deleting, phase, status_number, uid_of

MAX_UNCOUNTED_PODS = 500
"""Maximum of uids in the status, which keeps it small."""


class JobCounts(NamedTuple):
    """New counts of the status, and the pods that may then lose their finalizers."""

    succeeded: int
    failed: int
    done: set[int]
    uncounted_succeeded: list[str]
    uncounted_failed: list[str]
    finalizers_to_remove: list[Json]

    @property
    def is_fully_counted(self) -> bool:
        """True if no pod waits to be counted."""
        return not (self.uncounted_succeeded or self.uncounted_failed or self.finalizers_to_remove)


def count_ended_pods(view: JobState, end: FinishReason | None) -> JobCounts:
    """Record pods that have finished, and count those that have lost their finalizers since the last sync."""
    tracked = {uid_of(pod) for pod in view.pods if is_tracked(pod)}
    succeeded = [uid for uid in view.uncounted_succeeded if uid in tracked]
    failed = [uid for uid in view.uncounted_failed if uid in tracked]
    removed = len(view.uncounted_succeeded) - len(succeeded), len(view.uncounted_failed) - len(failed)
    done, finalizers_to_remove = set(view.recorded), []
    for pod in sorted((p for p in view.pods if is_tracked(p)), key=index_of):
        if not _can_remove_finalizer(view, pod, end):
            continue
        finalizers_to_remove.append(pod)
        _record_ended_pod(view, pod, end, (succeeded, failed, done))
        if len(succeeded) + len(failed) + len(done) - len(view.recorded) >= MAX_UNCOUNTED_PODS:
            break
    return JobCounts(
        len(done) if is_indexed(view.job) else status_number(view.job, "succeeded") + removed[0],
        status_number(view.job, "failed") + removed[1],
        done,
        succeeded,
        failed,
        finalizers_to_remove,
    )


def _can_remove_finalizer(view: JobState, pod: Json, end: FinishReason | None) -> bool:
    if is_deleting(view.job) or end is not None or phase(pod) == "Succeeded":
        return True
    to_replace = view.replaced_pods.get(index_of(pod))
    return is_failed(pod, view.job) and (to_replace is None or uid_of(to_replace) != uid_of(pod))


def _record_ended_pod(
    view: JobState, pod: Json, end: FinishReason | None, records: tuple[list[str], list[str], set[int]]
) -> None:
    """Record a pod before its finalizer is removed, unless it is recorded already or does not count."""
    succeeded, failed, done = records
    uid, job = uid_of(pod), view.job
    # In a failed Job every unfinished pod counts as failed.
    lost = is_failed(pod, job) or (end is not None and end.interim_condition != SUCCESS_MET)
    if phase(pod) == "Succeeded" and uid not in view.uncounted_failed:
        if not is_indexed(job):
            succeeded += [] if uid in succeeded else [uid]
        elif has_valid_index(pod, job):
            done.add(index_of(pod))
    elif lost and uid not in failed and has_valid_index(pod, job) and match_failure_policy(job, pod).counts:
        failed.append(uid)
