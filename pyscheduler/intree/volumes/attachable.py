"""Volumes that CSI drivers attach to nodes: the driver and handle of each volume of a pod.

In-tree volumes of five plugins are attached by CSI drivers on every node with a CSINode (KEP-625). Drivers and handles
are those of k8s.io/csi-translation-lib, so that a disk counts once, whether in-tree or CSI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from pyscheduler.api import Pod, PodSignature, StatusError, VolumeClaim
from pyscheduler.intree.volumes.csi_topology import BETA_ZONE, ZONE, ZONE_DELIMITER, check_migration
from pyscheduler.intree.volumes.objects import (
    ClaimFields,
    Object,
    Storage,
    claim_name,
    field,
    labels_of,
    not_found,
    ownership_problem,
    read_claim,
    text,
)

Attachable = tuple[str, str]
"""A volume as (CSI driver, volume handle)."""
_PLACEHOLDER = "\0"
"""Begin of the handle of a volume that is not provisioned yet."""


class _InTree(msgspec.Struct, frozen=True):
    """An in-tree plugin, by the field of its volumes in a spec, and the CSI driver that replaces it."""

    plugin: str
    driver: str
    id_key: str = "volumeID"
    migrated: bool = True
    """False if kube-scheduler does not treat it as migrated on nodes with a CSINode."""


_IN_TREE: Mapping[str, _InTree] = {
    "awsElasticBlockStore": _InTree("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "gcePersistentDisk": _InTree("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "azureDisk": _InTree("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": _InTree("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "portworxVolume": _InTree("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    "azureFile": _InTree("kubernetes.io/azure-file", "file.csi.azure.com", migrated=False),
    "vsphereVolume": _InTree("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", migrated=False),
}
_BY_PLUGIN = {in_tree.plugin: in_tree for in_tree in _IN_TREE.values()}


class CannotAttach(Exception):
    """A volume of a pod is invalid, or its claim is missing (`missing`) and may be created later."""

    def __init__(self, why: str, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


# -- volumes in pods' specs -----------------------------------------------------------------------------------------


def inline_drivers(signature: PodSignature) -> Iterator[str]:
    """Return the CSI drivers of the in-tree volumes in the pod's spec."""
    for volume in signature.spec.volumes or ():
        if not _is_claim(volume) and (source := _source_of(volume)):
            yield _IN_TREE[source].driver


def needs_attaching(signature: PodSignature) -> bool:
    """Return True if a volume of the pod is a claim or of an in-tree plugin that has a CSI driver."""
    return bool(signature.volume_claims) or any(inline_drivers(signature))


def _is_claim(volume: Object) -> bool:
    claim = volume.get("persistentVolumeClaim")
    return type(claim) is dict or isinstance(claim, Mapping) or isinstance(volume.get("ephemeral"), Mapping)


def _source_of(spec: Object) -> str:
    return next((source for source in _IN_TREE if source in spec and isinstance(spec[source], Mapping)), "")


def _inline(volume: Object, has_csi_node: bool) -> Attachable | None:
    source = _source_of(volume)
    if not source or not has_csi_node or not _IN_TREE[source].migrated:
        return None
    try:
        # The zone of a disk in a pod's spec is unknown.
        return _translated(source, {"spec": volume})
    except StatusError as error:
        why = f"converting volume({text(volume, 'name')}) from inline to csi: {str(error).partition(': ')[2]}"
        raise CannotAttach(why) from None


def _translated(source: str, volume: Object) -> Attachable:
    """Return the driver and handle of an in-tree volume. StatusError if the driver cannot take it over."""
    check_migration(volume)
    in_tree = _IN_TREE[source]
    handle = text(volume, "spec", source, in_tree.id_key)
    if source == "awsElasticBlockStore" and handle.startswith("aws://"):
        handle = re.split(r"[?#]", handle)[0].rstrip("/").rpartition("/")[2]
    if source == "gcePersistentDisk":
        handle = f"projects/UNSPECIFIED/{_gce_place(labels_of(volume))}/disks/{handle}"
    return in_tree.driver, handle


def _gce_place(labels: Mapping[str, str]) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"regions/{zones[0].rpartition('-')[0]}"
    return f"zones/{zones[0] or 'UNSPECIFIED'}"


# -- volumes behind claims -------------------------------------------------------------------------------------------


def of_claim(storage: Storage, claim: Object, has_csi_node: bool) -> Attachable | None:
    """Return the volume that the claim is or will be bound to; None if no known CSI driver attaches it."""
    fields = read_claim(claim)
    volume = storage.volume(fields.volume_name) if fields.volume_name else None
    found = _of_class(storage, fields, has_csi_node) if volume is None else of_volume(volume, has_csi_node)
    return found if found is not None and all(found) else None


def csi_handle(volume: Object) -> str | None:
    """Return the handle of a CSI volume; None for other volumes."""
    return text(volume, "spec", "csi", "volumeHandle") if isinstance(field(volume, "spec", "csi"), Mapping) else None


def of_volume(volume: Object, has_csi_node: bool) -> Attachable | None:
    """Return the volume by CSI driver and handle; None if no driver attaches it."""
    handle = csi_handle(volume)
    if handle is not None:
        return text(volume, "spec", "csi", "driver"), handle
    source = _source_of(field(volume, "spec") or {})
    if not source or not has_csi_node or not _IN_TREE[source].migrated:
        return None
    try:
        return _translated(source, volume)
    except StatusError:
        return None


def _of_class(storage: Storage, claim: ClaimFields, has_csi_node: bool) -> Attachable | None:
    """Return the volume that the claim's class will provision, under a unique placeholder handle."""
    storage_class = storage.storage_class(claim.storage_class) if claim.storage_class else None
    if storage_class is None:
        return None  # the claim is bound at once or never, and then its volume counts
    driver = text(storage_class, "provisioner")
    in_tree = _BY_PLUGIN.get(driver)
    if in_tree is not None:
        if not has_csi_node or not in_tree.migrated:
            return None
        driver = in_tree.driver
    return driver, f"{_PLACEHOLDER}{claim.namespace}/{claim.name}"


# -- pods --------------------------------------------------------------------------------------------------------------


def attachable_volumes(storage: Storage, pod: Pod, has_csi_node: bool, is_placed: bool) -> set[Attachable]:
    """Return the pod's volumes that CSI drivers attach. CannotAttach if one is invalid.

    For pods that are placed already, claims that do not exist are skipped.
    """
    found = set()
    claims = iter(pod.signature.volume_claims)
    for volume in pod.spec.volumes or ():
        if _is_claim(volume):
            claim = _claim(storage, pod, next(claims), is_placed)
            attachable = None if claim is None else of_claim(storage, claim, has_csi_node)
        else:
            attachable = _inline(volume, has_csi_node)
        if attachable is not None:
            found.add(attachable)
    return found


def _claim(storage: Storage, pod: Pod, wanted: VolumeClaim, is_placed: bool) -> Object | None:
    name = claim_name(pod, wanted)
    if not name:
        raise CannotAttach("PersistentVolumeClaim had no name")
    claim = storage.claim(pod.namespace, name)
    if claim is None:
        if is_placed:
            return None
        missing = not_found("persistentvolumeclaim", name)
        raise CannotAttach(f"looking up PVC {pod.namespace}/{name}: {missing}", missing=True)
    if wanted.ephemeral and (why := ownership_problem(pod, claim)):
        raise CannotAttach(why)
    return claim
