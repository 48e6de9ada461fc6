"""Volumes attached to each node, for the limits of NodeVolumeLimits.

To look up every volume of a node takes as long as all other filters on 50 nodes, so the volumes of a pod are kept until
an object that was looked up for them changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from pyscheduler.api import Handle, NodeInfo, Pod, PodSignature, ResourceKind, StatusError
from pyscheduler.intree._object_index import Key, ObjectIndex
from pyscheduler.intree.volumes.attachable import (
    Attachable,
    CannotAttach,
    attachable_volumes,
    csi_handle,
    needs_attaching,
)
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

    of_pods: frozenset[Attachable]
    used: Mapping[str, int]
    """Number of volumes by driver, including those that are attached without a pod."""


class _Volumes(NamedTuple):
    """Volumes of one pod, or of the VolumeAttachments of a node."""

    volumes: frozenset[Attachable]
    dependencies: frozenset[Dependency] = frozenset()
    signature: PodSignature | None = None
    """Signature of the pod."""


_NO_VOLUMES = _Volumes(frozenset())
_ATTACHMENTS = ""
"""Stands for the VolumeAttachments of a node among the UIDs of its pods."""


class _Node(msgspec.Struct, eq=False):
    """Volumes of a node by source."""

    sources: dict[str, _Volumes] = {}
    """Volumes by the UID of the pod, and those of the VolumeAttachments."""
    volumes: NodeVolumes | None = None
    """Their sum; None if a source has changed."""


class AttachedVolumes:
    """Volumes attached to nodes. Call `refresh` before, once for any number of nodes."""

    def __init__(self, handle: Handle, storage: Storage) -> None:
        self._handle = handle
        self._storage = storage
        self._objects = handle.objects[VOLUME_ATTACHMENT]
        self._attachments = ObjectIndex(handle, VOLUME_ATTACHMENT, self._read, lambda found: (found.node_name,))
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[Dependency, set[tuple[str, str]]] = {}
        """Sources by what they depend on, as (node, UID)."""
        self._versions = dict.fromkeys(_READ, -1)
        self.most_attachments = 0
        """Upper bound of the number of VolumeAttachments of any node."""

    def refresh(self, nodes: int) -> Iterable[str]:
        """Invalidate what objects have changed for; `nodes` is the number of nodes in the cluster.

        Return the names of the nodes with volumes that may be others now.
        """
        objects, touched = self._handle.objects, dict[str, None]()
        if len(self._nodes) > 2 * nodes + _SPARE:  # most of these nodes have been deleted
            touched |= self._clear()
        for kind in _READ:
            version = objects.version(kind)
            if version == self._versions[kind]:
                continue
            changed = objects.changed_since(kind, self._versions[kind])
            self._versions[kind] = version
            if changed is None:
                touched |= self._clear()
                continue
            for key in changed:
                touched |= self._invalidate(kind, key)
        return touched

    def _invalidate(self, kind: ResourceKind, key: Key) -> dict[str, None]:
        """Drop the volumes that depend on an object; return the names of their nodes."""
        sources = {*self._dependents.get((kind, key), ())}
        if kind is VOLUME_ATTACHMENT:
            name = text(self._objects.get(key), "spec", "nodeName")
            self.most_attachments = max(self.most_attachments, len(self._attachments.by_value(name)))
            sources.add((name, _ATTACHMENTS))
        touched = dict[str, None]()
        for name, uid in sorted(sources):
            node = self._nodes.get(name)
            if node is not None:
                self._drop(name, node, uid)
                touched[name] = None
        return touched

    def _clear(self) -> dict[str, None]:
        names = dict.fromkeys(self._nodes)
        self._nodes.clear()
        self._dependents.clear()
        self.most_attachments = max(map(len, self._attachments.values.values()), default=0)
        return names

    def _drop(self, name: str, node: _Node, uid: str) -> None:
        node.volumes = None
        source = node.sources.pop(uid, _NO_VOLUMES)
        for dependency in source.dependencies:
            dependents = self._dependents[dependency]
            dependents.discard((name, uid))
            if not dependents:
                del self._dependents[dependency]

    # -- one node --------------------------------------------------------------------------------------------------

    def of(self, node: NodeInfo) -> NodeVolumes:
        """Return the volumes of a node, which must not be one of a dry run.

        StatusError if the volumes of one of its pods are invalid.
        """
        name = node.name
        known = self._nodes.get(name)
        if known is None:
            known = self._nodes[name] = _Node()
        sources = known.sources
        for uid in sources.keys() - node.pods.keys() - {_ATTACHMENTS}:
            self._drop(name, known, uid)
        for uid, source in self._read_sources(node, sources):
            self._drop(name, known, uid)
            sources[uid] = source
            for dependency in source.dependencies:
                self._dependents.setdefault(dependency, set()).add((name, uid))
        if known.volumes is None:
            known.volumes = _sum(sources, sources)
        return known.volumes

    def read(self, node: NodeInfo) -> NodeVolumes:
        """Return the volumes of any node, also of a dry run. StatusError as of `of`."""
        known = self._nodes.get(node.name)
        sources = {} if known is None else {**known.sources}
        sources |= self._read_sources(node, sources)
        return _sum(sources, (_ATTACHMENTS, *node.pods))

    def _read_sources(self, node: NodeInfo, known: Mapping[str, _Volumes]) -> list[tuple[str, _Volumes]]:
        """Return the sources of a node that are not known yet."""
        found = []
        for uid, pod in node.pods.items():
            source = known.get(uid)
            if source is None or source.signature is not pod.signature:
                found.append((uid, self._volumes_of_pod(pod)))
        if _ATTACHMENTS not in known:
            found.append((_ATTACHMENTS, self._volumes_of_attachments(node.name)))
        return found

    def _volumes_of_pod(self, pod: Pod) -> _Volumes:
        if not needs_attaching(pod.signature):
            return _Volumes(frozenset(), signature=pod.signature)
        try:
            volumes = frozenset(attachable_volumes(self._storage, pod, has_csi_node=True, is_placed=True))
        except CannotAttach as problem:
            raise StatusError(str(problem)) from None
        return _Volumes(volumes, frozenset(self._read_by(pod)), pod.signature)

    def _volumes_of_attachments(self, node_name: str) -> _Volumes:
        """Return the CSI volumes among those that are attached."""
        volumes, attachments = set(), self._attachments.by_value(node_name)
        dependencies: set[Dependency] = {(VOLUME_ATTACHMENT, key) for key in attachments}
        for attachment in attachments.values():
            dependencies.add((VOLUME, ("", attachment.volume)))
            volume = self._storage.volume(attachment.volume)
            handle = csi_handle(volume) if volume is not None else None
            if handle is not None:
                volumes.add((attachment.attacher, handle))
        return _Volumes(frozenset(volumes), frozenset(dependencies))

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


def _sum(sources: Mapping[str, _Volumes], uids: Iterable[str]) -> NodeVolumes:
    """Return the volumes of these sources, one of which is that of the VolumeAttachments."""
    volumes = [sources[uid].volumes for uid in uids if uid != _ATTACHMENTS and sources[uid].volumes]
    of_pods = frozenset[Attachable]().union(*volumes)
    # A volume that is attached without a pod using it counts once more for the incoming pod, as in kube-scheduler.
    return NodeVolumes(of_pods, Counter(driver for driver, _ in of_pods | sources[_ATTACHMENTS].volumes))
