"""NodeVolumeLimits: respect the volume limits of CSI drivers, which the node's CSINode states (KEP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
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
)
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.intree.volumes.attachable import (
    Attachable,
    CannotAttach,
    attachable_volumes,
    inline_drivers,
)
from pyscheduler.intree.volumes.attached import AttachedVolumes, NodeVolumes
from pyscheduler.intree.volumes.csi_nodes import (
    InstalledDrivers,
    VolumeLimits,
    drivers_of,
    limits_of,
    must_be_installed,
)
from pyscheduler.intree.volumes.limit_hints import LimitHints, needs_attaching
from pyscheduler.intree.volumes.objects import Storage, sign_volumes

TOO_MANY = Rejection("node(s) exceed max volume count")
_UNKNOWN_COUNT = 1_000_000
"""More than any limit, so that the volumes of such a pod are examined one by one."""


def not_installed(driver: str) -> Rejection:
    """Return the rejection of a node that lacks a driver."""
    return Rejection(f"{driver} CSI driver is not installed on the node")


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
    required: tuple[str, ...] = ()
    """Drivers that must be installed on the node."""

    def rejection(self) -> Rejection | None:
        """Return the rejection by every node while a claim is missing. StatusError for any other problem."""
        if self.problem and not self.missing:
            raise StatusError(self.problem)
        return Rejection(self.problem, resolvable=False) if self.problem else None


_INCOMING_VOLUMES: StateKey[tuple[_IncomingVolumes, _IncomingVolumes]] = StateKey("NodeVolumeLimits")
"""Volumes as seen by nodes without a CSINode, and by nodes with one."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Reject nodes with no attachments left for the pod's volumes; a volume that is already attached does not count.

    Nodes without a driver whose CSIDriver has preventPodSchedulingIfMissing are rejected too (VolumeLimitScaling).
    """

    name = "NodeVolumeLimits"
    checks_resizes = False
    reads = Reads.EVERYTHING
    reads_in_dry_run = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_match_fields = False
    pre_reads_nodes = False
    skips_read_pods = False
    reads_identity = True  # the names of ephemeral claims contain the pod's name
    watches = (
        kinds.CLAIM,
        kinds.VOLUME,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.CSI_DRIVER,
        kinds.VOLUME_ATTACHMENT,
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle)
        self._limits = VolumeLimits(handle)
        self._installed = InstalledDrivers(handle)
        self._attached = AttachedVolumes(handle, self._storage)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return sign_volumes(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints, every = LimitHints(self._storage), Action.ADD | Action.UPDATE | Action.DELETE
        return (
            ClusterEventWithHint(kinds.CSI_NODE.kind, Action.ADD | Action.DELETE),
            ClusterEventWithHint(kinds.CSI_NODE.kind, Action.UPDATE, hints.limit_changed),
            ClusterEventWithHint(kinds.CSI_DRIVER.kind, Action.UPDATE | Action.DELETE, hints.driver_changed),
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
        # Nodes without a CSINode have no limits, so only problems and required drivers matter there, and they have no
        # others than these.
        is_relevant = with_csi_node.problem or with_csi_node.required
        without = self._incoming(pod, has_csi_node=False) if is_relevant else with_csi_node
        cycle[_INCOMING_VOLUMES] = without, with_csi_node
        return None if self._limits.any or is_relevant else SKIP

    def _incoming(self, pod: Pod, has_csi_node: bool) -> _IncomingVolumes:
        try:
            volumes = frozenset(attachable_volumes(self._storage, pod, has_csi_node, is_placed=False))
            return _IncomingVolumes(volumes, required=self._required_drivers(volumes))
        except CannotAttach as problem:
            return _IncomingVolumes(problem=str(problem), missing=problem.missing)

    def _required_drivers(self, volumes: Set[Attachable]) -> tuple[str, ...]:
        """Return the drivers of the volumes that must be installed on the node."""
        drivers = sorted({driver for driver, _ in volumes})
        return tuple(driver for driver in drivers if must_be_installed(self._storage.csi_driver(driver)))

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        csi_node = self._storage.csi_node(node.name)
        incoming = cycle[_INCOMING_VOLUMES][csi_node is not None]
        rejection = incoming.rejection()
        if rejection is not None or not incoming.volumes:
            return rejection
        if incoming.required:
            installed = drivers_of(csi_node)
            for driver in incoming.required:
                if driver not in installed:
                    return not_installed(driver)
        if csi_node is None:
            return None
        limits = limits_of(csi_node)
        if not limits:
            return None
        self._attached.refresh(self.handle.nodes.table().total)
        volumes = self._attached.cached(node) or self._attached.read(node)
        return TOO_MANY if _is_full(volumes, incoming.volumes, limits) else None

    # -- many nodes ----------------------------------------------------------------------------------------------

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        without, with_csi_node = cycle[_INCOMING_VOLUMES]
        if without.problem or with_csi_node.problem or with_csi_node.required:
            has = self._have_csi_node(nodes.names)
            for at, incoming in ((~has, without), (has, with_csi_node)):
                if at.any() and (rejection := incoming.rejection()) is not None:
                    statuses.reject(at, rejection)
                for driver in incoming.required:
                    statuses.reject(at & ~nodes.named(self._installed.nodes_with(driver)), not_installed(driver))
        full = self._full_nodes(with_csi_node, nodes, statuses)
        if full:
            mask = np.zeros(len(nodes), np.bool_)
            mask[full] = True
            statuses.reject(mask, TOO_MANY)
        return statuses

    def _have_csi_node(self, names: Sequence[str]) -> Mask:
        known = self.handle.objects[kinds.CSI_NODE]
        return np.fromiter((("", name) in known for name in names), np.bool_, len(names))

    def _full_nodes(self, incoming: _IncomingVolumes, nodes: NodeTable, before: NodeToStatus) -> list[int]:
        """Return the indexes of the nodes without attachments left. StatusError if a pod's volumes are invalid.

        Nodes rejected `before` are left out: kube-scheduler does not look up the volumes of their pods.
        """
        close = self._nodes_close_to_limit(incoming, nodes)
        if before.rejections:
            close = [i for i in close if not before.codes[i]]
        if not close:
            return []
        attached = self._attached
        attached.refresh(nodes.total)
        is_dry_run = nodes.all_nodes is not self.handle.nodes.table()
        new, full, infos = Counter(driver for driver, _ in incoming.volumes), [], list(nodes)
        by_node = self._limits.by_node
        for i in close:
            node = infos[i]
            limits = by_node.get(("", node.name))
            if not limits:
                continue
            volumes = attached.cached(node)
            if volumes is None:
                volumes = attached.read(node)
                if not is_dry_run:
                    attached.store(node.name, volumes)
            if _exceeds(limits, volumes, new) and _is_full(volumes, incoming.volumes, limits):
                full.append(i)
        return full

    def _nodes_close_to_limit(self, incoming: _IncomingVolumes, nodes: NodeTable) -> list[int]:
        """Return the indexes of the nodes where pods and VolumeAttachments might add up to a limit."""
        if not incoming.volumes:
            return []
        counts = nodes.count_pods(AttachableVolumeCount())
        # Their pods may have invalid volumes, which is an error whatever the driver of the incoming pod's volumes.
        close = counts >= _UNKNOWN_COUNT
        for driver, n in Counter(driver for driver, _ in incoming.volumes).items():
            least = self._limits.least(driver)
            if least is not None:
                close |= counts > least - n - self._attached.most_attachments
        return np.flatnonzero(close).tolist()


def _exceeds(limits: Mapping[str, int], node: NodeVolumes, new: Mapping[str, int]) -> bool:
    """Return True if so many new volumes by driver exceed a limit."""
    for driver, n in new.items():  # noqa: SIM110 - a generator costs as much as the comparison
        if node.used.get(driver, 0) + n > limits.get(driver, _UNKNOWN_COUNT):
            return True
    return False


def _is_full(node: NodeVolumes, incoming: Set[Attachable], limits: Mapping[str, int]) -> bool:
    """Return True if the node has no attachments left for the volumes; those of its pods do not count again."""
    new = Counter(driver for driver, _ in incoming - node.of_pods)
    return any(node.used.get(driver, 0) + n > limits[driver] for driver, n in new.items() if driver in limits)


class NodeVolumeLimitsByCount(NodeVolumeLimits):
    """NodeVolumeLimits while the feature gate VolumeLimitScaling is off: no driver has to be installed."""

    def _required_drivers(self, volumes: Set[Attachable]) -> tuple[str, ...]:
        return ()
