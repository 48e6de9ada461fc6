"""Objects for end-to-end tests, and helpers that read a cluster.

Every test has its own nodes: they have the label `pool`, and its pods select it, so that tests that share a cluster
do not share resources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pyscheduler.clock import SystemClock
from pyscheduler.embedded.hollow import HollowNodes, LifecycleTimings, NodeTemplate, node_templates
from pyscheduler.kube.connection import ConnectionOptions, connect
from tests.e2e.client import Json
from tests.e2e.plane import Plane

POOL = "pool"


@asynccontextmanager
async def hollow_nodes(
    plane: Plane, pool: str, count: int, cpu: str = "4", memory: str = "32Gi", pods: str = "110"
) -> AsyncIterator[HollowNodes]:
    """Run nodes for the test's pods, and delete them at the end."""
    plain = node_templates(count, cpu=cpu, memory=memory, pods=pods, prefix=f"{pool}-")
    async with hollow(plane, [in_pool(template, pool) for template in plain]) as nodes:
        yield nodes


@asynccontextmanager
async def hollow(plane: Plane, templates: Sequence[NodeTemplate] = ()) -> AsyncIterator[HollowNodes]:
    """Run nodes of these templates. The test must delete nodes that it adds."""
    connection = await connect(plane.kubeconfig, ConnectionOptions(qps=-1))
    nodes = HollowNodes(
        connection,
        templates,
        clock=SystemClock(),
        timings=LifecycleTimings(start_seconds=0),
        heartbeat_seconds=None if plane.real else 10.0,
        clear_taints=True,
    )
    try:
        async with nodes:
            yield nodes
    finally:  # also after a failed or skipped test
        await connection.close()
        for name in [template.name for template in templates]:
            await plane.api.delete(f"/api/v1/nodes/{name}")


def in_pool(template: NodeTemplate, pool: str) -> NodeTemplate:
    """Return the node with the label that the pool's pods select."""
    return dataclasses.replace(template, labels={**template.labels, POOL: pool})


def pod_spec(scheduler: str, pool: str, cpu: str = "100m", **fields: object) -> Json:
    """Return a pod spec with one container."""
    container = {"name": "main", "image": "pause:1", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    return {"schedulerName": scheduler, "nodeSelector": {POOL: pool}, "containers": [container], **fields}


def pod(name: str, spec: Json, labels: dict[str, str] | None = None) -> Json:
    """Return a bare pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def deployment(name: str, replicas: int, spec: Json) -> Json:
    """Return a Deployment of these pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def job(name: str, completions: int, parallelism: int, spec: Json) -> Json:
    """Return a Job with pods that succeed after a second on hollow nodes."""
    template = {
        "metadata": {"annotations": {"pyscheduler.io/run-seconds": "1"}},
        "spec": {**spec, "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": parallelism, "template": template},
    }


def placed(found: Json) -> dict[str, str]:
    """Return the nodes of the bound pods in a list, by pod name."""
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in found["items"] if p["spec"].get("nodeName")}


def running(found: Json) -> int:
    """Return the number of Running pods in a list."""
    return sum(p["status"]["phase"] == "Running" for p in found["items"])


def unscheduled(item: Json) -> str:
    """Return the message of a pod's PodScheduled=False condition, "" if it has none."""
    conditions = item["status"].get("conditions", ())
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )
