"""The CronJob controller: schedules, and pure functions from a CronJob and its Jobs to what has to be done."""

from pyscheduler.embedded.workloads.cron.sync import reconcile

__all__ = ["reconcile"]
