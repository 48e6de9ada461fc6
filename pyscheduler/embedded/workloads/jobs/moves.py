"""Which pods a Job that goes on makes and takes away."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.client import PODS, Json
from pyscheduler.embedded.workloads.actions import Action, Create, Delete
from pyscheduler.embedded.workloads.jobs.backoff import Failures, index_over_at
from pyscheduler.embedded.workloads.jobs.pods import (
    NO_INDEX,
    completions_of,
    index_of,
    is_indexed,
    replaces_only_failed,
    untrack,
)
from pyscheduler.embedded.workloads.jobs.template import count_failures, pod_of, pod_of_index
from pyscheduler.embedded.workloads.jobs.verdict import is_suspended
from pyscheduler.embedded.workloads.jobs.view import View, limit_per_index
from pyscheduler.embedded.workloads.objects import is_ready, key_of, uid_of
from pyscheduler.embedded.workloads.replicaset import first_to_go

MOST_AT_ONCE = 500
"""How many pods are made or taken in one look."""


class Moves(NamedTuple):
    """What to do with pods, the counts once it is done, and when to try again if a back-off holds a pod back."""

    actions: list[Action]
    active: int
    ready: int
    terminating: int
    again: float = math.inf


def rest(view: View) -> Moves:
    """Leave all as it is."""
    return _take(view, [], counted=False)


def stop(view: View) -> Moves:
    """Take away all that is active, because the Job is over: its pods are counted before they may go."""
    return _take(view, view.active, counted=True)


def move(view: View, failures: Failures, base_seconds: float, now: float) -> Moves:
    """The next step: take what is too much, or else make what is missing, as far as back-offs let."""
    if is_suspended(view.job):
        return _take(view, view.active, counted=False)
    wanted = _wanted(view)
    surplus = _surplus(view, max(0, len(view.active) - wanted))[:MOST_AT_ONCE]
    if surplus:
        return _take(view, surplus, counted=False)
    missing = wanted - len(view.active) - (len(view.terminating) if replaces_only_failed(view.job) else 0)
    if missing <= 0:
        return rest(view)
    held_back = -math.inf if limit_per_index(view.job) is not None else failures.over_at(base_seconds)
    if now < held_back:
        return rest(view)._replace(again=held_back)
    return _make(view, min(missing, MOST_AT_ONCE), base_seconds, now)


def _take(view: View, pods: list[Json], *, counted: bool) -> Moves:
    actions = [
        Delete(PODS, key_of(pod), uid_of(pod), before=None if counted else untrack(pod), teller=view.job)
        for pod in pods
    ]
    return Moves(
        [*actions],
        len(view.active) - len(pods),
        sum(map(is_ready, view.active)) - sum(map(is_ready, pods)),
        len(view.terminating) + len(pods),
    )


def _wanted(view: View) -> int:
    parallelism = view.job["spec"].get("parallelism")
    parallelism = 1 if parallelism is None else int(parallelism)
    completions = completions_of(view.job)
    if completions is None:
        # A work queue: the first success says that the work is done; whoever still runs may finish.
        return len(view.active) if view.succeeded else parallelism
    return max(0, min(parallelism, completions - view.succeeded))


def _surplus(view: View, least: int) -> list[Json]:
    """At least so many pods; of an indexed Job also those whose index is not theirs alone, or none at all."""
    kept, gone = view.active, []
    if is_indexed(view.job):
        by_index: dict[int, list[Json]] = {}
        for pod in view.active:
            by_index.setdefault(index_of(pod), []).append(pod)
        kept = []
        for index, pods in sorted(by_index.items()):
            alone = NO_INDEX < index < (completions_of(view.job) or 0)
            ordered = first_to_go(pods)
            gone += ordered[:-1] if alone else ordered
            kept += ordered[-1:] if alone else []
    return gone + first_to_go(kept)[: max(0, least - len(gone))]


def _make(view: View, count: int, base_seconds: float, now: float) -> Moves:
    job, still = view.job, rest(view)
    if not is_indexed(job):
        return _made(still, job, [pod_of(job) for _ in range(count)])
    pending = _pending(view, count)
    if limit_per_index(job) is None:
        return _made(still, job, [pod_of_index(job, index) for index in pending])
    times = {index: index_over_at(view.held.get(index), base_seconds) for index in pending}
    due = [index for index in pending if times[index] <= now]
    if not due:
        return still._replace(again=min(times.values(), default=math.inf))
    pods = [pod_of_index(job, index) for index in due]
    for pod in pods:
        count_failures(pod, job, view.held.get(index_of(pod)))
    later = [at for at in times.values() if at > now]
    return _made(still, job, pods)._replace(again=min(later, default=math.inf))


def _made(still: Moves, job: Json, pods: list[Json]) -> Moves:
    return still._replace(actions=[Create(PODS, pod, teller=job) for pod in pods], active=still.active + len(pods))


def _pending(view: View, count: int) -> list[int]:
    """The lowest indexes that are neither over nor worked on."""
    busy = [*view.active, *(view.terminating if replaces_only_failed(view.job) else ())]
    taken = view.done | (view.failed_indexes or set()) | {index_of(pod) for pod in busy}
    free = (index for index in range(completions_of(view.job) or 0) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]
