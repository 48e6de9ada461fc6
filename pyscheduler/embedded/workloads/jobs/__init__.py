"""Job controller: pure functions from a Job and its pods to actions."""

from pyscheduler.embedded.workloads.jobs.backoff import Failures
from pyscheduler.embedded.workloads.jobs.sync import Outcome, reconcile

__all__ = ["Failures", "Outcome", "reconcile"]
