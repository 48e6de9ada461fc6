"""NodeVolumeLimits: respect the volume limits of CSI drivers, which the node's CSINode states (KEP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
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
    PodSignatureGroup,
    PreFilterPlugin,
    Reads,
    Rejection,
    Skip,
    StateKey,
    StatusError,
)
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.intree.volumes.attachable import CannotAttach, attachable_volumes, needs_attaching
from pyscheduler.intree.volumes.attachments_left import AttachmentsLeft, NewVolumes
from pyscheduler.intree.volumes.csi_nodes import (
    InstalledDrivers,
    VolumeLimits,
    drivers_of,
    must_be_installed,
)
from pyscheduler.intree.volumes.limit_hints import LimitHints
from pyscheduler.intree.volumes.objects import Storage, sign_volumes

TOO_MANY = Rejection("node(s) exceed max volume count")


def not_installed(driver: str) -> Rejection:
    """Return the rejection of a node that lacks a driver."""
    return Rejection(f"{driver} CSI driver is not installed on the node")


class _IncomingVolumes(msgspec.Struct, frozen=True):
    """Volumes of the incoming pod, or the problem that keeps them from being determined."""

    volumes: NewVolumes | None = None
    """None if drivers have to attach none."""
    problem: str = ""
    missing: bool = False
    required: tuple[str, ...] = ()
    """Drivers that must be installed on the node."""

    def rejection(self) -> Rejection | None:
        """Return the rejection by every node while a claim is missing. StatusError for any other problem."""
        if self.problem and not self.missing:
            raise StatusError(self.problem)
        return Rejection(self.problem, resolvable=False) if self.problem else None


_NOTHING = _IncomingVolumes()
_INCOMING_VOLUMES: StateKey[tuple[_IncomingVolumes, _IncomingVolumes]] = StateKey("NodeVolumeLimits")
"""Volumes as seen by nodes without a CSINode, and by nodes with one."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Reject nodes with no attachments left for the pod's volumes; a volume that is already attached does not count.

    Nodes without a driver whose CSIDriver has preventPodSchedulingIfMissing are rejected too (VolumeLimitScaling).
    """

    name = "NodeVolumeLimits"
    checks_resizes = False
    reads = Reads.OWN_NODE_AND_PODS  # all else is in the cache key
    reads_in_dry_run = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_match_fields = False
    pre_reads_nodes = False
    skips_read_pods = False
    reads_claims = False
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
        self._left = AttachmentsLeft(handle, self._storage, self._limits)

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
        if not is_relevant and not self._limits.any:
            return SKIP
        without = self._incoming(pod, has_csi_node=False) if is_relevant else with_csi_node
        cycle[_INCOMING_VOLUMES] = without, with_csi_node
        return None

    def _incoming(self, pod: Pod, has_csi_node: bool) -> _IncomingVolumes:
        try:
            volumes = attachable_volumes(self._storage, pod, has_csi_node, is_placed=False)
        except CannotAttach as problem:
            return _IncomingVolumes(problem=str(problem), missing=problem.missing)
        if not volumes:
            return _NOTHING
        drivers = [driver for driver, _ in volumes]
        required = self._required_drivers(drivers)
        if not required and not self._limits.any:
            return _NOTHING
        self._left.refresh()
        return _IncomingVolumes(NewVolumes(volumes, Counter(drivers), self._left.shared(volumes)), required=required)

    def _required_drivers(self, drivers: Iterable[str]) -> tuple[str, ...]:
        """Return those of the drivers that must be installed on the node."""
        return tuple([d for d in sorted({*drivers}) if must_be_installed(self._storage.csi_driver(d))])

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        csi_node = self._storage.csi_node(node.name)
        incoming = cycle[_INCOMING_VOLUMES][csi_node is not None]
        rejection = incoming.rejection()
        if rejection is not None or incoming.volumes is None:
            return rejection
        if incoming.required:
            installed = drivers_of(csi_node)
            for driver in incoming.required:
                if driver not in installed:
                    return not_installed(driver)
        self._left.refresh()
        return TOO_MANY if self._left.is_full(node, incoming.volumes) else None

    def filter_cache_key(self, cycle: Cycle) -> Hashable | None:
        without, with_csi_node = cycle[_INCOMING_VOLUMES]
        if without.problem or with_csi_node.problem or with_csi_node.required:
            return None
        if with_csi_node.volumes is None:
            return ()
        self._left.refresh()
        return self._left.cache_key(with_csi_node.volumes)

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
        if with_csi_node.volumes is not None and self._limits.any:
            self._left.refresh()
            undecided = statuses.codes == 0 if statuses.rejections else None
            full = self._left.full_nodes(nodes, with_csi_node.volumes, undecided)
            if full is not None:
                statuses.reject(full, TOO_MANY)
        return statuses

    def _have_csi_node(self, names: Sequence[str]) -> Mask:
        known = self.handle.objects[kinds.CSI_NODE]
        return np.fromiter((("", name) in known for name in names), np.bool_, len(names))


class NodeVolumeLimitsByCount(NodeVolumeLimits):
    """NodeVolumeLimits while the feature gate VolumeLimitScaling is off: no driver has to be installed."""

    def _required_drivers(self, drivers: Iterable[str]) -> tuple[str, ...]:
        return ()
