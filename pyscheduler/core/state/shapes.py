"""Pods of one template share one shape: here decoded pods become `Pod`s with interned shapes.

The key of a shape is the packed form of everything scheduling reads. Fields that differ between siblings without
meaning anything to a scheduler (the node, secrets' and tokens' volumes, kubectl's bookkeeping) are left out of it.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import msgspec

from pyscheduler.api.objects import ObjectMeta, OwnerReference, PodObject, PodSpec
from pyscheduler.api.pod import Pod, PodShape
from pyscheduler.api.resize import resized

_NOISY_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_SCHEDULED_VOLUMES = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "portworxVolume",
    "vsphereVolume",
    "iscsi",
    "rbd",
    "image",
)


class Shapes:
    """The shapes in use; one is forgotten when its last pod is."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._pack = msgspec.msgpack.Encoder()
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._known)

    def pod(self, source: PodObject) -> Pod:
        """The pod of a decoded API object. QuantityError or SelectorError if scheduling cannot read its spec."""
        meta, status = source.metadata, source.status
        pod = Pod(meta.uid or f"{meta.namespace}/{meta.name}", meta.namespace, meta.name, self._shape(source))
        pod.node_name = source.spec.node_name
        pod.nominated_node_name = status.nominated_node_name
        pod.phase = status.phase
        pod.deleting = meta.deletion_timestamp is not None
        pod.created = meta.creation_timestamp
        pod.start_time = status.start_time
        pod.generation = meta.generation
        pod.resource_version = meta.resource_version
        pod.conditions = status.conditions or ()
        return pod

    def _shape(self, source: PodObject) -> PodShape:
        meta = source.metadata
        spec = _without_noise(source.spec)
        annotations = {k: v for k, v in (meta.annotations or {}).items() if k != _NOISY_ANNOTATION}
        owner = _controller(meta)
        held = resized(source)
        key = self._pack.encode((meta.namespace, meta.labels, annotations, owner, spec, held))
        shape = self._known.get(key)
        if shape is None:
            shape = PodShape(self._next_id, meta.namespace, meta.labels or {}, annotations, owner, spec, held)
            _ = shape.requests  # read it now, so that a bad quantity is found at the door
            self._next_id += 1
            self._known[key] = shape
        return shape


def _controller(meta: ObjectMeta) -> OwnerReference | None:
    return next((o for o in meta.owner_references or () if o.controller), None)


def _without_noise(spec: PodSpec) -> PodSpec:
    volumes = tuple(v for v in spec.volumes or () if any(kind in v for kind in _SCHEDULED_VOLUMES)) or None
    if not spec.node_name and volumes is spec.volumes:
        return spec
    changes: dict[str, Any] = {"node_name": "", "volumes": volumes}
    return msgspec.structs.replace(spec, **changes)
