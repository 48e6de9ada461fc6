"""The Job controller: pure functions from a Job and its pods to what has to be done."""

from pyscheduler.embedded.workloads.jobs.backoff import Failures
from pyscheduler.embedded.workloads.jobs.sync import Outcome, reconcile

__all__ = ["Failures", "Outcome", "reconcile"]
