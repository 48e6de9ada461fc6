"""Clusters with all kinds of pod groups and queues that their API server serves, and the objects of one test."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.controlplane.arguments import Options
from tests.e2e.client import POLL_SECONDS, ApiClient, ApiError, Json
from tests.e2e.plane import REAL, Plane, new_namespace, opened, real
from tests.e2e.scheduler import ROOT, install_batch
from tests.e2e.workloads import placed

CONFIG = ROOT / "config" / "batch.yaml"
SCHEDULER = "pyscheduler"

NATIVE = "scheduling.k8s.io/v1beta1"
"""The version that Kubernetes 1.37 serves."""
VOLCANO = "scheduling.volcano.sh/v1beta1"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
GATES = ("--feature-gates=GenericWorkload=true", f"--runtime-config={NATIVE}=true")

SCHEDULED = {
    NATIVE: ("PodGroupInitiallyScheduled", "True"),
    VOLCANO: ("Scheduled", "True"),
    COSCHEDULING: ("Scheduled", "True"),
}
"""Type and status of the condition once a group of the API is scheduled."""
UNSCHEDULABLE = {
    NATIVE: ("PodGroupInitiallyScheduled", "False"),
    VOLCANO: ("Unschedulable", "True"),
    COSCHEDULING: ("Scheduled", "False"),
}
"""Type and status of the condition while it is not."""

_PLURALS = {"PodGroup": "podgroups", "Workload": "workloads", "Queue": "queues", "PriorityClass": "priorityclasses"}
_CLUSTER_SCOPED = ("Queue", "PriorityClass")


@asynccontextmanager
async def batch_plane(config: pytest.Config) -> AsyncIterator[Plane]:
    """Run a cluster with PodGroups of every API."""
    target = config.getoption("--control-plane", default="")
    options = Options(extra={"kube-apiserver": GATES})
    async with real(config, options) if target == REAL else opened(target, config) as plane:
        await install_batch(plane.api)
        for plural in (f"{VOLCANO}/podgroups", f"{VOLCANO}/queues", f"{COSCHEDULING}/podgroups", f"{NATIVE}/podgroups"):
            await plane.api.until(f"/apis/{plural}", lambda found: "items" in found)
        yield plane


def condition(item: Json, type_: str) -> Json:
    """Return a condition of an object, empty if it has none of this type."""
    conditions = item.get("status", {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == type_), {})


def reason(item: Json) -> str:
    """Return the reason of a pod's PodScheduled=False condition, "" if it has none."""
    found = condition(item, "PodScheduled")
    return str(found.get("reason", "")) if found.get("status") == "False" else ""


@dataclass(frozen=True)
class Namespace:
    """Objects of one test."""

    plane: Plane
    name: str

    @property
    def api(self) -> ApiClient:
        """Client of the cluster."""
        return self.plane.api

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.name}/pods"

    def path(self, version: str, kind: str, name: str = "") -> str:
        """Return the path of a kind, or of one object."""
        if kind == "Pod":
            collection = self.pods
        elif kind in _CLUSTER_SCOPED:
            collection = f"/apis/{version}/{_PLURALS[kind]}"
        else:
            collection = f"/apis/{version}/namespaces/{self.name}/{_PLURALS[kind]}"
        return f"{collection}/{name}" if name else collection

    async def create(self, *objects: Json) -> list[Json]:
        """Create objects in this order; a PriorityClass may be there already."""
        return [await self._create(each) for each in objects]

    async def create_pods(self, pods: Iterable[Json]) -> list[Json]:
        """Create pods at the same time, as controllers do."""
        return await asyncio.gather(*(self._create(each) for each in pods))

    async def _create(self, item: Json) -> Json:
        path = self.path(item["apiVersion"], item["kind"])
        while True:
            try:
                return await self.api.create(path, item)
            except ApiError as error:
                if error.reason == "AlreadyExists" and item["kind"] == "PriorityClass":
                    return item
                if "no PriorityClass" not in error.message:  # admission reads classes from a watch
                    raise
            await asyncio.sleep(POLL_SECONDS)

    async def until(self, holds: Callable[[list[Json]], object], seconds: float = 60.0) -> list[Json]:
        """Wait until a predicate of the pods is true; return them."""
        found = await self.api.until(self.pods, lambda found: holds(found["items"]), seconds)
        items: list[Json] = found["items"]
        return items

    async def empty(self) -> None:
        """Delete all pods at once and wait until there are none."""
        await self.api.delete(self.pods, gracePeriodSeconds=0)
        await self.until(lambda items: not items)

    async def until_bound(self, names: Iterable[str]) -> dict[str, str]:
        """Wait until these pods are bound, and no others; return the nodes of all pods."""
        expected = set(names)
        found = await self.api.until(self.pods, lambda found: set(placed(found)) == expected)
        return placed(found)

    async def until_condition(
        self, version: str, name: str, expected: tuple[str, str], text: str = "", seconds: float = 60.0
    ) -> None:
        """Wait until a condition of a PodGroup, given as type and status, has this text in its message."""

        def holds(found: Json) -> bool:
            each = condition(found, expected[0])
            return each.get("status") == expected[1] and text in each["message"]

        await self.api.until(self.path(version, "PodGroup", name), holds, seconds)


@asynccontextmanager
async def new_test_namespace(plane: Plane) -> AsyncIterator[Namespace]:
    """Create a namespace; at the end it is emptied, so that its pods do not count in the next test, and deleted."""
    created = Namespace(plane, f"test-{uuid.uuid4().hex[:8]}")
    await new_namespace(plane.api, created.name)
    yield created
    await created.empty()
    await plane.api.delete(f"/api/v1/namespaces/{created.name}")
