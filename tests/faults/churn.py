"""A cluster that never rests, within bounds: pods come and go, Deployments grow and shrink, nodes are drained and flap.

Chance is seeded, so that a run can be had again; when things happen is up to the machine.
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
"""Bare ones; a Deployment has as many at most."""
BATCH = 20
PAUSE = (0.05, 0.3)
"""Seconds between two things that happen, from and to."""
DEPLOYMENT = "growing"


class Churn:
    """Does something to a world over and over; `done` counts what."""

    def __init__(self, world: FaultNamespace, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._world = world
        self._api = world.plane.api
        self._chance = chance
        self._made = 0
        self._apps = f"/apis/apps/v1/namespaces/{world.namespace}/deployments"

    async def begin(self) -> None:
        """Make what is scaled later."""
        spec = pod_spec(PLAIN, self._world.namespace, "20m")
        await self._api.create(self._apps, deployment(DEPLOYMENT, BATCH, spec))

    async def run(self) -> None:
        """Until cancelled. What is refused because it has gone already does not count."""
        deeds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.create, 5),
            (self.delete, 4),
            (self.scale, 2),
            (self.drain, 1),
            (self.flap, 1),
        ]
        acts, weights = zip(*deeds, strict=True)
        while True:
            act = self._chance.choices(acts, weights)[0]
            with suppress(ApiError, aiohttp.ClientError):
                await act()
                self.done[act.__name__] += 1
            await asyncio.sleep(self._chance.uniform(*PAUSE))

    async def end(self) -> None:
        """Delete it all, and whatever is on nodes that are gone."""
        await self._api.delete(f"{self._apps}/{DEPLOYMENT}")
        await self._api.until(self._apps, lambda found: not found["items"])

    async def create(self) -> None:
        """Some bare pods more, of various sizes; now and then one that fits nowhere."""
        pods = await self._pods()
        for _ in range(min(self._chance.randint(1, BATCH), MOST_PODS - len(pods))):
            self._made += 1
            cpu = "64" if self._chance.random() < 0.02 else f"{self._chance.randint(1, 8) * 10}m"
            await self._world.pod(f"bare-{self._made}", cpu=cpu)

    async def delete(self) -> None:
        """Some pods go, wherever they are."""
        pods = await self._pods()
        for found in self._chance.sample(pods, min(self._chance.randint(1, BATCH), len(pods))):
            await self._gone(found)

    async def scale(self) -> None:
        replicas = self._chance.randint(0, MOST_PODS)
        await self._api.patch(f"{self._apps}/{DEPLOYMENT}", {"spec": {"replicas": replicas}})

    async def drain(self) -> None:
        """A node takes nobody any more, is emptied, and comes back."""
        node = f"/api/v1/nodes/{self._chance.choice(self._world.hollow.names)}"
        await self._api.patch(node, {"spec": {"unschedulable": True}})
        try:
            await self._empty(node.rpartition("/")[2])
        finally:
            await self._api.patch(node, {"spec": {"unschedulable": None}})

    async def flap(self) -> None:
        """A node more, which goes with all that is on it."""
        template = in_pool(NodeTemplate(f"{self._world.namespace}-flapping", cpu="4"), self._world.namespace)
        await self._world.hollow.add(template)
        await asyncio.sleep(self._chance.uniform(0.2, 1.0))
        await self._api.delete(f"/api/v1/nodes/{template.name}")
        await self.sweep()

    async def sweep(self) -> None:
        """Delete the pods on nodes that are gone: Kubernetes' garbage collector does so after a minute."""
        nodes = {node["metadata"]["name"] for node in await self._api.list("/api/v1/nodes")}
        for found in await self._pods():
            if found["spec"].get("nodeName", "") not in {"", *nodes}:
                await self._gone(found)

    async def _empty(self, node: str) -> None:
        for found in await self._pods():
            if found["spec"].get("nodeName") == node:
                await self._gone(found)

    async def _pods(self) -> list[Json]:
        return await self._api.list(self._world.pods)

    async def _gone(self, found: Json) -> None:
        with suppress(ApiError):
            await self._api.delete(f"{self._world.pods}/{found['metadata']['name']}", gracePeriodSeconds=0)
