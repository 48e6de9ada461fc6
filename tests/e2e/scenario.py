"""Batch scenarios on an API server: the manifests of tests.scenarios.batch, hollow nodes, and a controller of pods."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from pyscheduler.embedded.hollow import HollowNodes, NodeTemplate
from tests.e2e.batch import NATIVE, SCHEDULER, Namespace, condition
from tests.e2e.client import UNTIL_SECONDS, ApiError, Json
from tests.e2e.workloads import hollow
from tests.scenarios.batch import manifests
from tests.scenarios.batch.manifests import (
    ANNOTATIONS,
    COSCHEDULING,
    VOLCANO,
    Gang,
    Manifest,
    gang,
    pod,
    priority_class,
)

QUIET_SECONDS = 3.0
"""Seconds during which nothing must happen. A pod that is evicted again, or in vain, is evicted within one."""
RECREATION_SECONDS = 0.5
QUEUE_ANNOTATION = "pyscheduler.io/pod-group-queue"

APIS = {"native": manifests.NATIVE, "volcano": VOLCANO, "scheduler-plugins": COSCHEDULING, "annotations": ANNOTATIONS}
each_api = pytest.mark.parametrize("api", APIS.values(), ids=APIS)


def job(name: str, queue_name: str, minimum: int, size: int, cpu: str | int = 1, memory: str = "0") -> Gang:
    """Return a group in a queue."""
    pods = [pod(f"{name}{i}", cpu, memory=memory) for i in range(size)]
    return gang(name, minimum, pods, api=VOLCANO, queue=queue_name)


def with_priority(name: str, size: int, priority: int, api: str) -> Gang:
    """Return a group whose pods have a priority; PodGroups of Kubernetes have one of their own, 0 by default."""
    pods = [pod(f"{name}{i}", priority=priority) for i in range(size)]
    if api == manifests.NATIVE:
        return gang(name, size, pods, api=api, priority=priority)
    return gang(name, size, pods, api=api)


class Scenario:
    """Objects of a scenario. Nodes and queues have the namespace as prefix, since names of other tests differ then.

    Evicted pods are created anew once they are gone, as by their controller.
    """

    def __init__(self, namespace: Namespace, nodes: HollowNodes) -> None:
        self.namespace = namespace
        self.evicted: list[str] = []
        """Names of the evicted pods, in order."""
        self._nodes = nodes
        self._pods: dict[str, Json] = {}
        self._deleted: set[str] = set()
        """Names of the pods that the test has deleted."""
        self._evicted_uids: set[str] = set()
        self._queues: list[str] = []
        self._node_names: list[str] = []

    # -- objects -------------------------------------------------------------------------------------------------

    async def submit(self, *objects: Manifest | Gang) -> None:
        """Create objects in this order."""
        for each in objects:
            for manifest in each.manifests if isinstance(each, Gang) else (each,):
                await self._create(manifest)

    async def delete(self, *gangs: Gang) -> None:
        """Delete the pods of groups, and wait until they are gone."""
        names = {each["metadata"]["name"] for gang in gangs for each in gang.pods}
        self._deleted |= names
        for name in names:
            await self.namespace.api.delete(f"{self.namespace.pods}/{name}", gracePeriodSeconds=0)
        await self.namespace.until(lambda items: names.isdisjoint(_name(each) for each in items))

    async def delete_group(self, gang: Gang) -> None:
        """Delete the PodGroup of a group."""
        [group] = [self._converted(each) for each in gang.objects if each["kind"] == "PodGroup"]
        path = self.namespace.path(group["apiVersion"], "PodGroup", gang.name)
        # The controller of Kubernetes' PodGroups keeps them, by a finalizer, as long as they have pods.
        await self.namespace.api.delete(path)
        try:
            await self.namespace.api.patch(path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.reason != "NotFound":
                raise

    async def delete_node(self, name: str) -> None:
        """Delete a node and, as the pod garbage collector does, its pods."""
        node = self.named(name)
        await self.namespace.api.delete(f"/api/v1/nodes/{node}")
        self._node_names.remove(node)
        for each in await self.pods():
            if each["spec"].get("nodeName") == node:
                await self.namespace.api.delete(f"{self.namespace.pods}/{_name(each)}", gracePeriodSeconds=0)

    def stop_kubelet(self, node: str) -> None:
        """Let pods of this node run on after their deletion."""
        self._nodes.kill(self.named(node))

    def start_kubelet(self, node: str) -> None:
        """Let the kubelet of this node continue."""
        self._nodes.revive(self.named(node))

    async def remove_gates(self, name: str) -> None:
        """Remove the scheduling gates of a pod."""
        patch = {"spec": {"schedulingGates": None}}
        await self.namespace.api.patch(f"{self.namespace.pods}/{name}", patch)

    async def set_minimum(self, gang: Gang, minimum: int) -> None:
        """Change the minimum of a PodGroup."""
        [group] = [self._converted(each) for each in gang.objects if each["kind"] == "PodGroup"]
        path = self.namespace.path(group["apiVersion"], "PodGroup", gang.name)
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        spec = policy if group["apiVersion"] == NATIVE else {"minMember": minimum}
        await self.namespace.api.patch(path, {"spec": spec})

    async def set_queue_state(self, queue: str, state: str) -> None:
        """Write the state of a queue, as its controller does."""
        path = self.namespace.path(manifests.VOLCANO, "Queue", self.named(queue))
        await self.namespace.api.patch(f"{path}/status", {"status": {"state": state}})

    async def until_queue_state(self, queue: str, state: str) -> None:
        """Wait until a queue has this state."""
        path = self.namespace.path(manifests.VOLCANO, "Queue", self.named(queue))
        await self.namespace.api.until(path, lambda found: found["status"]["state"] == state)

    def named(self, name: str) -> str:
        """Return the name of a queue or node in the cluster."""
        return f"{self.namespace.name}-{name}"

    async def _create(self, manifest: Manifest) -> None:
        converted = self._converted(manifest)
        if manifest["kind"] == "Node":
            await self._add_node(converted)
            return
        if manifest["kind"] == "Pod":
            self._pods[_name(converted)] = converted
            if value := manifest["spec"].get("priority"):
                await self.namespace.create(priority_class(value))
        if manifest["kind"] == "Queue":
            self._queues.append(_name(converted))
        await self.namespace.create(converted)
        if manifest["kind"] == "Queue":
            await self.set_queue_state(_name(manifest), manifest["status"]["state"])

    async def _add_node(self, node: Json) -> None:
        amounts = dict(node["status"]["allocatable"])
        cpu, memory, pods = (amounts.pop(resource) for resource in ("cpu", "memory", "pods"))
        self._node_names.append(_name(node))
        await self._nodes.add(NodeTemplate(_name(node), cpu, memory, pods, amounts, node["metadata"]["labels"]))

    def _converted(self, manifest: Manifest) -> Json:
        """Return a manifest as this cluster serves it."""
        changed = copy.deepcopy(manifest)
        spec, meta = changed.get("spec", {}), changed["metadata"]
        if changed["apiVersion"] == manifests.NATIVE:
            changed["apiVersion"] = NATIVE
        if changed["kind"] in ("Node", "Queue"):
            meta["name"] = self.named(meta["name"])
        for field in ("queue", "parent"):
            if field in spec:
                spec[field] = self.named(spec[field])
        if QUEUE_ANNOTATION in meta.get("annotations", {}):
            meta["annotations"][QUEUE_ANNOTATION] = self.named(meta["annotations"][QUEUE_ANNOTATION])
        if changed["kind"] == "Pod":
            spec.setdefault("schedulerName", SCHEDULER)
            for container in spec["containers"]:
                requests = container["resources"]["requests"]
                # The API server requires limits of resources that cannot be overcommitted.
                container["resources"]["limits"] = {key: requests[key] for key in requests if "/" in key}
            if priority := spec.pop("priority", 0):
                spec["priorityClassName"] = f"priority-{priority}"
        return changed

    # -- results -------------------------------------------------------------------------------------------------

    async def until_members(self, gang: Gang | str, count: int) -> None:
        """Wait until so many pods of a group, or with a prefix, are bound and not terminating."""
        await self.namespace.until(lambda items: len(_bound(items, gang)) == count)

    async def members(self, gang: Gang | str) -> int:
        """Return the number of bound pods of a group, or of those whose names have a prefix."""
        return len(_bound(await self.pods(), gang))

    async def nodes_of(self, gang: Gang | str) -> dict[str, str]:
        """Return the nodes of the bound pods, as the scenario names them."""
        prefix = self.named("")
        return {_name(each): each["spec"]["nodeName"].removeprefix(prefix) for each in _bound(await self.pods(), gang)}

    async def starts(self, *gangs: Gang) -> dict[str, float]:
        """Return the time at which the first pod of each group was bound."""
        times = {_name(each): condition(each, "PodScheduled") for each in await self.pods()}
        return {
            gang.name: min(
                datetime.fromisoformat(times[name]["lastTransitionTime"]).timestamp() for name in _names(gang)
            )
            for gang in gangs
        }

    async def events(self, name: str, reason: str) -> list[str]:
        """Wait for Events of a pod with that reason; return their notes."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace.name}/events"
        selector = f"regarding.name={name},reason={reason}"
        found = await self.namespace.api.until(path, lambda found: found["items"], fieldSelector=selector)
        return [str(each["note"]) for each in found["items"]]

    async def pods(self) -> list[Json]:
        """Return all pods."""
        return await self.namespace.until(lambda _: True)

    async def until_reported(self, gang: Gang | Iterable[str], reason: str = "", text: str = "") -> list[str]:
        """Wait until these pods are reported as not scheduled, with reason and text; return the messages."""
        names = _names(gang) if isinstance(gang, Gang) else set(gang)

        def holds(items: list[Json]) -> bool:
            return names == {_name(each) for each in items if _name(each) in names and _reported(each, reason, text)}

        found = await self.namespace.until(holds)
        return [condition(each, "PodScheduled")["message"] for each in found if _name(each) in names]

    async def until_settled(self, expected: Mapping[str, int]) -> None:
        """Wait until so many pods with each prefix are bound and not terminating; fail if that changes soon after."""

        def counts(items: list[Json]) -> dict[str, int]:
            return {prefix: len(_bound(items, prefix)) for prefix in expected}

        await self.namespace.until(lambda items: counts(items) == expected)
        for _ in range(int(QUIET_SECONDS / 0.5)):
            await asyncio.sleep(0.5)
            assert counts(await self.pods()) == expected

    async def stays(self, holds: Callable[[], bool]) -> None:
        """Wait until a predicate is true, and fail if it does not stay so for a while."""
        for _ in range(int(UNTIL_SECONDS / 0.1)):
            if holds():
                break
            await asyncio.sleep(0.1)
        for _ in range(int(QUIET_SECONDS / 0.1)):
            assert holds(), f"evicted: {self.evicted}"
            await asyncio.sleep(0.1)

    # -- the controller ------------------------------------------------------------------------------------------

    async def recreate_evicted(self) -> None:
        """Create evicted pods anew, without end."""
        version = (await self.namespace.api.get(self.namespace.pods))["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as recreations:
            async for event in self.namespace.api.watch(self.namespace.pods, resourceVersion=version):
                name, meta = _name(event["object"]), event["object"]["metadata"]
                terminating = event["type"] == "DELETED" or "deletionTimestamp" in meta
                if not terminating or name in self._deleted:
                    continue
                if meta["uid"] not in self._evicted_uids:
                    self._evicted_uids.add(meta["uid"])
                    self.evicted.append(name)
                if event["type"] == "DELETED":
                    recreations.create_task(self._recreate(name))

    async def _recreate(self, name: str) -> None:
        await asyncio.sleep(RECREATION_SECONDS)
        await self.namespace.create(self._pods[name])

    async def clean(self) -> None:
        """Delete what does not belong to the namespace."""
        for name in self._queues:
            await self.namespace.api.delete(self.namespace.path(manifests.VOLCANO, "Queue", name))
        for name in self._node_names:
            await self.namespace.api.delete(f"/api/v1/nodes/{name}")


@asynccontextmanager
async def scenario(namespace: Namespace) -> AsyncIterator[Scenario]:
    """Run a cluster without nodes for a scheduler that runs."""
    async with hollow(namespace.plane) as nodes:
        created = Scenario(namespace, nodes)
        recreating = asyncio.create_task(created.recreate_evicted())
        try:
            yield created
        finally:
            recreating.cancel()
            await asyncio.gather(recreating, return_exceptions=True)
            await namespace.empty()
            await created.clean()


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _names(gang: Gang) -> set[str]:
    return {_name(each) for each in gang.pods}


def _bound(items: list[Json], gang: Gang | str) -> list[Json]:
    """Return the pods of a group, or with a prefix, that are bound and not terminating."""
    bound = [each for each in items if each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]]
    if isinstance(gang, Gang):
        return [each for each in bound if _name(each) in _names(gang)]
    return [each for each in bound if _name(each).startswith(gang)]


def _reported(item: Json, reason: str, text: str) -> bool:
    """Return True if a pod is reported as not scheduled, with this reason if there is one, and this text."""
    found = condition(item, "PodScheduled")
    has_reason = found.get("reason") == (reason or found.get("reason"))
    return found.get("status") == "False" and has_reason and text in found["message"]
