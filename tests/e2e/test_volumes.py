"""Volumes, end to end: a claim gets its selected node, a volume is provisioned, the pod is bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.volumes import CLASSES, VOLUMES, WANTED, make_volume, selected_node
from tests.e2e.workloads import hollow_nodes, pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pod_is_bound_after_its_claim(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, core = control_plane.api, f"/api/v1/namespaces/{namespace}"
    claim = f"{core}/persistentvolumeclaims/data"
    late = {"provisioner": "test.example.com/maker", "volumeBindingMode": "WaitForFirstConsumer"}
    await api.create(CLASSES, {"metadata": {"name": namespace}, **late})
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    async with (
        hollow_nodes(control_plane, namespace, 1, cpu="1"),
        scheduler(control_plane, Configured(namespace), tmp_path),
    ):
        await api.create(f"{core}/pods", pod("web", pod_spec(namespace, namespace, volumes=uses)))
        found = await api.until(f"{core}/pods/web", _message)
        assert 'persistentvolumeclaim "data" not found' in _message(found)
        await api.create(
            f"{core}/persistentvolumeclaims",
            {"metadata": {"name": "data"}, "spec": {**WANTED, "storageClassName": namespace}},
        )
        chosen = await api.until(claim, selected_node)
        await make_volume(api, namespace, chosen)
        bound = await api.until(f"{core}/pods/web", lambda found: found["spec"].get("nodeName"))
        assert bound["spec"]["nodeName"] == selected_node(chosen)
    await api.delete(f"{VOLUMES}/{namespace}")
    await api.delete(f"{CLASSES}/{namespace}")


def _message(found: Json) -> str:
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), "")
