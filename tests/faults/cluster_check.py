"""What became of the cluster, judged by its objects alone: the scheduler is not asked, and nothing of it is imported.

A pod has one node for good; no node holds more than it has; a pod that fits somewhere is somewhere; and nobody is
promised a node that is gone, or one where nobody makes room any more.
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
    """A quantity as Kubernetes writes it, as a number."""
    written = str(text)
    for suffix, factor in _SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written.removesuffix(suffix)) * factor
    return Fraction(written)


def requests(pod: Json) -> Amounts:
    """What a pod takes of its node: the most that its containers want at once, and one place among the pods."""
    taken: Amounts = defaultdict(Fraction)
    for container in pod["spec"]["containers"]:
        for name, asked in _asked(container).items():
            taken[name] += asked
    for container in pod["spec"].get("initContainers", ()):
        for name, asked in _asked(container).items():
            taken[name] = max(taken[name], asked)
    for name, asked in pod["spec"].get("overhead", {}).items():
        taken[name] += amount(asked)
    return {**taken, "pods": Fraction(1)}


def _asked(container: Json) -> Amounts:
    asked = container.get("resources", {}).get("requests") or {}
    return {name: amount(text) for name, text in asked.items()}


def oversold(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """The nodes that hold more than they have."""
    taken, found = _taken(pods), []
    for node in nodes:
        name = node["metadata"]["name"]
        for resource, has in _free(node, {}).items():
            if taken[name].get(resource, 0) > has:
                found.append(f"node {name} has {has} of {resource} and holds {taken[name][resource]}")
    return found


def left_behind(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """The pods that wait although there is room for them on a node that they may go to."""
    pods, found = list(pods), []
    taken = _taken(pods)
    room = [(node, _free(node, taken[node["metadata"]["name"]])) for node in nodes if _open(node)]
    for pod in filter(_waits, pods):
        wants, selector = requests(pod), pod["spec"].get("nodeSelector") or {}
        for node, free in room:
            if _carries(node, selector) and all(free.get(name, 0) >= needed for name, needed in wants.items()):
                found.append(f"pod {_key(pod)} waits, and node {node['metadata']['name']} has room for it")
                break
    return found


def stale_nominations(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """The pods that are promised a node which is gone, or on which nobody makes room for them."""
    pods, names = list(pods), {node["metadata"]["name"] for node in nodes}
    leaving = {pod["spec"].get("nodeName") for pod in pods if pod["metadata"].get("deletionTimestamp")}
    found = []
    for pod in filter(_waits, pods):
        promised = pod.get("status", {}).get("nominatedNodeName")
        if promised and promised not in names:
            found.append(f"pod {_key(pod)} is promised node {promised}, which is gone")
        elif promised and promised not in leaving:
            found.append(f"pod {_key(pod)} is promised node {promised}, where nobody makes room for it")
    return found


def stranded(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """The pods that were given a node which is not there."""
    names = {node["metadata"]["name"] for node in nodes}
    nowhere = (pod for pod in pods if not _ended(pod) and pod["spec"].get("nodeName", "") not in {"", *names})
    return [f"pod {_key(pod)} is on node {pod['spec']['nodeName']}, which is gone" for pod in nowhere]


@dataclass
class BindingWitness:
    """Every node that a pod was ever seen to have, by UID and in order; whoever is at work has no part in it."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def see(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        seen = self.nodes.setdefault(uid, [])
        self.keys[uid] = _key(pod)
        if node and node not in seen[-1:]:
            seen.append(node)

    def bound_twice(self, agreed: Mapping[str, int]) -> list[str]:
        """The pods that came to have a second node, or were bound more often than the pods of that name were made.

        `agreed` is how often the server has agreed to bind the pod of a name.
        """
        moved = [f"pod {self.keys[uid]} was on {' and '.join(seen)}" for uid, seen in self.nodes.items() if seen[1:]]
        placed: dict[str, int] = defaultdict(int)
        for uid, seen in self.nodes.items():
            placed[self.keys[uid]] += bool(seen)
        often = (key for key, times in agreed.items() if key in placed and times > placed[key])
        return moved + [f"the server has bound pod {key} {agreed[key]} times" for key in often]


@asynccontextmanager
async def witnessing(api: ApiClient, namespace: str) -> AsyncIterator[BindingWitness]:
    """A witness of a namespace's pods for as long as the block lasts, through restarts of the server too."""
    witness, path = BindingWitness(), f"/api/v1/namespaces/{namespace}/pods"
    present = asyncio.Event()

    async def watch() -> None:
        while True:
            with contextlib.suppress(ApiError, OSError, aiohttp.ClientError):
                listed = await api.get(path)
                for pod in listed["items"]:
                    witness.see(pod)
                present.set()
                async for event in api.watch(path, resourceVersion=listed["metadata"]["resourceVersion"]):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        witness.see(event["object"])
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    await present.wait()
    try:
        yield witness
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def problems(api: ApiClient, namespace: str, witness: BindingWitness, agreed: Mapping[str, int]) -> list[str]:
    """All that is wrong with the namespace's pods, and with the nodes, at this moment."""
    nodes, everybody = await api.list(NODES), await api.list(PODS)
    ours = [pod for pod in everybody if pod["metadata"]["namespace"] == namespace]
    for pod in ours:
        witness.see(pod)
    checks = (oversold(everybody, nodes), left_behind(ours, nodes), stale_nominations(ours, nodes))
    return sum(checks, witness.bound_twice(agreed)) + stranded(ours, nodes)


def _taken(pods: Iterable[Json]) -> dict[str, Amounts]:
    """What is taken of each node."""
    taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))
    for pod in pods:
        if pod["spec"].get("nodeName") and not _ended(pod):
            for name, asked in requests(pod).items():
                taken[pod["spec"]["nodeName"]][name] += asked
    return taken


def _free(node: Json, taken: Mapping[str, Fraction]) -> Amounts:
    has = node["status"].get("allocatable") or {}
    return {name: amount(text) - taken.get(name, 0) for name, text in has.items()}


def _open(node: Json) -> bool:
    """Whether the node takes pods that tolerate nothing."""
    keeps_away = any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints") or ())
    return not (keeps_away or node["spec"].get("unschedulable"))


def _carries(node: Json, selector: Mapping[str, str]) -> bool:
    return all(node["metadata"].get("labels", {}).get(key) == value for key, value in selector.items())


def _waits(pod: Json) -> bool:
    spec, leaves = pod["spec"], pod["metadata"].get("deletionTimestamp")
    return not any((spec.get("nodeName"), spec.get("schedulingGates"), leaves, _ended(pod)))


def _ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
