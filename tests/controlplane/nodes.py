"""Nodes as API objects without kubelets: ready and empty; thousands in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.e2e.client import ApiClient, ApiError, Json

CONCURRENCY = 32
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """Common properties of a batch of nodes; quantities in Kubernetes notation.

    With `zones` > 0 the nodes get the labels zone-0, zone-1 … of the well-known zone key, round robin.
    """

    prefix: str = "node-"
    cpu: str = "4"
    memory: str = "32Gi"
    pods: str = "110"
    zones: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    extended: Mapping[str, str] = field(default_factory=dict)


async def create_nodes(api: ApiClient, count: int, shape: NodeShape = NodeShape(), first: int = 0) -> list[str]:
    """Create `count` ready nodes and return their names.

    The API server taints every new node as not ready; the taint is removed here at once, and not later by the node
    lifecycle controller. An existing node is not changed.
    """
    numbers = iter(range(first, first + count))

    async def worker() -> None:
        for number in numbers:
            await _create(api, _node(shape, number), shape)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CONCURRENCY, count)):
            group.create_task(worker())
    return [f"{shape.prefix}{number}" for number in range(first, first + count)]


async def _create(api: ApiClient, node: Json, shape: NodeShape) -> None:
    try:
        created = await api.create("/api/v1/nodes", node)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return
    if len(created["spec"].get("taints", ())) > len(shape.taints):
        taints = {"spec": {"taints": [dict(taint) for taint in shape.taints] or None}}
        await api.patch(f"/api/v1/nodes/{created['metadata']['name']}", taints)


def _node(shape: NodeShape, number: int) -> Json:
    name = f"{shape.prefix}{number}"
    labels = {"kubernetes.io/hostname": name, **_PLATFORM, **shape.labels}
    if shape.zones:
        labels["topology.kubernetes.io/zone"] = f"zone-{number % shape.zones}"
    capacity = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods, **shape.extended}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [dict(taint) for taint in shape.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": _conditions(),
            "nodeInfo": _NODE_INFO,
        },
    }


def _conditions() -> list[dict[str, str]]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there is no kubelet", **times}
    return [
        ready,
        *({"type": kind, "status": "False", "reason": "Enough", "message": "", **times} for kind in PRESSURES),
    ]


_PLATFORM = {  # old and new names, as kubelets set them: otherwise a controller adds them to every node
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "beta.kubernetes.io/arch": "amd64",
}
_NODE_INFO: dict[str, Any] = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "",
    "osImage": "none",
    "containerRuntimeVersion": "none://0",
    "kubeletVersion": "v1.37.2",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
