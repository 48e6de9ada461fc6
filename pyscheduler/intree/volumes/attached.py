"""Volumes attached to each node, for the limits of NodeVolumeLimits.

To look up every volume of a node takes as long as all other filters on 50 nodes, so the result is kept until the pods
of the node change, or an object that was looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from pyscheduler.api import Handle, NodeInfo, Pod, ResourceKind, StatusError
from pyscheduler.intree.volumes.attachable import Attachable, CannotAttach, attachable_volumes, csi_handle
from pyscheduler.intree.volumes.object_index import Key, ObjectIndex
from pyscheduler.intree.volumes.objects import (
    CLAIM,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    Storage,
    claim_name,
    class_of_claim,
    text,
    volume_of_claim,
)

_SPARE = 64
_READ = (CLAIM, VOLUME, STORAGE_CLASS, VOLUME_ATTACHMENT)
Dependency = tuple[ResourceKind, Key]
"""An object that was looked up, whether it exists or not."""


class Attachment(msgspec.Struct, frozen=True):
    """A VolumeAttachment."""

    node_name: str
    attacher: str
    volume: str


class NodeVolumes(msgspec.Struct, frozen=True, eq=False):
    """Volumes attached to a node or being attached."""

    pods: tuple[Pod, ...] | None
    """Pods for which this was computed; None if it is no longer valid."""
    of_pods: frozenset[Attachable]
    used: Mapping[str, int]
    """Number of volumes by driver, including those that are attached without a pod."""
    dependencies: frozenset[Dependency]


class AttachedVolumes:
    """Volumes attached to nodes."""

    def __init__(self, handle: Handle, storage: Storage) -> None:
        self._handle = handle
        self._storage = storage
        self._objects = handle.objects[VOLUME_ATTACHMENT]
        self._attachments = ObjectIndex(handle, VOLUME_ATTACHMENT, self._read, lambda found: (found.node_name,))
        self._cached: dict[str, NodeVolumes] = {}
        self._dependents: dict[Dependency, set[str]] = {}
        """Names of the cached nodes by what they depend on."""
        self._versions = dict.fromkeys(_READ, -1)
        self._most = 0
        self._most_version = -1

    @property
    def most_attachments(self) -> int:
        """Largest number of VolumeAttachments of any node."""
        if self._most_version != self._attachments.version:
            self._most_version = self._attachments.version
            self._most = max(map(len, self._attachments.values.values()), default=0)
        return self._most

    def cached(self, node: NodeInfo) -> NodeVolumes | None:
        """Return the cached volumes of a node; None if there are none or they are no longer valid.

        Call `refresh` before, once for any number of nodes.
        """
        cached = self._cached.get(node.name)
        return cached if cached is not None and cached.pods == tuple(node.pods.values()) else None

    def store(self, name: str, volumes: NodeVolumes) -> None:
        """Cache the volumes of a node, which must not be one of a dry run."""
        before = self._cached.get(name)
        if before is volumes:
            return
        self._cached[name] = volumes
        for gone in before.dependencies - volumes.dependencies if before else ():
            names = self._dependents.get(gone, set())
            names.discard(name)
            if not names:
                self._dependents.pop(gone, None)
        for dependency in volumes.dependencies:
            self._dependents.setdefault(dependency, set()).add(name)

    def refresh(self, nodes: int) -> None:
        """Invalidate what objects have changed for; `nodes` is the number of nodes in the cluster."""
        if len(self._cached) > 2 * nodes + _SPARE:  # most of these nodes have been deleted
            self._clear()
        objects = self._handle.objects
        for kind in _READ:
            version = objects.version(kind)
            if version == self._versions[kind]:
                continue
            changed = objects.changed_since(kind, self._versions[kind])
            self._versions[kind] = version
            if changed is None:
                self._clear()
                continue
            for key in changed:
                self._invalidate(kind, key)

    def _invalidate(self, kind: ResourceKind, key: Key) -> None:
        names = set(self._dependents.get((kind, key), ()))
        if kind is VOLUME_ATTACHMENT:
            names.add(text(self._objects.get(key), "spec", "nodeName"))
        for name in names & self._cached.keys():
            self._cached[name] = msgspec.structs.replace(self._cached[name], pods=None)

    def _clear(self) -> None:
        self._cached.clear()
        self._dependents.clear()

    # -- one node --------------------------------------------------------------------------------------------------

    def read(self, node: NodeInfo) -> NodeVolumes:
        """Return the volumes of a node. StatusError if the volumes of one of its pods are invalid."""
        pods = tuple(node.pods.values())
        with_volumes = [pod for pod in pods if pod.spec.volumes]
        try:
            of_pods = frozenset(
                volume
                for pod in with_volumes
                for volume in attachable_volumes(self._storage, pod, has_csi_node=True, is_placed=True)
            )
        except CannotAttach as problem:
            raise StatusError(str(problem)) from None
        attachments = self._attachments.by_value(node.name)
        # A volume that is attached without a pod using it counts once more for the incoming pod, as in kube-scheduler.
        used = Counter(driver for driver, _ in of_pods | self._volumes_of(attachments))
        dependencies = {(VOLUME_ATTACHMENT, key) for key in attachments}
        dependencies |= {(VOLUME, ("", attachment.volume)) for attachment in attachments.values()}
        return NodeVolumes(pods, of_pods, used, frozenset(dependencies.union(*map(self._read_by, with_volumes))))

    def _volumes_of(self, attachments: Mapping[Key, Attachment]) -> set[Attachable]:
        """Return the CSI volumes among those that are attached."""
        found = set()
        for attachment in attachments.values():
            volume = self._storage.volume(attachment.volume)
            handle = csi_handle(volume) if volume is not None else None
            if handle is not None:
                found.add((attachment.attacher, handle))
        return found

    def _read_by(self, pod: Pod) -> Iterator[Dependency]:
        """Yield what was looked up for the claims of a pod."""
        for wanted in pod.signature.volume_claims:
            name = claim_name(pod, wanted)
            yield CLAIM, (pod.namespace, name)
            claim = self._storage.claim(pod.namespace, name)
            if claim is not None:
                yield VOLUME, ("", volume_of_claim(claim))
                yield STORAGE_CLASS, ("", class_of_claim(claim))

    def _read(self, key: Key) -> Attachment | None:
        """Return an attachment; None if the object is gone or does not attach a PersistentVolume."""
        source = self._objects.get(key)
        attacher, name = text(source, "spec", "attacher"), text(source, "spec", "source", "persistentVolumeName")
        return Attachment(text(source, "spec", "nodeName"), attacher, name) if attacher and name else None
