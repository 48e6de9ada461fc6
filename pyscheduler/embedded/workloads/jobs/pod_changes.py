"""Pods that an unfinished Job creates and deletes."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.actions import Action, Create, Delete
from pyscheduler.embedded.workloads.jobs.backoff import Failures, index_backoff_ends_at
from pyscheduler.embedded.workloads.jobs.finish_reason import is_suspended
from pyscheduler.embedded.workloads.jobs.job_state import JobState, limit_per_index
from pyscheduler.embedded.workloads.jobs.pods import (
    NO_INDEX,
    completions_of,
    index_of,
    is_indexed,
    remove_finalizer_action,
    replaces_only_failed,
)
from pyscheduler.embedded.workloads.jobs.template import count_failures, pod_of, pod_of_index
from pyscheduler.embedded.workloads.objects import is_ready, key_of, uid_of
from pyscheduler.embedded.workloads.replicaset import MAX_POD_CHANGES_PER_SYNC, deletion_order
from pyscheduler.kube.paths import PODS


class PodChanges(NamedTuple):
    """Actions on pods, the counts after them, and the time of the next sync if a backoff delays a pod."""

    actions: list[Action]
    active: int
    ready: int
    terminating: int
    requeue_at: float = math.inf


def keep_pods(view: JobState) -> PodChanges:
    """Return the current counts without any change."""
    return _delete_pods(view, [], counted=False)


def delete_active_pods(view: JobState) -> PodChanges:
    """Delete all active pods of a finished Job; they keep the finalizer until they are counted."""
    return _delete_pods(view, view.active, counted=True)


def manage_pods(view: JobState, failures: Failures, base_seconds: float, now: float) -> PodChanges:
    """Delete surplus pods, or else create missing ones as far as backoffs allow."""
    if is_suspended(view.job):
        return _delete_pods(view, view.active, counted=False)
    wanted = _wanted(view)
    surplus = _surplus(view, max(0, len(view.active) - wanted))[:MAX_POD_CHANGES_PER_SYNC]
    if surplus:
        return _delete_pods(view, surplus, counted=False)
    missing = wanted - len(view.active) - (len(view.terminating) if replaces_only_failed(view.job) else 0)
    if missing <= 0:
        return keep_pods(view)
    backoff_ends = -math.inf if limit_per_index(view.job) is not None else failures.backoff_ends_at(base_seconds)
    if now < backoff_ends:
        return keep_pods(view)._replace(requeue_at=backoff_ends)
    return _create_missing(view, min(missing, MAX_POD_CHANGES_PER_SYNC), base_seconds, now)


def _delete_pods(view: JobState, pods: list[Json], *, counted: bool) -> PodChanges:
    actions = [
        Delete(
            PODS,
            key_of(pod),
            uid_of(pod),
            pre_patch=None if counted else remove_finalizer_action(pod),
            event_object=view.job,
        )
        for pod in pods
    ]
    return PodChanges(
        [*actions],
        len(view.active) - len(pods),
        sum(map(is_ready, view.active)) - sum(map(is_ready, pods)),
        len(view.terminating) + len(pods),
    )


def _wanted(view: JobState) -> int:
    parallelism = view.job["spec"].get("parallelism")
    parallelism = 1 if parallelism is None else int(parallelism)
    completions = completions_of(view.job)
    if completions is None:
        # A work queue: after the first success no pod is replaced; those that run may finish.
        return len(view.active) if view.succeeded else parallelism
    return max(0, min(parallelism, completions - view.succeeded))


def _surplus(view: JobState, least: int) -> list[Json]:
    """Return at least `least` pods; of an indexed Job also those with an invalid or a duplicate index."""
    kept, surplus = view.active, []
    if is_indexed(view.job):
        by_index: dict[int, list[Json]] = {}
        for pod in view.active:
            by_index.setdefault(index_of(pod), []).append(pod)
        kept = []
        for index, pods in sorted(by_index.items()):
            is_valid = NO_INDEX < index < (completions_of(view.job) or 0)
            ordered = deletion_order(pods)
            surplus += ordered[:-1] if is_valid else ordered
            kept += ordered[-1:] if is_valid else []
    return surplus + deletion_order(kept)[: max(0, least - len(surplus))]


def _create_missing(view: JobState, count: int, base_seconds: float, now: float) -> PodChanges:
    job, unchanged = view.job, keep_pods(view)
    if not is_indexed(job):
        return _create_pods(unchanged, job, [pod_of(job) for _ in range(count)])
    pending = _pending(view, count)
    if limit_per_index(job) is None:
        return _create_pods(unchanged, job, [pod_of_index(job, index) for index in pending])
    times = {index: index_backoff_ends_at(view.replaced_pods.get(index), base_seconds) for index in pending}
    due = [index for index in pending if times[index] <= now]
    if not due:
        return unchanged._replace(requeue_at=min(times.values(), default=math.inf))
    pods = [pod_of_index(job, index) for index in due]
    for pod in pods:
        count_failures(pod, job, view.replaced_pods.get(index_of(pod)))
    later = [at for at in times.values() if at > now]
    return _create_pods(unchanged, job, pods)._replace(requeue_at=min(later, default=math.inf))


def _create_pods(unchanged: PodChanges, job: Json, pods: list[Json]) -> PodChanges:
    return unchanged._replace(
        actions=[Create(PODS, pod, event_object=job, failure_object=job) for pod in pods],
        active=unchanged.active + len(pods),
    )


def _pending(view: JobState, count: int) -> list[int]:
    """Return the lowest indexes that are neither finished nor in progress."""
    busy = [*view.active, *(view.terminating if replaces_only_failed(view.job) else ())]
    taken = view.done | (view.failed_indexes or set()) | {index_of(pod) for pod in busy}
    free = (index for index in range(completions_of(view.job) or 0) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]
