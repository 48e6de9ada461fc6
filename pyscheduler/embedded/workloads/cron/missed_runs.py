"""Missed runs of a CronJob, as in kube-controller-manager's mostRecentScheduleTime (1.36.3)."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.objects import Json, dig, seconds
from pyscheduler.embedded.workloads.cron.schedule import Schedule, ScheduleError

MISSED_RUNS_WARNING = 100
"""Number of missed runs above which a warning Event is recorded."""
PADDING_SECONDS = 0.1
"""Delay of the next sync after the scheduled time, for clock differences (nextScheduleDelta)."""


class MissedRun(NamedTuple):
    """Last run that is due (None: no run is due), counted from `since`, and the number of missed runs."""

    since: float
    at: float | None = None
    missed: int = 0


def most_recent(cron_job: Json, schedule: Schedule, now: float, *, within_deadline: bool) -> MissedRun:
    """Return the last run that is due at `now`. ScheduleError if the schedule has no runs."""
    meta = cron_job["metadata"]
    since = seconds(dig(cron_job, "status", "lastScheduleTime")) or seconds(meta.get("creationTimestamp")) or 0.0
    limit = cron_job["spec"].get("startingDeadlineSeconds")
    if within_deadline and limit is not None:
        since = max(since, now - int(limit))
    first = schedule.next_after(since)
    second = schedule.next_after(first) if first < math.inf else math.inf
    if now < first < math.inf:
        return MissedRun(since)
    if first == math.inf:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < second:
        return MissedRun(since, first)
    gap = second - first
    missed = int((now - first) // gap) + 1
    found, at = None, schedule.next_after(first + (missed - 2) * gap)
    while at <= now:
        found, at = at, schedule.next_after(at)
    return MissedRun(since, found, missed)


def next_requeue_time(cron_job: Json, schedule: Schedule, now: float) -> float:
    """Return the next scheduled time of the CronJob, plus padding."""
    try:
        due = most_recent(cron_job, schedule, now, within_deadline=False)
    except ScheduleError:
        return schedule.next_after(now) + PADDING_SECONDS
    last = due.at if due.at is not None else (now if due.missed else due.since)
    return schedule.next_after(last) + PADDING_SECONDS
