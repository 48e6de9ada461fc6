"""Attachments left on each node by CSI driver, in columns that are kept from one attempt to the next.

Volumes are looked up only on nodes where the numbers of claims and VolumeAttachments might add up to a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec
import numpy as np

from pyscheduler.api import Handle, Ints, Mask, NodeInfo, NodeTable, PodCount, PodSignature, StatusError
from pyscheduler.intree.volumes.attachable import Attachable, inline_drivers
from pyscheduler.intree.volumes.attached import AttachedVolumes, NodeVolumes
from pyscheduler.intree.volumes.csi_nodes import VolumeLimits
from pyscheduler.intree.volumes.objects import Storage

_UNKNOWN_COUNT = 1_000_000
"""More than any limit, so that the volumes of such a pod are examined one by one."""
_UNLIMITED = 1 << 40
_NEVER = -1


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


class NewVolumes(msgspec.Struct, frozen=True, eq=False):
    """Volumes of an incoming pod."""

    volumes: Set[Attachable]
    counts: Mapping[str, int]
    """Number of volumes by driver."""
    shared: frozenset[Attachable]
    """Those that pods on nodes with counted volumes use too, as of PreFilter."""


class AttachmentsLeft:
    """Limits and attached volumes of all nodes. Call `refresh` before the other methods, once in each attempt."""

    def __init__(self, handle: Handle, storage: Storage, limits: VolumeLimits) -> None:
        self._handle = handle
        self._limits = limits
        self._attached = AttachedVolumes(handle, storage)
        self._nodes: NodeTable | None = None
        self._names: Sequence[str] = ()
        self._generations: Ints = np.zeros(0, np.int64)
        """Generation of each node when the positions were compared."""
        self._limits_version = _NEVER
        self._position: dict[str, int] = {}
        """Positions of the nodes by name."""
        self._has_limits: Mask = np.zeros(0, np.bool_)
        self._limit: dict[str, Ints] = {}
        """Limit of each node by driver."""
        self._used: dict[str, Ints] = {}
        """Attached volumes of each node by driver, if they were counted."""
        self._counted: Ints = np.zeros(0, np.int64)
        """Generation of each node for which the volumes were counted."""
        self._volumes: dict[int, NodeVolumes] = {}
        """Volumes of the counted nodes by position."""
        self._nodes_with: Counter[Attachable] = Counter()
        """Number of counted nodes with pods that use the volume."""
        self._used_version = self._volumes_version = 0
        """Incremented when volumes have changed on a node without a change of its pods: their number, or any of them.
        """

    def shared(self, volumes: Set[Attachable]) -> frozenset[Attachable]:
        """Return the volumes that pods on counted nodes use too. On nodes near their limits all others are new."""
        return frozenset([volume for volume in volumes if volume in self._nodes_with])

    def cache_key(self, new: NewVolumes) -> Hashable:
        """Return what nodes with room for the volumes depend on besides the pods on them."""
        counts = tuple(sorted(new.counts.items()))
        volumes_version = self._volumes_version if new.shared else 0
        return counts, new.shared, self._used_version, volumes_version, self._attached.most_attachments

    # -- refresh -----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply the changes of nodes and storage objects since the last call."""
        nodes, version = self._handle.nodes.table(), self._limits.version
        touched = self._attached.refresh(nodes.total)
        if version != self._limits_version or (nodes is not self._nodes and not self._has_same_positions(nodes)):
            self._limits_version = version
            self._reset(nodes)
        self._nodes = nodes
        for name in touched:
            self._count_again(nodes, name)

    def _has_same_positions(self, nodes: NodeTable) -> bool:
        """Return True if the nodes have the positions that they had; only those that have changed are looked at."""
        generations = nodes.generations
        if len(generations) != len(self._generations):
            return False
        changed = np.flatnonzero(generations != self._generations)
        self._generations = generations.copy()
        return all(nodes[position].name == self._names[position] for position in changed.tolist())

    def _reset(self, nodes: NodeTable) -> None:
        self._names = nodes.names
        self._generations = nodes.generations.copy()
        self._position = {name: i for i, name in enumerate(self._names)}
        self._has_limits = self._column(0, {key: 1 for key, limits in self._limits.by_node.items() if limits}) > 0
        self._counted = np.full(len(nodes), _NEVER, np.int64)
        for columns in (self._limit, self._used, self._volumes, self._nodes_with):
            columns.clear()
        self._used_version += 1
        self._volumes_version += 1

    def _column(self, default: int, amounts: Mapping[tuple[str, str], int]) -> Ints:
        """Return the amounts by node; they have the keys of CSINodes."""
        column: Ints = np.full(len(self._names), default, np.int64)
        for (_, name), amount in amounts.items():
            if name in self._position:
                column[self._position[name]] = amount
        return column

    def _limit_of(self, driver: str) -> Ints:
        """Return the limit of each node for the driver."""
        limit = self._limit.get(driver)
        if limit is None:
            limits = {key: each[driver] for key, each in self._limits.of_driver(driver).items()}
            limit = self._limit[driver] = self._column(_UNLIMITED, limits)
            used: Ints = np.zeros(len(limit), np.int64)
            for position, volumes in self._volumes.items():
                used[position] = volumes.used.get(driver, 0)
            self._used[driver] = used
        return limit

    def _count(self, nodes: NodeTable, position: int) -> NodeVolumes:
        """Return the volumes of a node. StatusError if those of one of its pods are invalid."""
        self._counted[position] = _NEVER  # an exception leaves it uncounted
        before, volumes = self._volumes.get(position), self._attached.of(nodes[position])
        if volumes is not before:
            self._volumes[position] = volumes
            self._nodes_with.update(volumes.of_pods)
            for volume in before.of_pods if before is not None else ():
                self._nodes_with[volume] -= 1
                if not self._nodes_with[volume]:
                    del self._nodes_with[volume]
        for driver, used in self._used.items():
            used[position] = volumes.used.get(driver, 0)
        self._counted[position] = nodes.generations[position]
        return volumes

    def _count_again(self, nodes: NodeTable, name: str) -> None:
        """Count the volumes of a node of which objects have changed, unless its pods have too: then its row is stale
        in every cache.
        """
        position = self._position.get(name)
        if position is None or self._counted[position] == _NEVER:
            return
        if self._counted[position] != nodes.generations[position]:
            self._counted[position] = _NEVER
            return
        before = self._volumes[position]
        try:
            now = self._count(nodes, position)
        except StatusError:
            self._used_version += 1
            return
        self._used_version += now.used != before.used
        self._volumes_version += now.of_pods != before.of_pods

    # -- rejections --------------------------------------------------------------------------------------------------

    def is_full(self, node: NodeInfo, new: NewVolumes) -> bool:
        """Return True if the node lacks attachments for the volumes. StatusError if a pod's volumes are invalid."""
        limits = self._limits.by_node.get(("", node.name))
        if not limits:
            return False
        nodes, position = self._handle.nodes.table(), self._position.get(node.name)
        if position is None or nodes[position] is not node:  # a node of a dry run
            return _is_full(self._attached.read(node), new.volumes, limits)
        if not self._may_be_full(nodes.count_pods(AttachableVolumeCount()).item(position), limits, new):
            return False
        is_counted = self._counted[position] == nodes.generations[position]
        volumes = self._volumes[position] if is_counted else self._count(nodes, position)
        self._update_shared(new)
        return _is_full(volumes, new.volumes, limits)

    def _update_shared(self, new: NewVolumes) -> frozenset[Attachable]:
        """Return the shared volumes. If nodes were counted that have more of them, results hold for this pod only."""
        shared = self.shared(new.volumes)
        if not shared <= new.shared:
            self._used_version += 1  # the results of this attempt hold for this pod only
        return shared

    def _may_be_full(self, bound: int, limits: Mapping[str, int], new: NewVolumes) -> bool:
        if bound >= _UNKNOWN_COUNT:
            return True
        bound += self._attached.most_attachments
        return any(bound + n > limits.get(driver, _UNLIMITED) for driver, n in new.counts.items())

    def full_nodes(self, nodes: NodeTable, new: NewVolumes, undecided: Mask | None) -> Mask | None:
        """Return the mask of the nodes without enough attachments; None if there are none. StatusError as of `is_full`.

        Nodes that are not `undecided` are left out: kube-scheduler does not look up the volumes of their pods.
        """
        bound = nodes.count_pods(AttachableVolumeCount())
        is_live = nodes.all_nodes is self._handle.nodes.table()
        # Pods may have invalid volumes, which is an error whatever the driver of the incoming pod's volumes.
        close = bound >= _UNKNOWN_COUNT
        for driver, n in new.counts.items():
            least = self._limits.least(driver)
            if least is not None:
                limit = self._limit_of(driver)[nodes.positions] if is_live else least
                close |= bound + (n + self._attached.most_attachments) > limit
        if is_live:
            close &= self._has_limits[nodes.positions]
        if undecided is not None:
            close &= undecided
        indexes = np.flatnonzero(close)
        if not len(indexes):
            return None
        full = self._full_counted(nodes, indexes, new) if is_live else self._full_read(nodes, indexes.tolist(), new)
        mask: Mask = np.zeros(len(nodes), np.bool_)
        mask[indexes[full]] = True
        return mask

    def _full_counted(self, nodes: NodeTable, indexes: Ints, new: NewVolumes) -> Mask:
        """Return which of these nodes are full; `nodes` has nodes of the cluster as they are."""
        positions = indexes if isinstance(nodes.positions, slice) else nodes.positions[indexes]
        every = nodes.all_nodes
        for position in positions[self._counted[positions] != every.generations[positions]].tolist():
            self._count(every, position)
        shared = self._update_shared(new)
        full: Mask = np.zeros(len(positions), np.bool_)
        for driver, n in new.counts.items():
            limit = self._limit_of(driver)[positions]
            full |= self._used[driver][positions] + n > limit
        if shared:  # they do not count again where they are attached
            by_node = self._limits.by_node
            for i in np.flatnonzero(full).tolist():
                position = int(positions[i])
                full[i] = _is_full(self._volumes[position], new.volumes, by_node["", self._names[position]])
        return full

    def _full_read(self, nodes: NodeTable, indexes: Sequence[int], new: NewVolumes) -> list[bool]:
        """Return which of these nodes are full; they may be nodes of a dry run."""
        infos, by_node, full = list(nodes), self._limits.by_node, []
        for i in indexes:
            limits = by_node.get(("", infos[i].name))
            full.append(bool(limits) and _is_full(self._attached.read(infos[i]), new.volumes, limits or {}))
        return full


def _is_full(node: NodeVolumes, incoming: Set[Attachable], limits: Mapping[str, int]) -> bool:
    """Return True if the node has no attachments left for the volumes; those of its pods do not count again."""
    new = Counter(driver for driver, _ in incoming - node.of_pods)
    return any(node.used.get(driver, 0) + n > limits[driver] for driver, n in new.items() if driver in limits)
