"""Run a platform's jobs as pods, one pod per job: submit, kill, receive updates, read free resources. Survives kill -9.

budget = FixedBudget(Resources.of({"cpu": "100", "memory": "400Gi"}))
async with KubernetesClient("jobs", kubeconfig=path) as client:
    async with KubernetesTaskBackend(client, state, budget) as backend:
        await backend.submit(TaskSpec(id="nightly-7", image="busybox:1.37", command=("true",), cpu="500m"))
        async for record in backend.updates():
            ...
"""

from pyscheduler.api import ApiError
from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.blocking import BlockingTaskBackend
from pyscheduler.backend.client import KubernetesClient, PodsApi
from pyscheduler.backend.errors import (
    BackendProblem,
    BackendStopped,
    InsufficientResources,
    NoOrphan,
    TaskExists,
    TaskFinal,
    TaskUnsettled,
    UnknownTask,
)
from pyscheduler.backend.lifecycle import TaskPodsLifecycleManager
from pyscheduler.backend.logs import FileLogs, LogStore, LogsUnavailable, S3Logs, StreamLogs, TaskLog
from pyscheduler.backend.namespaces import BackendPlace, NamespacedTaskBackends
from pyscheduler.backend.offers import Budget, FixedBudget, NamespaceQuota, Offer, SharedBudget
from pyscheduler.backend.outcomes import OUTCOME_INFO, FailureKind, Outcome
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.polling import PodsPollingSnapshotSource
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.store import PodSnapshotStore, Subscription
from pyscheduler.backend.task import (
    RetryPolicy,
    TaskGang,
    TaskPhase,
    TaskProblem,
    TaskRecord,
    TaskSpec,
    UpdatePolicy,
    allocated_resources,
)
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.watching import PodsWatchSnapshotSource
from pyscheduler.kube.connection import ConnectionProblem

__all__ = [
    "OUTCOME_INFO",
    "ApiError",
    "BackendPlace",
    "BackendProblem",
    "BackendSettings",
    "BackendStopped",
    "BlockingTaskBackend",
    "Budget",
    "ConnectionProblem",
    "FailureKind",
    "FileLogs",
    "FixedBudget",
    "InsufficientResources",
    "KubernetesClient",
    "KubernetesTaskBackend",
    "LogStore",
    "LogsUnavailable",
    "NamespaceQuota",
    "NamespacedTaskBackends",
    "NoOrphan",
    "Offer",
    "Outcome",
    "PodSnapshotStore",
    "PodState",
    "PodsApi",
    "PodsPollingSnapshotSource",
    "PodsSnapshot",
    "PodsWatchSnapshotSource",
    "Resources",
    "RetryPolicy",
    "S3Logs",
    "SharedBudget",
    "StreamLogs",
    "Subscription",
    "TaskExists",
    "TaskFinal",
    "TaskGang",
    "TaskLog",
    "TaskPhase",
    "TaskPodsLifecycleManager",
    "TaskProblem",
    "TaskRecord",
    "TaskSpec",
    "TaskTable",
    "TaskUnsettled",
    "UnknownTask",
    "UpdatePolicy",
    "allocated_resources",
]
