"""One look at a Job: from what is seen to what has to be done. Follows kube-controller-manager's syncJob (1.36.3).

Left out, next to it: adoption and release of pods by label (only pods that it made are its own), slow-start batches,
the batching of looks to one a second, and the Workload and PodGroup of the alpha gate WorkloadWithJob.
"""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.embedded.client import JOBS, Json
from pyscheduler.embedded.objects import condition, dig, seconds, timestamp, without_nulls
from pyscheduler.embedded.workloads.actions import Action, Delete, Patch, Plan, Record
from pyscheduler.embedded.workloads.jobs.backoff import NO_FAILURES, Failures
from pyscheduler.embedded.workloads.jobs.indexes import compress
from pyscheduler.embedded.workloads.jobs.moves import Moves, move, rest, stop
from pyscheduler.embedded.workloads.jobs.pods import completions_of, is_indexed, is_tracked, untrack
from pyscheduler.embedded.workloads.jobs.tracking import Ledger, tally
from pyscheduler.embedded.workloads.jobs.verdict import (
    COMPLETE,
    COMPLETED,
    End,
    deadline,
    end_of,
    is_finished,
    is_suspended,
    is_true,
    started_at,
)
from pyscheduler.embedded.workloads.jobs.view import View, look_at
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, uid_of

_CONTROLLER = "kubernetes.io/job-controller"
_SUSPENDED = {True: ("JobSuspended", "Job suspended"), False: ("JobResumed", "Job resumed")}


class Outcome(NamedTuple):
    """The plan, and what the controller has to remember of failed pods once it is carried out."""

    plan: Plan
    failures: Failures


def reconcile(
    job: Json, pods: list[Json], now: float, failures: Failures = NO_FAILURES, backoff_seconds: float = 10.0
) -> Outcome:
    """What to do for a Job that owns `pods`. `backoff_seconds`: the wait after the first failure; it doubles."""
    if job["spec"].get("managedBy") not in (None, _CONTROLLER):
        return Outcome(Plan(), failures)
    if is_finished(job):
        return Outcome(_afterwards(job, pods, now), NO_FAILURES)
    view = look_at(job, pods)
    failures = failures.after(view.new_succeeded, view.new_failed)
    started = started_at(job)
    if started is None and not is_suspended(job):
        started = now
    end = end_of(view, started, now)
    moves = _moves(view, end, failures, (backoff_seconds, now))
    if end is None and _reached(view, moves):
        end = COMPLETED
    ledger = tally(view, end)
    status, records = _status(view, moves, ledger, end, now)
    actions = [*moves.actions, *_status_patch(job, status), *map(untrack, ledger.released), *records]
    again = moves.again if end is not None else min(moves.again, deadline(job, started))
    return Outcome(Plan(actions, again), failures)


def finish_time(job: Json) -> float:
    """When the Job became Complete or Failed."""
    kind = COMPLETE if is_true(job, COMPLETE) else "Failed"
    return seconds(condition(job, kind).get("lastTransitionTime")) or 0.0


def _afterwards(job: Json, pods: list[Json], now: float) -> Plan:
    """A finished Job lets go of what pods it still holds, and goes itself when its time is up."""
    actions: list[Action] = [untrack(pod) for pod in pods if is_tracked(pod)]
    keep = job["spec"].get("ttlSecondsAfterFinished")
    if keep is None or is_deleting(job):
        return Plan(actions)
    expires = finish_time(job) + int(keep)
    if now < expires:
        return Plan(actions, expires)
    return Plan([*actions, Delete(JOBS, key_of(job), uid_of(job))])


def _moves(view: View, end: End | None, failures: Failures, times: tuple[float, float]) -> Moves:
    if end is not None:
        return stop(view)
    return rest(view) if is_deleting(view.job) else move(view, failures, *times)


def _reached(view: View, moves: Moves) -> bool:
    """A Job is complete when it has its successes and nothing runs any more."""
    completions = completions_of(view.job)
    enough = view.succeeded > 0 if completions is None else view.succeeded >= completions
    return enough and moves.active == 0


def _status(view: View, moves: Moves, ledger: Ledger, end: End | None, now: float) -> tuple[Json, list[Record]]:
    """The whole status, and the Events that go with what is new in it."""
    job = view.job
    conditions: list[Json] = list(dig(job, "status", "conditions") or ())
    started, completed = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    records: list[Record] = []
    if started is None and not is_suspended(job):
        started = timestamp(now)
    if end is None and not is_deleting(job):
        suspended = is_suspended(job)
        turned = _set(conditions, "Suspended", suspended, _SUSPENDED[suspended], now)
        if turned:
            started = None if suspended else timestamp(now)
            words = ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")
            records.append(Record(job, *words))
    if end is not None:
        if not is_true(job, end.first):
            _set(conditions, end.first, True, end[1:], now)
        if ledger.settled and not moves.terminating and not moves.active:
            _set(conditions, end.last, True, end[1:], now)
            completed = timestamp(now) if end.last == COMPLETE else None
            records += _farewell(view, end)
    status = {
        "startTime": started,
        "completionTime": completed,
        "active": moves.active or None,
        "ready": moves.ready,
        "terminating": moves.terminating,
        "succeeded": ledger.succeeded or None,
        "failed": ledger.failed or None,
        "conditions": conditions or None,
        "uncountedTerminatedPods": {
            "succeeded": ledger.uncounted_succeeded or None,
            "failed": ledger.uncounted_failed or None,
        },
    }
    if is_indexed(job):
        status["completedIndexes"] = compress(ledger.done) or None
    if view.failed_indexes is not None:
        status["failedIndexes"] = compress(view.failed_indexes)
    return status, records


def _farewell(view: View, end: End) -> list[Record]:
    if end.last != COMPLETE:
        return [Record(view.job, end.reason, end.message, "Warning")]
    too_many = view.succeeded > (completions_of(view.job) or view.succeeded)
    words = "Too many succeeded pods running after completion count reached"
    excess = [Record(view.job, "TooManySucceededPods", words, "Warning")] if too_many else []
    return [*excess, Record(view.job, "Completed", "Job completed")]


def _set(conditions: list[Json], kind: str, true: bool, why: tuple[str, ...], now: float) -> bool:
    """Set a condition in place; whether anything changed. One that is not there and not true is not added."""
    at = next((n for n, found in enumerate(conditions) if found["type"] == kind), None)
    if at is None and not true:
        return False
    wanted = {"type": kind, "status": str(true), "reason": why[0], "message": why[1]}
    if at is not None and all(conditions[at].get(name) == value for name, value in wanted.items()):
        return False
    made = wanted | {"lastProbeTime": timestamp(now), "lastTransitionTime": timestamp(now)}
    if at is None:
        conditions.append(made)
    else:
        conditions[at] = made
    return True


def _status_patch(job: Json, wanted: Json) -> list[Action]:
    """Write what differs. The version guards the counts: a decision on an outdated copy is refused, and made anew."""
    present = job.get("status") or {}
    changed = {name: value for name, value in wanted.items() if present.get(name) != without_nulls(value)}
    if not changed:
        return []
    version = job["metadata"].get("resourceVersion", "")
    return [Patch(JOBS, key_of(job), {"metadata": {"resourceVersion": version}, "status": changed}, "status")]
