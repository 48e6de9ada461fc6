"""NodeVolumeLimits: respect the volume limits of CSI drivers, which the node's CSINode states (KEP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    Mask,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodCount,
    PodSignature,
    PodSignatureGroup,
    PreFilterPlugin,
    Reads,
    Rejection,
    Skip,
    StateKey,
    StatusError,
    packed,
)
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.intree.volumes.attachable import (
    Attachable,
    CannotAttach,
    attachable_volumes,
    csi_handle,
    inline_drivers,
)
from pyscheduler.intree.volumes.limit_hints import LimitHints, limits_of, needs_attaching
from pyscheduler.intree.volumes.object_index import Key, ObjectIndex
from pyscheduler.intree.volumes.objects import Storage, text

TOO_MANY = Rejection("node(s) exceed max volume count")
_UNKNOWN_COUNT = 1_000_000
"""More than any limit, so that the volumes of such a pod are examined one by one."""


@dataclass(frozen=True, slots=True)
class AttachableVolumeCount(PodCount):
    """Upper bound of the volumes that drivers may have to attach for a pod."""

    @property
    def terminating(self) -> bool:
        return True

    def of(self, signature: PodSignature) -> int:
        claims = signature.volume_claims
        odd = any(claim.ephemeral or not claim.name for claim in claims) or any(inline_drivers(signature))
        return _UNKNOWN_COUNT if odd else len(claims)


class _IncomingVolumes(msgspec.Struct, frozen=True):
    """Volumes of the incoming pod, or the problem that keeps them from being determined."""

    volumes: frozenset[Attachable] = frozenset()
    problem: str = ""
    missing: bool = False

    def rejection(self) -> Rejection | None:
        """Return the rejection by every node while a claim is missing. StatusError for any other problem."""
        if self.problem and not self.missing:
            raise StatusError(self.problem)
        return Rejection(self.problem, resolvable=False) if self.problem else None


_INCOMING_VOLUMES: StateKey[tuple[_IncomingVolumes, _IncomingVolumes]] = StateKey("NodeVolumeLimits")
"""Volumes as seen by nodes without a CSINode, and by nodes with one."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Reject nodes with no attachments left for the pod's volumes; a volume that is already attached does not count."""

    name = "NodeVolumeLimits"
    reads = Reads.EVERYTHING
    reads_in_dry_run = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_match_fields = False
    pre_reads_nodes = False
    reads_identity = True  # the names of ephemeral claims contain the pod's name
    watches = (kinds.CLAIM, kinds.VOLUME, kinds.STORAGE_CLASS, kinds.CSI_NODE, kinds.VOLUME_ATTACHMENT)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle)
        self._limits = _Limits(handle)
        self._attachments = _Attachments(handle)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return packed(group.namespace, group.spec.volumes) if group.spec.volumes else ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints, every = LimitHints(self._storage), Action.ADD | Action.UPDATE | Action.DELETE
        return (
            ClusterEventWithHint(kinds.CSI_NODE.kind, Action.ADD | Action.DELETE),
            ClusterEventWithHint(kinds.CSI_NODE.kind, Action.UPDATE, hints.limit_changed),
            ClusterEventWithHint(NODE, Action.ADD),
            ClusterEventWithHint(POD, Action.DELETE, hints.pod_deleted),
            ClusterEventWithHint(POD, Action.ADD, hints.pod_placed),
            ClusterEventWithHint(kinds.CLAIM.kind, every, hints.claim_changed),
            ClusterEventWithHint(kinds.VOLUME.kind, every, hints.volume_changed),
            ClusterEventWithHint(kinds.STORAGE_CLASS.kind, every, hints.class_changed),
            ClusterEventWithHint(kinds.VOLUME_ATTACHMENT.kind, Action.UPDATE | Action.DELETE, hints.attachment_changed),
        )

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        if not pod.spec.volumes or not needs_attaching(pod.signature):
            return SKIP_SIGNATURE_GROUP
        with_csi_node = self._incoming(pod, has_csi_node=True)
        # Nodes without a CSINode have no limits, so only a problem matters there; they have no others than these.
        without = self._incoming(pod, has_csi_node=False) if with_csi_node.problem else with_csi_node
        cycle[_INCOMING_VOLUMES] = without, with_csi_node
        return None if self._limits.any or with_csi_node.problem else SKIP

    def _incoming(self, pod: Pod, has_csi_node: bool) -> _IncomingVolumes:
        try:
            return _IncomingVolumes(frozenset(attachable_volumes(self._storage, pod, has_csi_node, is_placed=False)))
        except CannotAttach as problem:
            return _IncomingVolumes(problem=str(problem), missing=problem.missing)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        csi_node = self._storage.csi_node(node.name)
        incoming = cycle[_INCOMING_VOLUMES][csi_node is not None]
        rejection = incoming.rejection()
        if rejection is not None or csi_node is None or not incoming.volumes:
            return rejection
        limits = limits_of(csi_node)
        if not limits:
            return None
        attached = self._volumes_of_pods(node)
        # A volume that is attached without a pod using it counts once more for the incoming pod, as in kube-scheduler.
        used = Counter(driver for driver, _ in attached | self._attachments.to_node(node.name, self._storage))
        new = Counter(driver for driver, _ in incoming.volumes - attached)
        full = any(used[driver] + n > limits[driver] for driver, n in new.items() if driver in limits)
        return TOO_MANY if full else None

    def _volumes_of_pods(self, node: NodeInfo) -> set[Attachable]:
        """Return the volumes attached for the node's pods. StatusError if the volumes of a pod are invalid."""
        try:
            return {
                volume
                for pod in node.pods.values()
                if pod.spec.volumes
                for volume in attachable_volumes(self._storage, pod, True, is_placed=True)
            }
        except CannotAttach as problem:
            raise StatusError(str(problem)) from None

    # -- many nodes ----------------------------------------------------------------------------------------------

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        without, with_csi_node = cycle[_INCOMING_VOLUMES]
        if without.problem or with_csi_node.problem:
            has = self._have_csi_node(nodes.names)
            for at, incoming in ((~has, without), (has, with_csi_node)):
                if at.any() and (rejection := incoming.rejection()) is not None:
                    statuses.reject(at, rejection)
        to_check = self._nodes_to_check(with_csi_node, nodes)
        if to_check:
            full, each = np.zeros(len(nodes), np.bool_), list(nodes)
            for i in to_check:
                full[i] = self.filter(cycle, pod, each[i]) is not None
            statuses.reject(full, TOO_MANY)
        return statuses

    def _have_csi_node(self, names: Sequence[str]) -> Mask:
        known = self.handle.objects[kinds.CSI_NODE]
        return np.fromiter((("", name) in known for name in names), np.bool_, len(names))

    def _nodes_to_check(self, incoming: _IncomingVolumes, nodes: NodeTable) -> set[int]:
        """Return the indexes of nodes that may be at a limit and need a look at each volume; most do not."""
        if not incoming.volumes:
            return set()
        counts = nodes.count_pods(AttachableVolumeCount())
        # Their pods may have invalid volumes, which is an error whatever the driver of the incoming pod's volumes.
        to_check = set(np.flatnonzero(counts >= _UNKNOWN_COUNT).tolist())
        for driver, n in Counter(driver for driver, _ in incoming.volumes).items():
            least = self._limits.least(driver)
            if least is None:
                continue
            close = np.flatnonzero(counts > least - n - self._attachments.most).tolist()
            names = nodes.names if close else ()
            for i in close:
                limit = self._limits.of_node(driver, names[i])
                if limit is not None and int(counts[i]) + n + self._attachments.count(names[i]) > limit:
                    to_check.add(i)
        return to_check


class _Limits:
    """Limits of all drivers, from the CSINodes."""

    def __init__(self, handle: Handle) -> None:
        csi_nodes = handle.objects[kinds.CSI_NODE]
        self._by_driver = ObjectIndex(
            handle, kinds.CSI_NODE, lambda key: limits_of(csi_nodes[key]) if key in csi_nodes else None, dict.keys
        )
        self._least: dict[str, int | None] = {}
        self._version = -1

    @property
    def any(self) -> bool:
        """Return True if a driver has a limit on some node."""
        return bool(self._by_driver.values)

    def of_node(self, driver: str, node_name: str) -> int | None:
        """Return the driver's limit on a node; None if it has none."""
        limits = self._by_driver.get(("", node_name))
        return None if limits is None else limits.get(driver)

    def least(self, driver: str) -> int | None:
        """Return the driver's lowest limit; None if it has no limits."""
        if self._version != self._by_driver.version:
            self._version = self._by_driver.version
            self._least.clear()
        if driver not in self._least:
            limits = self._by_driver.by_value(driver).values()
            self._least[driver] = min((each[driver] for each in limits), default=None)
        return self._least[driver]


class _Attachments:
    """VolumeAttachments by node, as (attacher, volume name)."""

    def __init__(self, handle: Handle) -> None:
        self._attachments = handle.objects[kinds.VOLUME_ATTACHMENT]
        self._by_node = ObjectIndex(handle, kinds.VOLUME_ATTACHMENT, self._read, lambda attachment: attachment[:1])
        self._most = 0
        self._version = -1

    def to_node(self, node_name: str, storage: Storage) -> set[Attachable]:
        """Return the CSI volumes that are attached to the node or being attached."""
        found = set()
        for _, attacher, name in self._by_node.by_value(node_name).values():
            volume = storage.volume(name)
            handle = csi_handle(volume) if volume is not None else None
            if handle is not None:
                found.add((attacher, handle))
        return found

    def count(self, node_name: str) -> int:
        """Upper bound of the number of volumes attached to the node."""
        return len(self._by_node.by_value(node_name))

    @property
    def most(self) -> int:
        """Largest `count` of any node."""
        if self._version != self._by_node.version:
            self._version = self._by_node.version
            self._most = max(map(len, self._by_node.values.values()), default=0)
        return self._most

    def _read(self, key: Key) -> tuple[str, str, str] | None:
        """Return node, attacher and volume; None if the object is gone or does not attach a PersistentVolume."""
        source = self._attachments.get(key)
        attacher, name = text(source, "spec", "attacher"), text(source, "spec", "source", _VOLUME_NAME)
        return (text(source, "spec", "nodeName"), attacher, name) if attacher and name else None


_VOLUME_NAME = "persistentVolumeName"
