"""Run Kubernetes' end-to-end specs with kube-scheduler and with this scheduler.

Each is in turn the only scheduler of a real control plane with its real controllers: named default-scheduler, as the
user system:kube-scheduler with the API server's built-in roles. A story, one run of a test, has its own namespace and
nodes; tests use short names of nodes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pyscheduler.embedded.hollow import HollowNodes, NodeTemplate
from tests.e2e.client import UNTIL_SECONDS, ApiClient, ApiError, Json
from tests.e2e.plane import Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler_with
from tests.e2e.workloads import hollow, in_pool, placed, pod, pod_spec, unscheduled

NAME = "default-scheduler"
USER = "system:kube-scheduler"
KUBE_SCHEDULER, PYSCHEDULER = "kube-scheduler", "pyscheduler"
CONTENDERS = (KUBE_SCHEDULER, PYSCHEDULER)
PREFIX = "story-"
"""Prefix of the namespaces of stories."""
FLUSH_SECONDS = 330.0
"""Time limit with kube-scheduler, which may lose a wake-up: it flushes unschedulablePods after 5 minutes."""
NODES, CLASSES = "/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CHANGE = "tests.pyscheduler.io/change"
"""Label of a node with the change that the scheduler has to see."""


@asynccontextmanager
async def contending(
    contender: str, plane: Plane, folder: Path, flags: Sequence[str] = (), args: Sequence[Json] = ()
) -> AsyncIterator[None]:
    """Run one of the contenders as the only scheduler, with args of plugins.

    `flags` are ours: kube-scheduler has those of the plane.
    """
    assert plane.real is not None
    await _wait_for_other_tests(plane.api)
    document = Configured(NAME, args=args).document()
    if contender == KUBE_SCHEDULER:
        async with plane.real.kube_scheduler(document):
            yield
        return
    config = folder / "config.yaml"
    config.write_text(document)
    async with scheduler_with(plane, config, folder, kubeconfig=plane.real.kubeconfig_for(USER), flags=flags):
        yield


async def _wait_for_other_tests(api: ApiClient) -> None:
    """Wait until no other test has pending pods for the default scheduler: they would take resources of the story."""

    def pending_elsewhere(found: Json) -> list[Json]:
        waiting = [item for item in alive(found) if "nodeName" not in item["spec"]]
        return [item for item in waiting if not item["metadata"]["namespace"].startswith(PREFIX)]

    selector = f"spec.schedulerName={NAME}"
    await api.until(
        "/api/v1/pods", lambda found: not pending_elsewhere(found), 2 * UNTIL_SECONDS, fieldSelector=selector
    )


@asynccontextmanager
async def new_story(plane: Plane, scheduler: str) -> AsyncIterator[Story]:
    """Create a story; at the end its objects are deleted, its pods without grace period."""
    namespace = f"{PREFIX}{uuid.uuid4().hex[:8]}"
    await new_namespace(plane.api, namespace)
    async with hollow(plane) as nodes:
        story = Story(plane.api, scheduler, namespace, nodes)
        try:
            yield story
        finally:
            await story.end()


class Story:
    """A namespace with nodes, and the calls of a test. `scheduler` is the contender's name."""

    def __init__(self, api: ApiClient, scheduler: str, namespace: str, nodes: HollowNodes) -> None:
        self.api = api
        self.scheduler = scheduler
        self.namespace = namespace
        self.pods = self.at("v1", "pods")
        self._nodes = nodes
        self._until_seconds = FLUSH_SECONDS if scheduler == KUBE_SCHEDULER else UNTIL_SECONDS
        self._shared: list[str] = []

    def at(self, version: str, plural: str) -> str:
        """Return the path of a kind in the story's namespace: at("apps/v1", "deployments")."""
        root = "/api" if "/" not in version else "/apis"
        return f"{root}/{version}/namespaces/{self.namespace}/{plural}"

    def full_name(self, name: str) -> str:
        """Return the full name of a cluster-scoped object: a node, a class, a volume."""
        return f"{self.namespace}-{name}"

    async def until(self, path: str, holds: Callable[[Json], object], **query: str | int) -> Json:
        """Poll `path` until `holds` is true of the response; return it. TimeoutError with the last one."""
        return await self.api.until(path, holds, self._until_seconds, **query)

    async def create(self, path: str, name: str, body: Json) -> str:
        """Create a cluster-scoped object, deleted at the end of the story; return its full name."""
        whole = self.full_name(name)
        await self.api.create(path, {**body, "metadata": {**body.get("metadata", {}), "name": whole}})
        self._shared.append(f"{path}/{whole}")
        return whole

    async def node(
        self,
        name: str,
        cpu: str = "4",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Json] = (),
        extra: Mapping[str, str] | None = None,
    ) -> str:
        """Add a node that runs its pods; `extra` are further resources. Return its full name."""
        whole = self.full_name(name)
        template = NodeTemplate(whole, cpu, labels=labels or {}, taints=taints, extra=extra or {})
        self._shared.append(f"{NODES}/{whole}")
        await self._nodes.add(in_pool(template, self.namespace))
        return whole

    async def label(self, node: str, **labels: str | None) -> None:
        """Set labels of a node, and remove those that are None."""
        await self.api.patch(f"{NODES}/{self.full_name(node)}", {"metadata": {"labels": labels}})

    async def change_node(self, node: str, **spec: object) -> None:
        """Patch a node's spec, and wait until the scheduler has seen the node as it is now.

        Each kind has its own watch: without the wait the next pod may be placed on the node as it was. A probe pod
        selects a label of the same patch, so it is bound only afterwards; it is deleted before this returns.
        """
        change = uuid.uuid4().hex[:8]
        body = {"metadata": {"labels": {CHANGE: change}}, "spec": spec}
        await self.api.patch(f"{NODES}/{self.full_name(node)}", body)
        probe = f"probe-{change}"
        await self.pod(probe, self.spec(where={CHANGE: change}, tolerations=[{"operator": "Exists"}]))
        await self.bound(probe)
        await self.delete_pod(probe)

    async def seen(self, *nodes: str) -> None:
        """Wait until the scheduler has seen these nodes."""
        for node in nodes:
            await self.change_node(node)

    async def priority(self, name: str, value: int, **fields: object) -> str:
        """Create a PriorityClass and wait until admission uses it; return its full name."""
        whole = await self.create(CLASSES, name, {"value": value, **fields})
        probe = pod("tried", self.spec(priorityClassName=whole))
        while True:
            try:
                await self.api.create(f"{self.pods}?dryRun=All", probe)
            except ApiError as refusal:
                if "no PriorityClass" not in refusal.message:
                    raise
            else:
                return whole

    def spec(
        self,
        requests: Mapping[str, str] | None = None,
        on: str = "",
        where: Mapping[str, str] | None = None,
        ports: Sequence[Json] = (),
        **fields: object,
    ) -> Json:
        """Return a pod's spec with requests, a node or labels to select, the container's ports, and further fields."""
        selector = {HOSTNAME: self.full_name(on)} if on else {}
        resources = {"requests": dict(requests), "limits": dict(requests)} if requests else {}
        container = {"name": "main", "image": "pause:1", "resources": resources, "ports": list(ports)}
        template = pod_spec(NAME, self.namespace)
        template["nodeSelector"] |= {**selector, **(where or {})}
        return {**template, "containers": [container], **fields}

    async def pod(self, name: str, spec: Json | None = None, labels: Mapping[str, str] | None = None) -> Json:
        """Create a pod; without a spec it has no requests."""
        return await self.api.create(self.pods, pod(name, spec or self.spec(), dict(labels or {})))

    def stop_kubelet(self, node: str) -> None:
        """Stop the node's kubelet: deleted pods stay Terminating and keep their resources."""
        self._nodes.kill(self.full_name(node))

    async def delete_pod(self, name: str) -> None:
        """Delete a pod without grace period."""
        await self.api.delete(f"{self.pods}/{name}", gracePeriodSeconds=0)

    async def bound(self, name: str) -> str:
        """Wait until a pod is bound; return its node."""
        found = await self.until(f"{self.pods}/{name}", lambda found: found["spec"].get("nodeName"))
        return self.short(found["spec"]["nodeName"])

    async def unschedulable(self, name: str, words: str = "") -> str:
        """Wait until a pod's PodScheduled message contains these words; return the message.

        Its first attempt may miss objects created just before the pod, because each kind has its own watch.
        """

        def has_message(found: Json) -> bool:
            message = unscheduled(found)
            return bool(message) and words in message

        return unscheduled(await self.until(f"{self.pods}/{name}", has_message))

    async def unschedulable_with(self, name: str, message: str) -> None:
        """Wait until the pod's PodScheduled message equals `message`."""
        await self.until(f"{self.pods}/{name}", lambda found: unscheduled(found) == message)

    async def places(self, count: int, selector: str = "") -> Counter[str]:
        """Wait until `count` pods are bound and none is terminating; return the number of pods per node."""
        found = await self.until(
            self.pods,
            lambda found: len(alive(found)) == len(placed({"items": alive(found)})) == count,
            labelSelector=selector,
        )
        return Counter(self.short(node) for node in placed({"items": alive(found)}).values())

    async def exactly(self, names: set[str]) -> None:
        """Wait until exactly these pods exist."""
        await self.until(self.pods, lambda found: {item["metadata"]["name"] for item in alive(found)} == names)

    async def events(self, name: str, reason: str, times: int = 1) -> list[Json]:
        """Wait for so many occurrences of a pod's Event with that reason; return the Events."""

        def often(found: Json) -> bool:
            counts: list[int] = [event.get("series", {}).get("count", 1) for event in found["items"]]
            return sum(counts) >= times

        path, query = self.at("events.k8s.io/v1", "events"), f"regarding.name={name},reason={reason}"
        found = await self.until(path, often, fieldSelector=query)
        items: list[Json] = found["items"]
        return items

    def short(self, node: str) -> str:
        """Return the short name of a node."""
        return node.removeprefix(f"{self.namespace}-")

    async def end(self) -> None:
        """Delete the namespace and everything in it, so that no resources stay in use."""
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        await self.api.delete(self.pods, gracePeriodSeconds=0)
        await asyncio.gather(*map(self._delete, self._shared))

    async def _delete(self, path: str) -> None:
        with suppress(ApiError):  # deleted by the test
            await self.api.delete(path)


def alive(found: Json) -> list[Json]:
    """Return the pods of a list that are not terminating."""
    return [item for item in found["items"] if "deletionTimestamp" not in item["metadata"]]


def condition(item: Json, kind: str) -> Json:
    """Return a pod's condition without its times, {} if it has none of that type."""
    found: Json = next((c for c in item["status"].get("conditions", ()) if c["type"] == kind), {})
    return {key: value for key, value in found.items() if key not in ("lastProbeTime", "lastTransitionTime")}


def spread(key: str, labels: Mapping[str, str], hard: bool = True, **fields: object) -> list[Json]:
    """Return one topology spread constraint with a skew of 1."""
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selector = {"matchLabels": dict(labels)}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **fields}]


def pod_anti_affinity(labels: Mapping[str, str], key: str = HOSTNAME) -> Json:
    """Return an affinity that excludes domains with pods of these labels."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pod_affinity(labels: Mapping[str, str], key: str = HOSTNAME) -> Json:
    """Return an affinity for domains with pods of these labels."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_nodes_with(*expressions: Json) -> Json:
    """Return an affinity for nodes that match all expressions."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
