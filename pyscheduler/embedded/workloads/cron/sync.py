"""Sync of one CronJob: Jobs to create and to delete. Follows kube-controller-manager's sync (1.36.3).

A schedule without timeZone is in UTC. Active Jobs are derived from the Jobs themselves, so that no other state can
disagree with them.
"""

from __future__ import annotations

from datetime import datetime

from pyscheduler.embedded.client import CRONJOBS, JOBS
from pyscheduler.embedded.objects import Json, dig, seconds, timestamp, without_nulls
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, Plan, RecordAction
from pyscheduler.embedded.workloads.cron.missed_runs import (
    MISSED_RUNS_WARNING,
    MissedRun,
    most_recent,
    next_requeue_time,
)
from pyscheduler.embedded.workloads.cron.schedule import MINUTE, Schedule, ScheduleError, parse, time_zone
from pyscheduler.embedded.workloads.jobs.finish_reason import COMPLETE, has_condition, is_finished
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, owned_by, uid_of

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_STILL_RUNS = "Not starting job because prior execution is running and concurrency policy is Forbid"


def reconcile(cron_job: Json, jobs: list[Json], now: float) -> Plan:
    """Return the actions for a CronJob that owns `jobs`."""
    active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
    actions: list[Action] = [*_clean_up_history(cron_job, jobs), *_finished_job_events(cron_job, jobs)]
    if is_deleting(cron_job):
        return Plan(actions + _status(cron_job, jobs, active, None))
    schedule, warnings = _schedule(cron_job)
    if schedule is None or cron_job["spec"].get("suspend"):
        return Plan(actions + warnings + _status(cron_job, jobs, active, None))
    try:
        due = most_recent(cron_job, schedule, now, within_deadline=True)
    except ScheduleError as problem:
        text = f"invalid schedule: {cron_job['spec']['schedule']} : {problem}"
        warning = RecordAction(cron_job, "InvalidSchedule", text, "Warning")
        return Plan([*actions, warning, *_status(cron_job, jobs, active, None)])
    started, changes = _start(cron_job, jobs, active, due)
    replaced = {change.uid for change in changes if isinstance(change, Delete)}
    status = _status(cron_job, jobs, [job for job in active if uid_of(job) not in replaced], started)
    # With the time of this run in the status, the next sync is for the run after it.
    updated = {**cron_job, "status": {**(cron_job.get("status") or {}), **_last(started)}}
    return Plan(actions + changes + status, next_requeue_time(updated, schedule, now))


def _schedule(cron_job: Json) -> tuple[Schedule | None, list[Action]]:
    """Return the schedule, or a warning Event if it is invalid."""
    spec = cron_job["spec"]
    zone, text = spec.get("timeZone") or "", spec["schedule"]
    try:
        time_zone(zone)
    except ScheduleError as problem:
        return None, [RecordAction(cron_job, "UnknownTimeZone", f'invalid timeZone: "{zone}": {problem}', "Warning")]
    try:
        return parse(text, zone), []
    except ScheduleError as problem:
        words = f'unparseable schedule: "{text}" : {problem}'
        return None, [RecordAction(cron_job, "UnparseableSchedule", words, "Warning")]


def _start(cron_job: Json, jobs: list[Json], active: list[Json], due: MissedRun) -> tuple[float | None, list[Action]]:
    """Start the run that is due unless the concurrency policy forbids it; return its time, None if not started."""
    last = seconds(dig(cron_job, "status", "lastScheduleTime"))
    if due.at is None or due.at == last:
        return None, []
    warnings: list[Action] = (
        [RecordAction(cron_job, "TooManyMissedTimes", _TOO_MANY, "Warning")] if due.missed > MISSED_RUNS_WARNING else []
    )
    name = f"{cron_job['metadata']['name']}-{int(due.at) // MINUTE}"
    if any(job["metadata"]["name"] == name for job in jobs):
        return due.at, []  # the Job was created, but the status update failed
    policy = cron_job["spec"].get("concurrencyPolicy")
    if policy == "Forbid" and active:
        return None, [*warnings, RecordAction(cron_job, "JobAlreadyActive", _STILL_RUNS)]
    replaced = [_delete(cron_job, job) for job in active] if policy == "Replace" else []
    create = Create(JOBS, _job(cron_job, name, due.at), event_object=cron_job, ignore_already_exists=True)
    return due.at, [*warnings, *replaced, create]


def _job(cron_job: Json, name: str, at: float) -> Json:
    template = cron_job["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    local = datetime.fromtimestamp(at, time_zone(cron_job["spec"].get("timeZone") or ""))
    stamp = local.isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron_job["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED_AT: stamp},
            "ownerReferences": [owned_by(cron_job, "CronJob", "batch/v1")],
        },
        "spec": template["spec"],
    }


def _delete(cron_job: Json, job: Json) -> Delete:
    return Delete(JOBS, key_of(job), uid_of(job), event_object=cron_job)


def _clean_up_history(cron_job: Json, jobs: list[Json]) -> list[Action]:
    """Delete finished Jobs beyond the history limits, the oldest first."""
    actions: list[Action] = []
    for field, good in (("successfulJobsHistoryLimit", True), ("failedJobsHistoryLimit", False)):
        limit = cron_job["spec"].get(field)
        ended = [j for j in jobs if is_finished(j) and not is_deleting(j) and has_condition(j, COMPLETE) == good]
        if limit is not None and len(ended) > int(limit):
            ended.sort(key=_age)
            actions += [_delete(cron_job, job) for job in ended[: len(ended) - int(limit)]]
    return actions


def _age(job: Json) -> tuple[float, str]:
    started = seconds(dig(job, "status", "startTime"))
    return (float("inf") if started is None else started), job["metadata"]["name"]


def _finished_job_events(cron_job: Json, jobs: list[Json]) -> list[Action]:
    """Return Events for Jobs that the status lists as active but that are finished or missing."""
    by_uid = {uid_of(job): job for job in jobs}
    events: list[Action] = []
    for reference in dig(cron_job, "status", "active") or ():
        job = by_uid.get(reference["uid"])
        if job is None:
            events.append(RecordAction(cron_job, "MissingJob", f"Active job went missing: {reference['name']}"))
        elif is_finished(job):
            kind = COMPLETE if has_condition(job, COMPLETE) else "Failed"
            words = f"Saw completed job: {reference['name']}, condition: {kind}"
            events.append(RecordAction(cron_job, "SawCompletedJob", words))
    return events


def _status(cron_job: Json, jobs: list[Json], active: list[Json], started: float | None) -> list[Action]:
    """Return a patch of the status fields that differ, with resourceVersion as precondition against a stale cache."""
    present = cron_job.get("status") or {}
    ends = [seconds(dig(job, "status", "completionTime")) for job in jobs if has_condition(job, COMPLETE)]
    last = max([at for at in (*ends, seconds(present.get("lastSuccessfulTime"))) if at is not None], default=None)
    wanted = {
        "active": sorted(map(_reference, active), key=lambda ref: str(ref["name"])) or None,
        "lastSuccessfulTime": None if last is None else timestamp(last),
        **_last(started),
    }
    changed = {name: value for name, value in wanted.items() if present.get(name) != without_nulls(value)}
    if not changed:
        return []
    version = cron_job["metadata"].get("resourceVersion", "")
    patch = {"metadata": {"resourceVersion": version}, "status": changed}
    return [Patch(CRONJOBS, key_of(cron_job), patch, "status")]


def _last(started: float | None) -> Json:
    return {} if started is None else {"lastScheduleTime": timestamp(started)}


def _reference(job: Json) -> Json:
    """Return a reference without resourceVersion, so that it does not change with the Job."""
    namespace, name = key_of(job)
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": namespace, "uid": uid_of(job)}
