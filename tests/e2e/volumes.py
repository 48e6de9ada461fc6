"""Claims and volumes for end-to-end tests, and a provisioner."""

from __future__ import annotations

from tests.e2e.client import ApiClient, Json

CLASSES, VOLUMES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"
WANTED: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
"""The request of every claim."""
_SELECTED = "volume.kubernetes.io/selected-node"


def selected_node(claim: Json) -> str:
    """Return the selected node of a claim, "" while there is none."""
    return str(claim["metadata"].get("annotations", {}).get(_SELECTED, ""))


def volume(name: str, storage_class: str) -> Json:
    """Return a volume that fits every claim of the class."""
    given = {"accessModes": WANTED["accessModes"], "capacity": {"storage": "1Gi"}, "storageClassName": storage_class}
    source = {"csi": {"driver": "test.example.com", "volumeHandle": name}}
    return {"metadata": {"name": name}, "spec": {**given, **source}}


async def make_volume(api: ApiClient, name: str, claim: Json) -> None:
    """Act as provisioner and volume controller; the class is called `name` too."""
    meta = claim["metadata"]
    made = volume(name, name)
    made["spec"]["claimRef"] = {key: meta[key] for key in ("namespace", "name", "uid")}
    await api.create(VOLUMES, made)
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
    await api.patch(path, {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}})
