"""Random load within bounds: pods are created and deleted, Deployments scaled, nodes drained, added and deleted.

The random generator is seeded; the timing depends on the machine.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp

from pyscheduler.embedded.hollow import NodeTemplate
from tests.e2e.client import ApiError, Json
from tests.e2e.workloads import deployment, in_pool, pod_spec
from tests.faults.fault_namespace import FaultNamespace
from tests.faults.scheduler_under_test import PLAIN

MOST_PODS = 200
"""Most bare pods, and most replicas of the Deployment."""
BATCH = 20
PAUSE = (0.05, 0.3)
"""Least and most seconds between two actions."""
DEPLOYMENT = "growing"


class Churn:
    """Runs random actions in a namespace; `done` counts them by name."""

    def __init__(self, ns: FaultNamespace, rng: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._ns = ns
        self._api = ns.plane.api
        self._rng = rng
        self._created = 0
        self._apps = f"/apis/apps/v1/namespaces/{ns.namespace}/deployments"

    async def begin(self) -> None:
        """Create the Deployment."""
        spec = pod_spec(PLAIN, self._ns.namespace, "20m")
        await self._api.create(self._apps, deployment(DEPLOYMENT, BATCH, spec))

    async def run(self) -> None:
        """Run actions until cancelled. Failed actions are not counted."""
        weighted: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.create, 5),
            (self.delete, 4),
            (self.scale, 2),
            (self.drain, 1),
            (self.flap, 1),
        ]
        actions, weights = zip(*weighted, strict=True)
        while True:
            action = self._rng.choices(actions, weights)[0]
            with suppress(ApiError, aiohttp.ClientError):
                await action()
                self.done[action.__name__] += 1
            await asyncio.sleep(self._rng.uniform(*PAUSE))

    async def end(self) -> None:
        """Delete the Deployment and wait until it is gone."""
        await self._api.delete(f"{self._apps}/{DEPLOYMENT}")
        await self._api.until(self._apps, lambda deployments: not deployments["items"])

    async def create(self) -> None:
        """Create bare pods of various sizes, 2 % of them too large for any node."""
        pods = await self._pods()
        for _ in range(min(self._rng.randint(1, BATCH), MOST_PODS - len(pods))):
            self._created += 1
            cpu = "64" if self._rng.random() < 0.02 else f"{self._rng.randint(1, 8) * 10}m"
            await self._ns.create_pod(f"bare-{self._created}", cpu=cpu)

    async def delete(self) -> None:
        """Delete random pods."""
        pods = await self._pods()
        for pod in self._rng.sample(pods, min(self._rng.randint(1, BATCH), len(pods))):
            await self._delete_pod(pod)

    async def scale(self) -> None:
        replicas = self._rng.randint(0, MOST_PODS)
        await self._api.patch(f"{self._apps}/{DEPLOYMENT}", {"spec": {"replicas": replicas}})

    async def drain(self) -> None:
        """Cordon a node, delete its pods, and uncordon it."""
        node = f"/api/v1/nodes/{self._rng.choice(self._ns.hollow.names)}"
        await self._api.patch(node, {"spec": {"unschedulable": True}})
        try:
            await self._delete_pods_on(node.rpartition("/")[2])
        finally:
            await self._api.patch(node, {"spec": {"unschedulable": None}})

    async def flap(self) -> None:
        """Add a node and soon delete it with its pods."""
        template = in_pool(NodeTemplate(f"{self._ns.namespace}-flapping", cpu="4"), self._ns.namespace)
        await self._ns.hollow.add(template)
        await asyncio.sleep(self._rng.uniform(0.2, 1.0))
        await self._api.delete(f"/api/v1/nodes/{template.name}")
        await self.sweep()

    async def sweep(self) -> None:
        """Delete the pods on deleted nodes, as the pod garbage collector does after a minute."""
        nodes = {node["metadata"]["name"] for node in await self._api.list("/api/v1/nodes")}
        for pod in await self._pods():
            if pod["spec"].get("nodeName", "") not in {"", *nodes}:
                await self._delete_pod(pod)

    async def _delete_pods_on(self, node: str) -> None:
        for pod in await self._pods():
            if pod["spec"].get("nodeName") == node:
                await self._delete_pod(pod)

    async def _pods(self) -> list[Json]:
        return await self._api.list(self._ns.pods)

    async def _delete_pod(self, pod: Json) -> None:
        with suppress(ApiError):
            await self._api.delete(f"{self._ns.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)
