"""State of a Job in one sync: its pods by status, and the counts derived from them and the Job's status."""

from __future__ import annotations

from dataclasses import dataclass

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.workloads.jobs.indexes import expand
from pyscheduler.embedded.workloads.jobs.pods import (
    completions_of,
    finished_at,
    has_valid_index,
    index_failures,
    index_ignored,
    index_of,
    is_failed,
    is_indexed,
    is_terminating,
    is_tracked,
)
from pyscheduler.embedded.workloads.jobs.policies import FAIL_INDEX, match_failure_policy
from pyscheduler.embedded.workloads.objects import is_active, phase, status_number, uid_of


@dataclass(frozen=True)
class JobState:
    """`new_*` are finished pods not yet in the status; `uncounted_*` are uids in it that still have the finalizer.

    Uids move on to the counts once the finalizer is removed.
    """

    job: Json
    pods: list[Json]
    active: list[Json]
    terminating: list[Json]
    new_succeeded: list[Json]
    new_failed: list[Json]
    uncounted_succeeded: list[str]
    uncounted_failed: list[str]
    succeeded: int
    failed: int
    recorded: set[int]
    """Completed indexes in the status."""
    done: set[int]
    """`recorded` and the indexes that have succeeded since."""
    failed_indexes: set[int] | None
    """None unless the Job has a limit per index."""
    replaced_pods: dict[int, Json]
    """Last failed pod of each index that waits for its next pod, which inherits the failure count."""


def observe_job(job: Json, pods: list[Json]) -> JobState:
    """Return the state of a Job that is not finished."""
    waiting = dig(job, "status", "uncountedTerminatedPods") or {}
    uncounted_succeeded, uncounted_failed = list(waiting.get("succeeded") or ()), list(waiting.get("failed") or ())
    valid = [pod for pod in pods if is_tracked(pod) and has_valid_index(pod, job)]
    new_succeeded = [p for p in valid if phase(p) == "Succeeded" and uid_of(p) not in uncounted_succeeded]
    new_failed = [p for p in valid if is_failed(p, job) and uid_of(p) not in uncounted_failed]
    counting = sum(match_failure_policy(job, pod).counts for pod in new_failed)
    active = [pod for pod in pods if is_active(pod)]
    recorded, done, failed = _indexes(job, valid)
    succeeded = status_number(job, "succeeded") + len(new_succeeded) + len(uncounted_succeeded)
    return JobState(
        job=job,
        pods=pods,
        active=active,
        terminating=[pod for pod in pods if is_terminating(pod)],
        new_succeeded=new_succeeded,
        new_failed=new_failed,
        uncounted_succeeded=uncounted_succeeded,
        uncounted_failed=uncounted_failed,
        succeeded=len(done) if is_indexed(job) else succeeded,
        failed=status_number(job, "failed") + counting + len(uncounted_failed),
        recorded=recorded,
        done=done,
        failed_indexes=failed,
        replaced_pods=_pods_to_replace(job, valid, active, done | failed) if failed is not None else {},
    )


def limit_per_index(job: Json) -> int | None:
    """Return spec.backoffLimitPerIndex, None if it is not set."""
    limit = job["spec"].get("backoffLimitPerIndex")
    return None if limit is None else int(limit)


def _indexes(job: Json, valid: list[Json]) -> tuple[set[int], set[int], set[int] | None]:
    """Return the recorded, the completed and the failed indexes; failed is None without a limit per index."""
    if not is_indexed(job):
        return set(), set(), None
    completions = completions_of(job) or 0
    recorded = expand(dig(job, "status", "completedIndexes") or "", completions)
    done = recorded | {index_of(pod) for pod in valid if phase(pod) == "Succeeded"}
    limit = limit_per_index(job)
    if limit is None:
        return recorded, done, None
    known = expand(dig(job, "status", "failedIndexes") or "", completions)
    return recorded, done, known | {index_of(pod) for pod in valid if _fails_index(job, pod, limit)}


def _fails_index(job: Json, pod: Json, limit: int) -> bool:
    if not is_failed(pod, job):
        return False
    match = match_failure_policy(job, pod)
    return match.action == FAIL_INDEX or (match.counts and index_failures(pod) >= limit)


def _pods_to_replace(job: Json, valid: list[Json], active: list[Json], over: set[int]) -> dict[int, Json]:
    taken = over | {index_of(pod) for pod in active}
    pods: dict[int, Json] = {}
    for pod in valid:
        index = index_of(pod)
        if is_failed(pod, job) and index not in taken:
            pods[index] = max((pod, pods.get(index, pod)), key=_generation)
    return pods


def _generation(pod: Json) -> tuple[int, float]:
    return index_failures(pod) + index_ignored(pod), finished_at(pod)
