"""Building blocks of hollow nodes and workload controllers, as in client-go: informer, work queue, background tasks."""

from pyscheduler.embedded.client.informer import Informer
from pyscheduler.embedded.client.kinds import CRONJOBS, DEPLOYMENTS, JOBS, REPLICASETS
from pyscheduler.embedded.client.tasks import Tasks
from pyscheduler.embedded.client.workqueue import WorkQueue

__all__ = ["CRONJOBS", "DEPLOYMENTS", "JOBS", "REPLICASETS", "Informer", "Tasks", "WorkQueue"]
