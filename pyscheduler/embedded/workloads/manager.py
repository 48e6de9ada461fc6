"""All controllers of this package on shared informers, as in kube-controller-manager."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from pyscheduler.embedded.client import (
    CRONJOBS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NODES,
    OBJECTS,
    PODS,
    REPLICASETS,
    ApiClient,
    ApiResource,
    Clock,
    Informer,
    Json,
    Tasks,
)
from pyscheduler.embedded.workloads.controllers import CRONJOB, DEPLOYMENT, JOB, REPLICASET, WorkloadControllers
from pyscheduler.embedded.workloads.node_lifecycle import NodeLifecycle

WORKERS = 4
LEASE_NAMESPACE = "kube-node-lease"


@dataclass(frozen=True)
class ControllerSettings:
    """Optional settings of the controllers, in seconds."""

    node_grace_seconds: float = 50.0
    """Time without heartbeat after which a node is marked unknown."""
    job_backoff_seconds: float = 10.0
    """Backoff after a Job's first failed pod; it doubles with each further failure."""


class ControllerManager:
    """All controllers of this package. Start and stop it, or use it as a context manager."""

    def __init__(self, client: ApiClient, *, clock: Clock, settings: ControllerSettings | None = None) -> None:
        settings = settings if settings is not None else ControllerSettings()
        self._client = client
        self._tasks = Tasks()
        pods, nodes = self._informer(PODS), self._informer(NODES)
        leases = self._informer(LEASES, LEASE_NAMESPACE)
        main = {
            DEPLOYMENT: self._informer(DEPLOYMENTS),
            REPLICASET: self._informer(REPLICASETS),
            JOB: self._informer(JOBS),
            CRONJOB: self._informer(CRONJOBS),
        }
        self._informers = [pods, nodes, leases, *main.values()]
        self._workloads = WorkloadControllers(client, clock, pods, main, settings.job_backoff_seconds)
        self._nodes = NodeLifecycle(client, clock, pods, nodes, leases, settings.node_grace_seconds)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the workers once all informers have synced: with a partial cache they would create pods again."""
        for informer in self._informers:
            self._tasks.spawn(informer.run(), f"controllers: watch of {informer.resource.plural}")
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
        for number in range(WORKERS):
            self._tasks.spawn(self._workloads.queue.work(self._workloads.reconcile), f"workload controllers: {number}")
        self._tasks.spawn(self._nodes.queue.work(self._nodes.reconcile), "node lifecycle")

    async def stop(self) -> None:
        """Stop at once."""
        self._workloads.queue.close()
        self._nodes.queue.close()
        await self._tasks.stop()

    def _informer(self, resource: ApiResource, namespace: str = "") -> Informer[Json]:
        return Informer(self._client, resource, OBJECTS, namespace=namespace)
