"""CronJob controller: cron schedules, and pure functions from a CronJob and its Jobs to actions."""

from pyscheduler.embedded.workloads.cron.sync import reconcile

__all__ = ["reconcile"]
