"""All controllers of this package on shared informers, as in kube-controller-manager."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from pyscheduler.api import ResourceKind
from pyscheduler.clock import Clock
from pyscheduler.embedded.client import CRONJOBS, DEPLOYMENTS, JOBS, REPLICASETS, Informer, Tasks
from pyscheduler.embedded.client.kinds import (
    CLAIMS,
    DAEMONSETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    REVISIONS,
    STATEFULSETS,
)
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.autoscaling_controller import AutoscalingController
from pyscheduler.embedded.workloads.claim_controller import ClaimController
from pyscheduler.embedded.workloads.controllers import WorkloadControllers
from pyscheduler.embedded.workloads.endpoint_controller import EndpointController
from pyscheduler.embedded.workloads.hollow_devices import HollowDevices
from pyscheduler.embedded.workloads.node_lifecycle import NodeLifecycle
from pyscheduler.embedded.workloads.volume_controller import VolumeController
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import LEASES, NODES, PODS
from pyscheduler.kube.reflector import Watched

WORKERS = 4
WORKLOADS = (
    DEPLOYMENTS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
    DAEMONSETS,
    REVISIONS,
    JOBS,
    CRONJOBS,
)
"""Kinds of the workload controllers."""
SCALED = (DEPLOYMENTS, REPLICASETS, REPLICATION_CONTROLLERS, STATEFULSETS)
"""Kinds that autoscalers can target."""
LEASE_NAMESPACE = "kube-node-lease"


@dataclass(frozen=True)
class ControllerSettings:
    """Optional settings of the controllers; times are in seconds."""

    node_grace_seconds: float = 50.0
    """Time without heartbeat after which a node is marked unknown."""
    job_backoff_seconds: float = 10.0
    """Backoff after a Job's first failed pod; it doubles with each further failure."""
    provision_volumes: bool = True
    """True to provision volumes of every StorageClass; kube-controller-manager leaves that to external provisioners."""


class ControllerManager:
    """All controllers of this package. Start and stop it, or use it as a context manager."""

    def __init__(self, connection: Connection, *, clock: Clock, settings: ControllerSettings | None = None) -> None:
        settings = settings if settings is not None else ControllerSettings()
        self._connection, self._clock = connection, clock
        self._tasks = Tasks()
        client = ObjectClient(connection)
        pods, nodes, leases = _informer(PODS), _informer(NODES), _informer(LEASES, LEASE_NAMESPACE)
        volume_claims = _informer(CLAIMS)
        main = {each.kind: _informer(each) for each in WORKLOADS} | {NODES.kind: nodes, CLAIMS.kind: volume_claims}
        claims, templates = _informer(RESOURCE_CLAIMS), _informer(RESOURCE_CLAIM_TEMPLATES)
        self._informers = [pods, leases, claims, templates, *main.values()]
        self._workloads = WorkloadControllers(client, clock, pods, main, settings.job_backoff_seconds)
        self._claims = ClaimController(client, clock, pods, claims, templates)
        self._nodes = NodeLifecycle(client, clock, pods, nodes, leases, settings.node_grace_seconds)
        self._endpoints = EndpointController(client, clock, pods)
        self._volumes = VolumeController(client, clock, volume_claims, provision=settings.provision_volumes)
        targets = {each.kind: main[each.kind] for each in SCALED}
        self._autoscaling = AutoscalingController(client, clock, pods, targets)
        self._devices = HollowDevices(client, clock, nodes)
        owners = (self._endpoints, self._volumes, self._autoscaling, self._devices)
        self._informers += [informer for owner in owners for informer in owner.informers]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the workers once all informers have synced: with a partial cache they would create pods again."""
        for informer in self._informers:
            self._tasks.spawn(
                informer.run(self._connection, self._clock), f"controllers: watch of {informer.kind.plural}"
            )
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))
        for number in range(WORKERS):
            self._tasks.spawn(self._workloads.queue.work(self._workloads.reconcile), f"workload controllers: {number}")
        self._tasks.spawn(self._nodes.queue.work(self._nodes.reconcile), "node lifecycle")
        self._tasks.spawn(self._claims.queue.work(self._claims.reconcile), "resource claims")
        self._tasks.spawn(self._endpoints.queue.work(self._endpoints.reconcile), "endpoint slices")
        self._tasks.spawn(self._volumes.queue.work(self._volumes.reconcile), "volumes")
        self._tasks.spawn(self._autoscaling.queue.work(self._autoscaling.reconcile), "autoscaling")
        self._tasks.spawn(self._devices.queue.work(self._devices.reconcile), "devices of hollow nodes")

    async def stop(self) -> None:
        """Stop at once."""
        self._workloads.queue.close()
        self._nodes.queue.close()
        self._claims.queue.close()
        self._endpoints.queue.close()
        self._volumes.queue.close()
        self._autoscaling.queue.close()
        self._devices.queue.close()
        await self._tasks.stop()


def _informer(kind: ResourceKind, namespace: str = "") -> Informer[Json]:
    return Informer(Watched(kind, namespace=namespace), Json)
