"""Job controller: pure functions from a Job and its pods to actions."""

from pyscheduler.embedded.workloads.jobs.backoff import Failures
from pyscheduler.embedded.workloads.jobs.sync import JobSyncResult, reconcile

__all__ = ["Failures", "JobSyncResult", "reconcile"]
