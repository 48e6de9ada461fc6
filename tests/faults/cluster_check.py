"""Independent check of a cluster by its objects alone; it imports no code of the scheduler.

A pod keeps its node; no node is overcommitted; a pod that fits on a node is bound; and no pod is nominated to a node
that is deleted or has no pods being evicted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import aiohttp

from tests.e2e.client import ApiClient, ApiError, Json

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
_SUFFIXES = {
    **{suffix: Fraction(1024) ** i for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** i for i, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}
Amounts = dict[str, Fraction]


def amount(text: str | int) -> Fraction:
    """Parse a Kubernetes quantity."""
    written = str(text)
    for suffix, factor in _SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written.removesuffix(suffix)) * factor
    return Fraction(written)


def requests(pod: Json) -> Amounts:
    """Return the effective requests of a pod, including init containers, overhead and one pod."""
    taken: Amounts = defaultdict(Fraction)
    for container in pod["spec"]["containers"]:
        for name, request in _container_requests(container).items():
            taken[name] += request
    for container in pod["spec"].get("initContainers", ()):
        for name, request in _container_requests(container).items():
            taken[name] = max(taken[name], request)
    for name, request in pod["spec"].get("overhead", {}).items():
        taken[name] += amount(request)
    return {**taken, "pods": Fraction(1)}


def _container_requests(container: Json) -> Amounts:
    quantities = container.get("resources", {}).get("requests") or {}
    return {name: amount(text) for name, text in quantities.items()}


def oversold(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """Return the nodes with more requests than allocatable resources, as messages."""
    taken, wrong = _taken(pods), []
    for node in nodes:
        name = node["metadata"]["name"]
        for resource, has in _free(node, {}).items():
            if taken[name].get(resource, 0) > has:
                wrong.append(f"node {name} has {has} of {resource}, but {taken[name][resource]} are requested")
    return wrong


def left_behind(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """Return the pending pods that fit on a node, as messages."""
    pods, wrong = list(pods), []
    taken = _taken(pods)
    room = [(node, _free(node, taken[node["metadata"]["name"]])) for node in nodes if _open(node)]
    for pod in filter(_is_pending, pods):
        wants, selector = requests(pod), pod["spec"].get("nodeSelector") or {}
        for node, free in room:
            if _has_labels(node, selector) and all(free.get(name, 0) >= needed for name, needed in wants.items()):
                wrong.append(f"pod {_key(pod)} is pending, but node {node['metadata']['name']} has room for it")
                break
    return wrong


def stale_nominations(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """Return the pods with a nominated node that is deleted or has no pods being evicted, as messages."""
    pods, names = list(pods), {node["metadata"]["name"] for node in nodes}
    leaving = {pod["spec"].get("nodeName") for pod in pods if pod["metadata"].get("deletionTimestamp")}
    wrong = []
    for pod in filter(_is_pending, pods):
        nominated = pod.get("status", {}).get("nominatedNodeName")
        if nominated and nominated not in names:
            wrong.append(f"pod {_key(pod)} is nominated to node {nominated}, which does not exist")
        elif nominated and nominated not in leaving:
            wrong.append(f"pod {_key(pod)} is nominated to node {nominated}, which has no pods being evicted")
    return wrong


def stranded(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """Return the pods that are bound to a node that does not exist, as messages."""
    names = {node["metadata"]["name"] for node in nodes}
    nowhere = (pod for pod in pods if not _ended(pod) and pod["spec"].get("nodeName", "") not in {"", *names})
    return [f"pod {_key(pod)} is on node {pod['spec']['nodeName']}, which does not exist" for pod in nowhere]


@dataclass
class BindingWitness:
    """Nodes that each pod was observed on, by UID and in order."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def observe(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        observed = self.nodes.setdefault(uid, [])
        self.keys[uid] = _key(pod)
        if node and node not in observed[-1:]:
            observed.append(node)

    def bound_twice(self, accepted: Mapping[str, int]) -> list[str]:
        """Return the pods with a second node, or with more accepted bindings than bound pods of that name.

        `accepted` is the number of bindings that the server accepted, by pod name.
        """
        moved = [f"pod {self.keys[uid]} was on {' and '.join(nodes)}" for uid, nodes in self.nodes.items() if nodes[1:]]
        placed: dict[str, int] = defaultdict(int)
        for uid, nodes in self.nodes.items():
            placed[self.keys[uid]] += bool(nodes)
        too_often = (key for key, times in accepted.items() if key in placed and times > placed[key])
        return moved + [f"the server has bound pod {key} {accepted[key]} times" for key in too_often]


@asynccontextmanager
async def witnessing(api: ApiClient, namespace: str) -> AsyncIterator[BindingWitness]:
    """Observe a namespace's pods inside the block, also across restarts of the server."""
    witness, path = BindingWitness(), f"/api/v1/namespaces/{namespace}/pods"
    present = asyncio.Event()

    async def watch() -> None:
        while True:
            with contextlib.suppress(ApiError, OSError, aiohttp.ClientError):
                listed = await api.get(path)
                for pod in listed["items"]:
                    witness.observe(pod)
                present.set()
                async for event in api.watch(path, resourceVersion=listed["metadata"]["resourceVersion"]):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        witness.observe(event["object"])
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    await present.wait()
    try:
        yield witness
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def problems(api: ApiClient, namespace: str, witness: BindingWitness, accepted: Mapping[str, int]) -> list[str]:
    """Return all current problems of the namespace's pods and of the nodes, as messages."""
    nodes, all_pods = await api.list(NODES), await api.list(PODS)
    ours = [pod for pod in all_pods if pod["metadata"]["namespace"] == namespace]
    for pod in ours:
        witness.observe(pod)
    checks = (oversold(all_pods, nodes), left_behind(ours, nodes), stale_nominations(ours, nodes))
    return sum(checks, witness.bound_twice(accepted)) + stranded(ours, nodes)


def _taken(pods: Iterable[Json]) -> dict[str, Amounts]:
    """Return the requests of the bound pods by node."""
    taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))
    for pod in pods:
        if pod["spec"].get("nodeName") and not _ended(pod):
            for name, request in requests(pod).items():
                taken[pod["spec"]["nodeName"]][name] += request
    return taken


def _free(node: Json, taken: Mapping[str, Fraction]) -> Amounts:
    has = node["status"].get("allocatable") or {}
    return {name: amount(text) - taken.get(name, 0) for name, text in has.items()}


def _open(node: Json) -> bool:
    """Return True if the node accepts pods without tolerations."""
    is_tainted = any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints") or ())
    return not (is_tainted or node["spec"].get("unschedulable"))


def _has_labels(node: Json, selector: Mapping[str, str]) -> bool:
    return all(node["metadata"].get("labels", {}).get(key) == value for key, value in selector.items())


def _is_pending(pod: Json) -> bool:
    spec, leaves = pod["spec"], pod["metadata"].get("deletionTimestamp")
    return not any((spec.get("nodeName"), spec.get("schedulingGates"), leaves, _ended(pod)))


def _ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
