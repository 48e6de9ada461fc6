"""Volumes, end to end: a claim that waits for its pod is given the pod's node, a volume is made, the pod is bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes, pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLASSES, VOLUMES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"
SELECTED = "volume.kubernetes.io/selected-node"
WANTED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def test_a_pod_is_bound_once_its_claim_is(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
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
        told = await api.until(f"{core}/pods/web", _message)
        assert 'persistentvolumeclaim "data" not found' in _message(told)
        await api.create(
            f"{core}/persistentvolumeclaims",
            {"metadata": {"name": "data"}, "spec": {**WANTED, "storageClassName": namespace}},
        )
        chosen = await api.until(claim, _selected)
        await _make_volume(control_plane, namespace, chosen)
        bound = await api.until(f"{core}/pods/web", lambda found: found["spec"].get("nodeName"))
        assert bound["spec"]["nodeName"] == _selected(chosen)
    await api.delete(f"{VOLUMES}/{namespace}")
    await api.delete(f"{CLASSES}/{namespace}")


async def _make_volume(control_plane: Plane, name: str, claim: Json) -> None:
    """What a provisioner does, and the volume controller after it."""
    api, meta = control_plane.api, claim["metadata"]
    reference = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    given = {"accessModes": WANTED["accessModes"], "capacity": {"storage": "1Gi"}, "storageClassName": name}
    source = {"csi": {"driver": "test.example.com", "volumeHandle": name}}
    await api.create(VOLUMES, {"metadata": {"name": name}, "spec": {**given, **source, "claimRef": reference}})
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
    await api.patch(path, {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}})


def _selected(claim: Json) -> str:
    return str(claim["metadata"].get("annotations", {}).get(SELECTED, ""))


def _message(found: Json) -> str:
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), "")
