"""Namespace, hollow nodes and binding witness of a fault test."""

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
    """Namespace of one test, with nodes of its own."""

    plane: Plane
    namespace: str
    proxy: FaultProxy
    hollow: HollowNodes
    witness: BindingWitness

    @property
    def pods(self) -> str:
        """Path of the namespace's pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def bindings(self) -> Matcher:
        """Matcher of their bindings."""
        return within(self.namespace, bindings)

    async def create_pod(
        self,
        name: str,
        scheduler: str = PLAIN,
        cpu: str = "100m",
        labels: dict[str, str] | None = None,
        **fields: object,
    ) -> Json:
        """Create a pod; `fields` are set in its spec."""
        spec = pod_spec(scheduler, self.namespace, cpu, **fields)
        return await self.plane.api.create(self.pods, pod(name, spec, labels))

    async def create_pods(self, count: int, scheduler: str = PLAIN, prefix: str = "p", cpu: str = "100m") -> None:
        """Create `count` pods with bounded concurrency."""
        names = iter(f"{prefix}-{i}" for i in range(count))

        async def worker() -> None:
            for name in names:
                await self.create_pod(name, scheduler, cpu)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))

    async def nodes_of(self, *names: str, seconds: float = SECONDS) -> dict[str, str]:
        """Wait until all these pods are bound; return their nodes by name."""
        return placed(await self.plane.api.until(self.pods, lambda pods: {*names} <= placed(pods).keys(), seconds))

    async def wait_for_bound(self, count: int, seconds: float = SECONDS) -> None:
        """Wait until `count` pods are bound."""
        await self.plane.api.until(self.pods, lambda pods: len(placed(pods)) >= count, seconds)

    async def wait_for_watches(self, before: Counter[str], seconds: float = SECONDS) -> None:
        """Wait until exactly the watches of `before` are open."""

        async def are_equal() -> bool:
            return self.proxy.watches == before

        await until(are_equal, seconds)

    async def restart_watches(self) -> None:
        """Cut all watches, and wait until they are open again."""
        before = self.proxy.watches
        self.proxy.cut(watches())
        await self.wait_for_watches(before)

    async def wait_until_consistent(self, seconds: float = SECONDS) -> None:
        """Wait until the cluster check reports no problems. AssertionError with the problems after `seconds`."""
        deadline = asyncio.get_running_loop().time() + seconds
        while current := await problems(self.plane.api, self.namespace, self.witness, self.proxy.bound):
            assert asyncio.get_running_loop().time() < deadline, "\n".join(current)
            await asyncio.sleep(0.1)

    async def delete_pods(self) -> None:
        """Delete all pods and wait until they are gone."""
        await self.plane.api.delete(self.pods, gracePeriodSeconds=0)
        await self.plane.api.until(self.pods, lambda pods: not pods["items"])


@asynccontextmanager
async def fault_namespace(plane: Plane, namespace: str, proxy: FaultProxy) -> AsyncIterator[FaultNamespace]:
    """Create the nodes and the witness of a test; in the end the cluster must be consistent."""
    async with hollow_nodes(plane, namespace, NODES, cpu=CPU) as hollow, witnessing(plane.api, namespace) as witness:
        ns = FaultNamespace(plane, namespace, proxy, hollow, witness)
        yield ns
        await ns.wait_until_consistent()
        await ns.delete_pods()
