"""Hostile objects against an API server: what it refuses already, and that what it takes hurts nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.client import ApiError, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, deployment, hollow_nodes, pod_spec, running
from tests.hostile.objects import PODS, Hostile

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEIGHBOURS = 60
MOST_MEMORY = 1 << 30
"""Bytes at the highest, with a dozen objects of up to a megabyte and a half in the cluster."""


def posted(name: str, hostile: Hostile, namespace: str) -> bytes:
    """The hostile pod as the tenant posts it: under a name of its own, for this test's scheduler and nodes."""
    made = hostile.make()
    if isinstance(made, bytes):
        return made.replace(b'"hostile"', json.dumps(name).encode(), 1).replace(
            b"default-scheduler", namespace.encode()
        )
    manifest: Json = made.manifest
    spec = manifest["spec"]
    if isinstance(spec, dict):
        scheduler_name = spec["schedulerName"].replace("default-scheduler", namespace)
        selector = {} if spec.get("nodeName") else {POOL: namespace}
        spec = {**spec, "schedulerName": scheduler_name, "nodeSelector": selector}
    metadata = {**manifest["metadata"], "namespace": namespace}
    if metadata["name"] == "hostile":
        metadata["name"] = name
    del metadata["uid"]
    return json.dumps({**manifest, "metadata": metadata, "spec": spec}).encode()


async def test_what_the_api_server_takes_hurts_nobody_else(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    names = {name: f"hostile-{i}" for i, name in enumerate(PODS)}
    async with (
        hollow_nodes(control_plane, namespace, 10),
        scheduler(control_plane, Configured(namespace), tmp_path) as running_scheduler,
    ):
        admitted = set()
        for name, hostile in PODS.items():
            try:
                await api.post(pods, posted(names[name], hostile, namespace))
                admitted.add(name)
            except ApiError:
                continue
        if control_plane.real is not None:
            assert admitted == {name for name, hostile in PODS.items() if hostile.admitted}
        workload = deployment("web", NEIGHBOURS, pod_spec(namespace, namespace))
        await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", workload)
        await api.until(pods, lambda found: running(found) == NEIGHBOURS, 90, labelSelector="app=web")
        assert running_scheduler.peak_memory() < MOST_MEMORY
        assert "Traceback" not in running_scheduler.log.read_text()
