"""Binding and provisioning of claims: what the volume controller and a provisioner of every StorageClass do.

A provisioned volume is hollow and can be reached from every node. With WaitForFirstConsumer the scheduler selects a
node first. Claims grow if their class allows it. Left out: snapshots and clones as sources, topology of provisioned
volumes, protection of claims in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyscheduler.embedded.client.kinds import CLAIMS, VOLUMES
from pyscheduler.embedded.objects import Json, Key, dig, labels_of
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, phase, uid_of
from pyscheduler.embedded.workloads.volume_index import VolumeIndex, capacity, class_of, storage_bytes

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_NO_CLASS: Final = "no persistent volumes available for this claim and no storage class is set"
_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)
_WAITS: Final = "waiting for first consumer to be created before binding"


def reconcile_claim(
    claim: Json, volumes: VolumeIndex, classes: Mapping[Key, Json], *, provision: bool = True
) -> list[Action]:
    """Return what binds, provisions or expands a claim, or the Event with the reason that nothing does.

    Without `provision` an external provisioner creates the volumes.
    """
    if is_deleting(claim):
        return []
    if claim["spec"].get("volumeName"):
        volume = volumes.get(claim["spec"]["volumeName"])
        if phase(claim) == "Bound":
            return _after_binding(claim, volume, classes)
        return _bind(claim, volume) if volume is not None and _may_bind(volume, claim) else []
    volume = next((each for each in volumes.reserved_for(key_of(claim)) if _may_bind(each, claim)), None)
    if volume is not None:
        return _bind(claim, volume)
    name = class_of(claim)
    storage_class = classes.get(("", name))
    waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
    if not waits and (volume := _smallest_match(claim, volumes)) is not None:
        return _bind(claim, volume)
    if not name:
        return [RecordAction(claim, "FailedBinding", _NO_CLASS)]
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        return [RecordAction(claim, "ProvisioningFailed", text, "Warning")]
    if waits and SELECTED_NODE not in (claim["metadata"].get("annotations") or {}):
        return [RecordAction(claim, "WaitForFirstConsumer", _WAITS)]
    if storage_class["provisioner"] == NO_PROVISIONER:
        return []
    if not provision:
        return [RecordAction(claim, "ExternalProvisioning", _EXTERNAL.format(storage_class["provisioner"]))]
    return _provision(claim, storage_class)


def _may_bind(volume: Json, claim: Json) -> bool:
    reference = dig(volume, "spec", "claimRef")
    if not reference:
        return True
    same_name = (reference.get("namespace"), reference.get("name")) == key_of(claim)
    return same_name and reference.get("uid") in (None, "", uid_of(claim))


def _smallest_match(claim: Json, volumes: VolumeIndex) -> Json | None:
    spec, selector = claim["spec"], claim["spec"].get("selector")
    selects = selector_test(selector) if selector else lambda _labels: True
    fitting = (
        volume
        for volume in volumes.free(class_of(claim), _request(claim))
        if set(spec.get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())
        and volume["spec"].get("volumeMode") == spec.get("volumeMode")
        and selects(labels_of(volume))
    )
    return next(fitting, None)


def _request(claim: Json) -> int:
    return storage_bytes(dig(claim, "spec", "resources", "requests", "storage"))


def _bind(claim: Json, volume: Json) -> list[Action]:
    meta = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "uid": uid_of(claim)}
    reference |= {"namespace": meta["namespace"], "name": meta["name"]}
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes"),
        "capacity": volume["spec"].get("capacity"),
    }
    identity = {"uid": uid_of(claim)}
    # Another claim may have been bound to it since: then the API server rejects the patch, and the claim is retried.
    read = {"resourceVersion": volume["metadata"].get("resourceVersion", "")}
    return [
        Patch(VOLUMES, key_of(volume), {"metadata": read, "spec": {"claimRef": reference}}),
        Patch(VOLUMES, key_of(volume), {"status": {"phase": "Bound"}}, "status"),
        Patch(
            CLAIMS,
            key_of(claim),
            {"metadata": {**identity, "annotations": _BOUND}, "spec": {"volumeName": volume["metadata"]["name"]}},
        ),
        Patch(CLAIMS, key_of(claim), {"metadata": identity, "status": status}, "status"),
    ]


def _provision(claim: Json, storage_class: Json) -> list[Action]:
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{uid_of(claim)}"
    provisioner = storage_class["provisioner"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "uid": uid_of(claim)}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": {
            "accessModes": spec.get("accessModes"),
            "capacity": {"storage": dig(spec, "resources", "requests", "storage")},
            "claimRef": {**reference, "namespace": meta["namespace"], "name": meta["name"]},
            "csi": {"driver": provisioner, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            **({"mountOptions": storage_class["mountOptions"]} if storage_class.get("mountOptions") else {}),
        },
    }
    event = RecordAction(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
    return [Create(VOLUMES, volume, ignore_already_exists=True), event]


def _after_binding(claim: Json, volume: Json | None, classes: Mapping[Key, Json]) -> list[Action]:
    """Return what marks a claim without its volume as lost, or expands both."""
    if volume is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        lost = Patch(CLAIMS, key_of(claim), {"status": {"phase": "Lost"}}, "status")
        return [lost, RecordAction(claim, "ClaimLost", text, "Warning")]
    storage_class = classes.get(("", class_of(claim)), {})
    if _request(claim) <= capacity(volume) or not storage_class.get("allowVolumeExpansion"):
        return []
    grown = {"storage": dig(claim, "spec", "resources", "requests", "storage")}
    return [
        Patch(VOLUMES, key_of(volume), {"spec": {"capacity": grown}}),
        Patch(CLAIMS, key_of(claim), {"status": {"capacity": grown}}, "status"),
        RecordAction(claim, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded"),
    ]


def reconcile_volume(volume: Json, claims: Mapping[Key, Json]) -> list[Action]:
    """Return what shows a volume as available or released, or deletes it after its claim."""
    reference = dig(volume, "spec", "claimRef")
    if is_deleting(volume):
        return []
    if not reference or not reference.get("uid"):  # free, or reserved for a claim that is not bound to it yet
        return [] if phase(volume) == "Available" else [_phase(volume, "Available")]
    claim = claims.get((reference.get("namespace", ""), reference.get("name", "")))
    if claim is not None and uid_of(claim) == reference["uid"]:
        return []
    if phase(volume) != "Bound" and phase(volume) != "Released":
        return []  # its claim may not have been received yet
    if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return [Delete(VOLUMES, key_of(volume), uid_of(volume))]
    return [] if phase(volume) == "Released" else [_phase(volume, "Released")]


def _phase(volume: Json, name: str) -> Patch:
    return Patch(VOLUMES, key_of(volume), {"status": {"phase": name}}, "status")
