"""Accessors for storage objects, which are decoded JSON with any field possibly missing.

Here, claim means PersistentVolumeClaim and volume PersistentVolume. Follows core/v1 and storage.k8s.io/v1, and the
helpers that kube-scheduler and the PV controller share (k8s.io/component-helpers/storage).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from pyscheduler.api import (
    Handle,
    Pod,
    PodAttributes,
    PodSignature,
    PodSignatureGroup,
    ResourceKind,
    VolumeClaim,
    packed,
)

Object = Mapping[str, Any]
"""An API object, or part of one, as decoded JSON."""
Objects = Mapping[tuple[str, str], Object]
"""Objects of one kind by namespace and name."""
P = TypeVar("P")

VOLUME = ResourceKind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIM = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
STORAGE_CLASS = ResourceKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODE = ResourceKind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVER = ResourceKind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITY = ResourceKind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENT = ResourceKind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)

BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_MAX_READ = 256
"""Number of claims of which the fields are kept: those of a few pods."""


class Storage:
    """Lister of storage objects by name; returns None for objects that are not in the informer's cache."""

    def __init__(self, handle: Handle) -> None:
        """The plugin of the handle must have every kind that is looked up in its `watches`."""
        self._handle = handle

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._claims.get((namespace, name))

    def volume(self, name: str) -> Object | None:
        return self._volumes.get(("", name))

    def storage_class(self, name: str) -> Object | None:
        return self._storage_classes.get(("", name))

    def csi_node(self, node_name: str) -> Object | None:
        return self._csi_nodes.get(("", node_name))

    def csi_driver(self, name: str) -> Object | None:
        return self._csi_drivers.get(("", name))

    @property
    def csi_nodes_version(self) -> int:
        """Number that changes with any CSINode."""
        return self._handle.objects.version(CSI_NODE)

    # Live views, read at the first use: not every plugin watches every kind.

    @cached_property
    def _claims(self) -> Objects:
        return self._handle.objects[CLAIM]

    @cached_property
    def _volumes(self) -> Objects:
        return self._handle.objects[VOLUME]

    @cached_property
    def _storage_classes(self) -> Objects:
        return self._handle.objects[STORAGE_CLASS]

    @cached_property
    def _csi_nodes(self) -> Objects:
        return self._handle.objects[CSI_NODE]

    @cached_property
    def _csi_drivers(self) -> Objects:
        return self._handle.objects[CSI_DRIVER]


def sign_volumes(group: PodSignatureGroup) -> Hashable:
    """Return what volume plugins read of a signature group, for `Plugin.sign_group`."""
    return packed(group.namespace, group.spec.volumes) if group.spec.volumes else ()


# -- any object ------------------------------------------------------------------------------------------------------


def field(obj: Any, *path: str) -> Any:
    """Return the value at a path; None if a part of the path is missing, null or not an object."""
    for key in path:
        if type(obj) is not dict and (obj is None or not isinstance(obj, Mapping)):  # which takes ten times as long
            return None
        obj = obj.get(key)
    return obj


def text(obj: Any, *path: str) -> str:
    """Return the string at a path, "" if there is none."""
    for key in path:  # as in `field`; a call would take a third of the time
        if type(obj) is not dict and (obj is None or not isinstance(obj, Mapping)):
            return ""
        obj = obj.get(key)
    return obj if isinstance(obj, str) else ""


def items(obj: Any, *path: str) -> Iterator[Any]:
    """Yield the entries of the list at a path, none if there is no list."""
    found = field(obj, *path)
    yield from found if isinstance(found, list | tuple) else ()


def labels_of(obj: Any) -> Mapping[str, str]:
    return _strings(field(obj, "metadata", "labels"))


def annotations_of(obj: Any) -> Mapping[str, str]:
    return _strings(field(obj, "metadata", "annotations"))


def name_of(obj: Any) -> str:
    return text(obj, "metadata", "name")


def namespace_of(obj: Any) -> str:
    return text(obj, "metadata", "namespace")


def not_found(resource: str, name: str) -> str:
    """Return the error text of kube-scheduler's listers for a missing object."""
    return f'{resource} "{name}" not found'


class ParsedObjects(Generic[P]):
    """Objects that were parsed, by identity: an object is replaced with each change and never modified."""

    def __init__(self, parse: Callable[[Object], P], most: int) -> None:
        self._parse = parse
        self._most = most
        self._parsed: dict[int, tuple[Object, P]] = {}
        """With the object, whose id is its own as long as it exists."""

    def of(self, source: Object) -> P:
        """Return the parsed object."""
        found = self._parsed.get(id(source))
        if found is None:
            if len(self._parsed) >= self._most:
                self._parsed.clear()
            found = self._parsed[id(source)] = source, self._parse(source)
        return found[1]


# -- claims of pods --------------------------------------------------------------------------------------------------


def claim_name(pod: Pod, claim: VolumeClaim) -> str:
    """Return the name of the claim object in the pod's namespace; "" if the pod states none."""
    return f"{pod.name}-{claim.name}" if claim.ephemeral else claim.name


def claim_names(pod: Pod) -> list[str]:
    """Return the names of all claims of the pod, ephemeral ones included, in the order of its spec."""
    return [claim_name(pod, claim) for claim in pod.signature.volume_claims]


def named_claims(signature: PodSignature) -> list[str]:
    """Return the names of the claims without ephemeral ones."""
    return [claim.name for claim in signature.volume_claims if not claim.ephemeral]


@dataclass(frozen=True, slots=True)
class ClaimsInUse(PodAttributes):
    """Claims of pods as (namespace, name), without ephemeral ones."""

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        return {(signature.namespace, name) for name in named_claims(signature)}


def ownership_problem(pod: Pod, claim: Object) -> str:
    """Return the error if the claim was not created for the pod's ephemeral volume, else ""."""
    controllers = (o for o in items(claim, "metadata", "ownerReferences") if field(o, "controller") is True)
    owner = next(controllers, None)
    if namespace_of(claim) == pod.namespace and owner is not None and text(owner, "uid") == pod.uid:
        return ""
    key = f"{namespace_of(claim)}/{name_of(claim)}"
    return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"


# -- claims and volumes ----------------------------------------------------------------------------------------------


class ClaimFields(NamedTuple):
    """A claim as the plugins read it."""

    source: Object
    namespace: str
    name: str
    storage_class: str
    """Storage class, "" if none; the beta annotation takes precedence over the field."""
    volume_name: str
    """Name of the volume that the claim is bound or pre-bound to, "" if none."""
    is_bound: bool
    """True if the PV controller has finished binding the claim."""
    is_lost: bool
    is_deleting: bool
    is_exclusive: bool
    """True for a ReadWriteOncePod claim."""
    selected_node: str | None
    """Node selected for the claim's provisioning; None if none is yet."""


def _read_claim(claim: Object) -> ClaimFields:
    meta, spec, annotations = field(claim, "metadata"), field(claim, "spec"), annotations_of(claim)
    beta, volume = annotations.get(BETA_CLASS_ANNOTATION), text(spec, "volumeName")
    return ClaimFields(
        claim,
        text(meta, "namespace"),
        text(meta, "name"),
        text(spec, "storageClassName") if beta is None else beta,
        volume,
        bool(volume) and BIND_COMPLETED_ANNOTATION in annotations,
        text(claim, "status", "phase") == "Lost",
        field(meta, "deletionTimestamp") is not None,
        READ_WRITE_ONCE_POD in items(spec, "accessModes"),
        annotations.get(SELECTED_NODE_ANNOTATION),
    )


read_claim = ParsedObjects(_read_claim, _MAX_READ).of
"""Returns the fields of a claim; four plugins read them in each attempt of a pod with claims."""


def class_of_claim(claim: Object) -> str:
    """Return the claim's storage class, "" if none."""
    return read_claim(claim).storage_class


def class_of_volume(volume: Object) -> str:
    """Return the volume's storage class, "" if none; the beta annotation takes precedence over the field."""
    beta = annotations_of(volume).get(BETA_CLASS_ANNOTATION)
    return text(volume, "spec", "storageClassName") if beta is None else beta


def volume_of_claim(claim: Object) -> str:
    """Return the name of the volume that the claim is bound or pre-bound to, "" if none."""
    return read_claim(claim).volume_name


def is_bound(claim: Object) -> bool:
    """Return True if the PV controller has finished binding the claim."""
    return read_claim(claim).is_bound


def binding_mode(storage_class: Object) -> str | None:
    """Return `Immediate` or `WaitForFirstConsumer`; None if the field is missing (the API server defaults it)."""
    mode = field(storage_class, "volumeBindingMode")
    return mode if isinstance(mode, str) else None


def _strings(found: Any) -> Mapping[str, str]:
    return found if type(found) is dict or (found is not None and isinstance(found, Mapping)) else {}
