"""A story that Kubernetes' own end-to-end specs suggest, told to kube-scheduler and to this scheduler alike.

Whoever has its turn is the only scheduler of a real control plane with its real controllers: it is named
default-scheduler, is the user system:kube-scheduler, and has the roles that the API server gives that user by itself.
A story has a namespace and nodes of its own; what it says of nodes is said in short names.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
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
"""What the namespaces of stories begin with."""
NODES, CLASSES = "/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@asynccontextmanager
async def contending(contender: str, plane: Plane, folder: Path) -> AsyncIterator[None]:
    """One of the contenders as the only scheduler, until the block ends."""
    assert plane.real is not None
    await _nobody_else_waits(plane.api)
    document = Configured(NAME).document()
    if contender == KUBE_SCHEDULER:
        async with plane.real.kube_scheduler(document):
            yield
        return
    config = folder / "config.yaml"
    config.write_text(document)
    async with scheduler_with(plane, config, folder, kubeconfig=plane.real.kubeconfig_for(USER)):
        yield


async def _nobody_else_waits(api: ApiClient) -> None:
    """Pods of other tests that wait for a default scheduler would take room that a story has counted on."""

    def others(found: Json) -> list[Json]:
        waiting = [item for item in alive(found) if "nodeName" not in item["spec"]]
        return [item for item in waiting if not item["metadata"]["namespace"].startswith(PREFIX)]

    mine = f"spec.schedulerName={NAME}"
    await api.until("/api/v1/pods", lambda found: not others(found), 2 * UNTIL_SECONDS, fieldSelector=mine)


@asynccontextmanager
async def telling(plane: Plane, scheduler: str) -> AsyncIterator[Story]:
    """A new story; at its end all that it made goes, and its pods go at once."""
    namespace = f"{PREFIX}{uuid.uuid4().hex[:8]}"
    await new_namespace(plane.api, namespace)
    async with hollow(plane) as nodes:
        story = Story(plane.api, scheduler, namespace, nodes)
        try:
            yield story
        finally:
            await story.end()


class Story:
    """A namespace with nodes, and the questions that a story asks of them. `scheduler` is the contender's name."""

    def __init__(self, api: ApiClient, scheduler: str, namespace: str, nodes: HollowNodes) -> None:
        self.api = api
        self.scheduler = scheduler
        self.namespace = namespace
        self.pods = self.at("v1", "pods")
        self._nodes = nodes
        self._shared: list[str] = []

    def at(self, version: str, plural: str) -> str:
        """The path of a kind in the story's namespace: at("apps/v1", "deployments")."""
        root = "/api" if "/" not in version else "/apis"
        return f"{root}/{version}/namespaces/{self.namespace}/{plural}"

    def own(self, name: str) -> str:
        """The story's own name for what has no namespace: a node, a class, a volume."""
        return f"{self.namespace}-{name}"

    async def make(self, path: str, name: str, body: Json) -> str:
        """Creates an object without a namespace and returns its whole name; it goes when the story ends."""
        whole = self.own(name)
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
        """One more node, which runs its pods; `extra` are further resources. Returns its whole name."""
        whole = self.own(name)
        template = NodeTemplate(whole, cpu, labels=labels or {}, taints=taints, extra=extra or {})
        self._shared.append(f"{NODES}/{whole}")
        await self._nodes.add(in_pool(template, self.namespace))
        return whole

    async def label(self, node: str, **labels: str | None) -> None:
        """Sets labels of a node, and takes away those that are None."""
        await self.api.patch(f"{NODES}/{self.own(node)}", {"metadata": {"labels": labels}})

    async def priority(self, name: str, value: int, **fields: object) -> str:
        """A PriorityClass, once the API server goes by it; returns its whole name."""
        whole = await self.make(CLASSES, name, {"value": value, **fields})
        tried = pod("tried", self.spec(priorityClassName=whole))
        while True:
            try:
                await self.api.create(f"{self.pods}?dryRun=All", tried)
            except ApiError as refusal:
                if "no PriorityClass" not in refusal.message:
                    raise
            else:
                return whole

    def spec(
        self,
        asks: Mapping[str, str] | None = None,
        on: str = "",
        where: Mapping[str, str] | None = None,
        ports: Sequence[Json] = (),
        **fields: object,
    ) -> Json:
        """A pod's spec: what it asks for, the node or the labels that it selects, its container's ports, the rest."""
        selector = {HOSTNAME: self.own(on)} if on else {}
        resources = {"requests": dict(asks), "limits": dict(asks)} if asks else {}
        container = {"name": "main", "image": "pause:1", "resources": resources, "ports": list(ports)}
        made = pod_spec(NAME, self.namespace)
        made["nodeSelector"] |= {**selector, **(where or {})}
        return {**made, "containers": [container], **fields}

    async def pod(self, name: str, spec: Json | None = None, labels: Mapping[str, str] | None = None) -> Json:
        """Creates a pod; without a spec it asks for nothing."""
        return await self.api.create(self.pods, pod(name, spec or self.spec(), dict(labels or {})))

    def silence(self, node: str) -> None:
        """The node's kubelet stops: pods that are deleted stay, and keep their room, until they are gone."""
        self._nodes.kill(self.own(node))

    async def gone(self, name: str) -> None:
        """Deletes a pod at once."""
        await self.api.delete(f"{self.pods}/{name}", gracePeriodSeconds=0)

    async def bound(self, name: str) -> str:
        """The node that a pod is bound to, in the end."""
        found = await self.api.until(f"{self.pods}/{name}", lambda found: found["spec"].get("nodeName"))
        return self.short(found["spec"]["nodeName"])

    async def refused(self, name: str, words: str = "") -> str:
        """What a pod is told of why it fits nowhere, once these words are in it.

        Of what was made just before the pod, its first attempt may not know yet: kinds are watched each for itself.
        """

        def told(found: Json) -> bool:
            message = unscheduled(found)
            return bool(message) and words in message

        return unscheduled(await self.api.until(f"{self.pods}/{name}", told))

    async def refused_as(self, name: str, message: str) -> None:
        """Waits until that is what the pod is told."""
        await self.api.until(f"{self.pods}/{name}", lambda found: unscheduled(found) == message)

    async def places(self, count: int, selector: str = "") -> Counter[str]:
        """How many of `count` pods are on which node, once all have one and are not about to go."""
        found = await self.api.until(
            self.pods,
            lambda found: len(alive(found)) == len(placed({"items": alive(found)})) == count,
            labelSelector=selector,
        )
        return Counter(self.short(node) for node in placed({"items": alive(found)}).values())

    async def exactly(self, names: set[str]) -> None:
        """Waits until these are the pods that there are."""
        await self.api.until(self.pods, lambda found: {item["metadata"]["name"] for item in alive(found)} == names)

    async def events(self, name: str, reason: str, times: int = 1) -> list[Json]:
        """What was said of a pod under that reason, once it was said so often."""

        def often(found: Json) -> bool:
            counts: list[int] = [event.get("series", {}).get("count", 1) for event in found["items"]]
            return sum(counts) >= times

        path, query = self.at("events.k8s.io/v1", "events"), f"regarding.name={name},reason={reason}"
        found = await self.api.until(path, often, fieldSelector=query)
        items: list[Json] = found["items"]
        return items

    def short(self, node: str) -> str:
        """The short name of a node."""
        return node.removeprefix(f"{self.namespace}-")

    async def end(self) -> None:
        """Nothing new can come into a namespace that is going; what is left there must not hold room any more."""
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        await self.api.delete(self.pods, gracePeriodSeconds=0)
        await asyncio.gather(*map(self._delete, self._shared))

    async def _delete(self, path: str) -> None:
        with suppress(ApiError):  # gone already: that was part of the story
            await self.api.delete(path)


def alive(found: Json) -> list[Json]:
    """The pods of a list that are not being deleted."""
    return [item for item in found["items"] if "deletionTimestamp" not in item["metadata"]]


def condition(item: Json, kind: str) -> Json:
    """A pod's condition without its times, {} if it has none of that type."""
    found: Json = next((c for c in item["status"].get("conditions", ()) if c["type"] == kind), {})
    return {key: value for key, value in found.items() if key not in ("lastProbeTime", "lastTransitionTime")}


def spread(key: str, labels: Mapping[str, str], hard: bool = True, **fields: object) -> list[Json]:
    """One topology spread constraint with a skew of 1."""
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selector = {"matchLabels": dict(labels)}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **fields}]


def apart(labels: Mapping[str, str], key: str = HOSTNAME) -> Json:
    """An affinity: not where a pod with these labels is."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(labels: Mapping[str, str], key: str = HOSTNAME) -> Json:
    """An affinity: only where a pod with these labels is."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_nodes_with(*expressions: Json) -> Json:
    """An affinity: only nodes of which all this is true."""
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
