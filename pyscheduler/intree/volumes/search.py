"""Where a pod can reach or be given all of its volumes: what VolumeBinding's Filter and Reserve ask of a node.

Matches FindPodVolumes of kube-scheduler 1.36: bound claims need a volume that the node reaches; of the others each
is matched with a volume there, or one must be possible to make for it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from pyscheduler.api import Ints, Mask, NodeInfo, NodeTable, Rejection, StatusError
from pyscheduler.intree.volumes.assumed import AssumedVolumes
from pyscheduler.intree.volumes.csi_topology import in_tree_plugin, is_migrated, migrated_affinity
from pyscheduler.intree.volumes.match import Chooser, Volume, Wanted, choose, reaches, reaching, requested, wanted
from pyscheduler.intree.volumes.objects import (
    Object,
    Storage,
    annotations_of,
    class_of_claim,
    volume_of_claim,
)
from pyscheduler.intree.volumes.provision import Provision, provision

SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"


class Conflict(enum.IntFlag):
    """What is in the way on a node; the reasons are told in this order."""

    UNREACHED = 1
    UNMATCHED = 2
    NO_ROOM = 4
    LOST = 8


_REASONS = {
    Conflict.UNREACHED: "node(s) didn't match PersistentVolume's node affinity",
    Conflict.UNMATCHED: "node(s) didn't find available persistent volumes to bind",
    Conflict.NO_ROOM: "node(s) did not have enough free storage",
    Conflict.LOST: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@lru_cache(maxsize=16)
def rejection(conflicts: int) -> Rejection:
    """What a node with these conflicts is told."""
    return Rejection(*(reason for c, reason in _REASONS.items() if conflicts & c), resolvable=False)


class NodeVolumes(msgspec.Struct, frozen=True):
    """What the pod's claims would get on one node; nothing is decided for a node with conflicts."""

    conflicts: int
    bindings: tuple[tuple[Volume, Object], ...] = ()
    """Volumes and the claims that are to be bound to them."""
    provisions: tuple[Object, ...] = ()
    """Claims that volumes are to be made for."""


class Search:
    """The claims of one pod, and what is known of them before any node is looked at."""

    def __init__(
        self, bound: tuple[Object, ...], delayed: tuple[Object, ...], volumes: AssumedVolumes, storage: Storage
    ) -> None:
        """`bound` claims have their volumes; `delayed` ones are to get theirs where the pod goes."""
        self._bound = bound
        self._delayed = delayed
        self._volumes = volumes
        self._storage = storage
        self._provisions: dict[int, Provision] = {}

    @property
    def all_bound(self) -> bool:
        return not self._delayed

    @property
    def is_settled(self) -> bool:
        """Whether no node can be refused: each claim has a volume that is reached from anywhere."""
        return self.all_bound and all(volume is not None and is_anywhere(volume) for volume in self._reached)

    # -- what holds for all nodes ----------------------------------------------------------------------------------

    @cached_property
    def _begun(self) -> list[tuple[Object, str]]:
        """The claims that volumes are being made for already, each with the node that was chosen for it."""
        return [(c, name) for c in self._delayed if (name := selected_node(c)) is not None]

    @cached_property
    def _wanted(self) -> list[Wanted]:
        """The other claims, the smallest first, with the volumes that may serve. StatusError for a wrong selector."""
        claims = sorted((c for c in self._delayed if selected_node(c) is None), key=requested)
        volumes = self._volumes.of_classes(map(class_of_claim, claims)) if claims else []
        return [wanted(c, [v for v in volumes if v.storage_class == class_of_claim(c)]) for c in claims]

    @cached_property
    def _reached(self) -> list[Volume | None]:
        """The volumes of the bound claims; None for one that does not exist."""
        found = (self._volumes.get("", volume_of_claim(claim)) for claim in self._bound)
        return [None if source is None else self._volumes.read(source) for source in found]

    def _provision(self, claim: Object) -> Provision:
        known = self._provisions.get(id(claim))
        if known is None:
            known = self._provisions[id(claim)] = provision(claim, self._storage)
        return known

    # -- one node --------------------------------------------------------------------------------------------------

    def at(self, node: NodeInfo) -> NodeVolumes:
        """What the claims would get on the node. StatusError if a claim or volume makes no sense."""
        conflicts = self._bound_conflict(node)
        if any(name != node.name for _, name in self._begun):
            return NodeVolumes(conflicts | Conflict.UNMATCHED)
        bindings: list[tuple[Volume, Object]] = []
        to_provision = [claim for claim, _ in self._begun]
        for open_claim in self._wanted:
            volume = choose(open_claim, node.labels, [taken for taken, _ in bindings])
            if volume is None:
                to_provision.append(open_claim.claim)
            else:
                bindings.append((volume, open_claim.claim))
        conflicts |= self._provisioning_conflict(to_provision, node.labels)
        return NodeVolumes(conflicts, tuple(bindings), tuple(to_provision))

    def _bound_conflict(self, node: NodeInfo) -> int:
        for volume in self._reached:
            if volume is None:
                return Conflict.LOST
            if not within_reach(volume, node.name, node.labels, self._storage):
                return Conflict.UNREACHED
        return 0

    def _provisioning_conflict(self, claims: Iterable[Object], labels: Mapping[str, str]) -> int:
        for claim in claims:
            possible = self._provision(claim)
            if not reaches(possible.topology, labels):
                return Conflict.UNMATCHED
            if not reaches(possible.room, labels):
                return Conflict.NO_ROOM
        return 0

    # -- all nodes -------------------------------------------------------------------------------------------------

    def conflicts(self, nodes: NodeTable) -> Ints:
        """The conflicts on each node, as `at` finds them."""
        found = self._bound_conflicts(nodes)
        here = np.ones(len(nodes), np.bool_)
        for _, name in self._begun:
            here &= nodes.named(frozenset({name}))
        found[~here] |= int(Conflict.UNMATCHED)
        if self._delayed and here.any():
            found |= self._delayed_conflicts(nodes, here)
        return found

    def _bound_conflicts(self, nodes: NodeTable) -> Ints:
        found: Ints = np.zeros(len(nodes), np.int64)
        open_ = np.ones(len(nodes), np.bool_)
        for volume in self._reached:
            if not open_.any():
                break
            if volume is None:
                found[open_] = Conflict.LOST
                break
            reached = self._within_reach(volume, nodes, open_)
            found[open_ & ~reached] = Conflict.UNREACHED
            open_ &= reached
        return found

    def _delayed_conflicts(self, nodes: NodeTable, here: Mask) -> Ints:
        chooser = Chooser(nodes)
        to_provision = [(claim, here) for claim, _ in self._begun]
        to_provision += [(w.claim, chooser.choose(w) & here) for w in self._wanted]
        found: Ints = np.zeros(len(nodes), np.int64)
        for claim, where in to_provision:
            asked = where & (found == 0)
            if asked.any():
                possible = self._provision(claim)
                inside = reaching(possible.topology, nodes)
                found[asked & ~inside] = Conflict.UNMATCHED
                found[asked & inside & ~reaching(possible.room, nodes)] = Conflict.NO_ROOM
        return found

    def _within_reach(self, volume: Volume, nodes: NodeTable, asked: Mask) -> Mask:
        """Which nodes reach the volume; of others than those asked about nothing is said."""
        plugin = in_tree_plugin(volume.source)
        reached = reaching(volume.affinity, nodes)
        if not plugin:
            return reached
        names = nodes.names
        migrated = [i for i in np.flatnonzero(asked).tolist() if is_migrated(plugin, self._storage.csi_node(names[i]))]
        if migrated:
            reached = reached.copy()
            reached[migrated] = reaching(migrated_affinity(volume.source), nodes)[migrated]
        return reached


def selected_node(claim: Object) -> str | None:
    """The node that the claim's volume is to be made for; None while that is open."""
    return annotations_of(claim).get(SELECTED_NODE_ANNOTATION)


def is_anywhere(volume: Volume) -> bool:
    """Whether every node reaches the volume, migrated or not."""
    if volume.affinity is not None:
        return False
    try:
        return not in_tree_plugin(volume.source) or migrated_affinity(volume.source) is None
    except StatusError:
        return False  # it matters on the nodes that it is migrated on


def within_reach(volume: Volume, node_name: str, labels: Mapping[str, str], storage: Storage) -> bool:
    """Whether the node reaches the volume, its CSI migration considered. StatusError if that makes no sense of it."""
    plugin = in_tree_plugin(volume.source)
    if plugin and is_migrated(plugin, storage.csi_node(node_name)):
        return reaches(migrated_affinity(volume.source), labels)
    return reaches(volume.affinity, labels)
