"""A few nodes, a namespace and a witness: the stage of every story of a fault."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pyscheduler.embedded.hollow import HollowNodes
from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec
from tests.faults.cluster_check import BindingWitness, problems, witnessing
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import Matcher, bindings, watches, within
from tests.faults.scheduler_under_test import PLAIN
from tests.faults.waiting import SECONDS, until

NODES = 3
CPU = "4"
AT_ONCE = 16


@dataclass
class FaultNamespace:
    """The namespace of one story; its nodes carry its name."""

    plane: Plane
    namespace: str
    proxy: FaultProxy
    hollow: HollowNodes
    witness: BindingWitness

    @property
    def pods(self) -> str:
        """Where its pods are."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def bindings(self) -> Matcher:
        """Which calls bind them."""
        return within(self.namespace, bindings)

    async def pod(
        self,
        name: str,
        scheduler: str = PLAIN,
        cpu: str = "100m",
        labels: dict[str, str] | None = None,
        **fields: object,
    ) -> Json:
        """Create one; `fields` are of its spec."""
        spec = pod_spec(scheduler, self.namespace, cpu, **fields)
        return await self.plane.api.create(self.pods, pod(name, spec, labels))

    async def flood(self, count: int, scheduler: str = PLAIN, prefix: str = "p", cpu: str = "100m") -> None:
        """Create many, a few at a time."""
        names = iter(f"{prefix}-{i}" for i in range(count))

        async def some() -> None:
            for name in names:
                await self.pod(name, scheduler, cpu)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def bound(self, *names: str, seconds: float = SECONDS) -> dict[str, str]:
        """The node of each of these pods, once they all have one."""
        return placed(await self.plane.api.until(self.pods, lambda found: {*names} <= placed(found).keys(), seconds))

    async def many_bound(self, count: int, seconds: float = SECONDS) -> None:
        """Wait until so many pods have a node."""
        await self.plane.api.until(self.pods, lambda found: len(placed(found)) >= count, seconds)

    async def all_watched(self, before: Counter[str], seconds: float = SECONDS) -> None:
        """Wait until each kind that was watched is watched again, and once."""

        async def again() -> bool:
            return self.proxy.watches == before

        await until(again, seconds)

    async def rewatched(self) -> None:
        """Cut all watches once, and wait until they are there again."""
        before = self.proxy.watches
        self.proxy.cut(watches())
        await self.all_watched(before)

    async def well(self, seconds: float = SECONDS) -> None:
        """Wait until nothing is wrong with the cluster any more; what cannot be mended never is."""
        deadline, found = asyncio.get_running_loop().time() + seconds, ["not looked yet"]
        while found:
            found = await problems(self.plane.api, self.namespace, self.witness, self.proxy.bound)
            if found:
                assert asyncio.get_running_loop().time() < deadline, "\n".join(found)
                await asyncio.sleep(0.1)

    async def empty(self) -> None:
        """Delete all pods, and see them gone."""
        await self.plane.api.delete(self.pods, gracePeriodSeconds=0)
        await self.plane.api.until(self.pods, lambda found: not found["items"])


@asynccontextmanager
async def staged(plane: Plane, namespace: str, proxy: FaultProxy) -> AsyncIterator[FaultNamespace]:
    """A world for one story; what is wrong with it in the end fails the test."""
    async with hollow_nodes(plane, namespace, NODES, cpu=CPU) as hollow, witnessing(plane.api, namespace) as witness:
        world = FaultNamespace(plane, namespace, proxy, hollow, witness)
        yield world
        await world.well()
        await world.empty()
