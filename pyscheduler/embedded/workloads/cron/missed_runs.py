"""Which run of a CronJob is due. Follows kube-controller-manager's mostRecentScheduleTime (1.36.3)."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.client import Json
from pyscheduler.embedded.objects import dig, seconds
from pyscheduler.embedded.workloads.cron.schedule import Schedule, ScheduleError

MISSED_RUNS_WARNING = 100
"""More missed runs than these are worth a warning."""
PADDING_SECONDS = 0.1
"""The next look comes a little after the time, so that clocks that differ a little miss nothing."""


class MissedRun(NamedTuple):
    """The last run whose time has come (None: none has), counted from `since`, and how many were missed."""

    since: float
    at: float | None = None
    missed: int = 0


def most_recent(cron_job: Json, schedule: Schedule, now: float, *, within_deadline: bool) -> MissedRun:
    """The last run that should have begun. ScheduleError for a schedule that has no runs."""
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
    """When the CronJob is due next, with a little on top."""
    try:
        due = most_recent(cron_job, schedule, now, within_deadline=False)
    except ScheduleError:
        return schedule.next_after(now) + PADDING_SECONDS
    last = due.at if due.at is not None else (now if due.missed else due.since)
    return schedule.next_after(last) + PADDING_SECONDS
