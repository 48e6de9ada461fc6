"""Client of hollow nodes and workload controllers: plain HTTP to any API server."""

from pyscheduler.embedded.client.http import HttpClient
from pyscheduler.embedded.client.informer import OBJECTS, Codec, Informer, structs
from pyscheduler.embedded.client.protocol import (
    CRONJOBS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    REPLICASETS,
    ApiClient,
    ApiResource,
    ClientStatusError,
    Json,
    Key,
    Listing,
)
from pyscheduler.embedded.client.tasks import Tasks
from pyscheduler.embedded.client.workqueue import Clock, WorkQueue

__all__ = [
    "CRONJOBS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NODES",
    "OBJECTS",
    "PODS",
    "REPLICASETS",
    "ApiClient",
    "ApiResource",
    "ClientStatusError",
    "Clock",
    "Codec",
    "HttpClient",
    "Informer",
    "Json",
    "Key",
    "Listing",
    "Tasks",
    "WorkQueue",
    "structs",
]
