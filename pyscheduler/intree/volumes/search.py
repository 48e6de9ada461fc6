"""Nodes on which all volumes of a pod are accessible or can be bound, for VolumeBinding's Filter and Reserve.

Matches FindPodVolumes of kube-scheduler: bound claims need a volume that is accessible from the node; each other
claim needs a matching volume there or must be provisionable.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from pyscheduler.api import Cycle, Ints, Mask, NodeInfo, NodeTable, Rejection, StatusError
from pyscheduler.intree.volumes.assume_cache import VolumeAssumeCache
from pyscheduler.intree.volumes.claim import ClaimRequest, DelayedClaim
from pyscheduler.intree.volumes.csi_topology import in_tree_plugin, is_migrated, migrated_affinity
from pyscheduler.intree.volumes.match import (
    NONE,
    ClaimCandidates,
    NodeMatcher,
    PersistentVolume,
    affinity_mask,
    free_volumes,
    is_within,
    prebound_volumes,
)
from pyscheduler.intree.volumes.matcher import VolumeMatcher
from pyscheduler.intree.volumes.objects import Object, Storage, text
from pyscheduler.intree.volumes.provision import Provisioner, Provisioning
from pyscheduler.intree.volumes.storage_use import (
    MOST,
    Claimed,
    StorageUse,
    UseColumns,
    Uses,
    use_of_capacity,
    use_of_volumes,
)

_MANY: Final = 32
"""Number of claims up to which they are not charged."""
_TERMS: Final = 4
"""Evaluations that finding the volumes of a claim without a selector counts as."""
_BLOCK: Final = 8
"""Number of volumes that count as one evaluation where they are matched over columns."""


class VolumeConflict(enum.IntFlag):
    """Conflicts on a node; the reasons are reported in this order."""

    NODE_CONFLICT = 1
    BIND_CONFLICT = 2
    NOT_ENOUGH_SPACE = 4
    PV_NOT_FOUND = 8


_REASONS = {
    VolumeConflict.NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    VolumeConflict.BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    VolumeConflict.NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VolumeConflict.PV_NOT_FOUND: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


def _terms(request: ClaimRequest) -> int:
    return _TERMS + (len(request.selector.requirements) if request.selector is not None else 0)


@lru_cache(maxsize=16)
def rejection(conflicts: int) -> Rejection:
    """Return the rejection with the reasons of these conflicts."""
    return Rejection(*(reason for c, reason in _REASONS.items() if conflicts & c), resolvable=False)


class PodVolumes(msgspec.Struct, frozen=True):
    """Decided bindings of a pod's claims on one node; empty for a node with conflicts."""

    conflicts: int
    bindings: tuple[tuple[PersistentVolume, Object], ...] = ()
    """Volumes with the claims to bind to them."""
    provisions: tuple[Object, ...] = ()
    """Claims to be provisioned."""


class PodVolumeSearch:
    """The claims of one pod, with what does not depend on the node computed once."""

    def __init__(
        self,
        bound: Sequence[str],
        delayed: Sequence[DelayedClaim],
        volumes: VolumeAssumeCache,
        provisioner: Provisioner,
        storage: Storage,
    ) -> None:
        """`bound` are the volumes of bound claims, which need not exist."""
        self._delayed = delayed
        self._volumes = volumes
        self._provisioner = provisioner
        self._provisionings: dict[ClaimRequest, Provisioning] = {}
        self._candidates: list[ClaimCandidates] | None = None
        self._storage = storage
        self._bound_volumes = [volumes.volume(name) for name in bound]
        """Volumes of the bound claims; None for one that does not exist."""
        self._being_provisioned = [(c, c.selected_node) for c in delayed if c.selected_node is not None]
        """Claims with provisioning under way, each with its selected node."""

    @property
    def all_bound(self) -> bool:
        return not self._delayed

    @property
    def accepts_every_node(self) -> bool:
        """Return True if no node can be rejected: each claim is bound to a volume that is accessible everywhere."""
        return self.all_bound and all(
            volume is not None and is_accessible_everywhere(volume) for volume in self._bound_volumes
        )

    @property
    def has_storage_use(self) -> bool:
        """Return False if the size of no volume and no capacity is known, so that every node has the score 0."""
        return any(c.prebound or c.free for c in self._claim_candidates) or any(
            self._provision(claim).free is not None for claim in self._delayed
        )

    def charge(self, cycle: Cycle) -> None:
        """Charge the attempt for matching many claims with volumes. AttemptLimitExceeded beyond the limit."""
        requests: dict[str, set[ClaimRequest]] = {}
        for claim in self._delayed:
            requests.setdefault(claim.request.storage_class, set()).add(claim.request)
        terms = {name: sum(map(_terms, distinct)) for name, distinct in requests.items()}
        if len(self._delayed) <= _MANY and sum(terms.values()) <= _MANY * _TERMS:
            return
        for name, number in terms.items():
            volumes = len(self._volumes.unclaimed(name))
            claims = sum(claim.request.storage_class == name for claim in self._delayed)
            cycle.charge_evaluations(number, volumes, "claims", unit="volumes")
            cycle.charge_evaluations(claims, volumes, "claims", _BLOCK, unit="volumes")

    # -- all nodes in common ---------------------------------------------------------------------------------------

    @property
    def _claim_candidates(self) -> list[ClaimCandidates]:
        """Other delayed claims, smallest first, with their candidate volumes. StatusError for an invalid selector."""
        candidates = self._candidates
        if candidates is None:  # a cached_property takes a lock
            claims = [claim for claim in self._delayed if claim.selected_node is None]
            if len(claims) > 1:
                claims.sort(key=lambda claim: claim.request.size)
            free: dict[ClaimRequest, tuple[PersistentVolume, ...]] = {}
            for claim in claims:
                if claim.request not in free:
                    free[claim.request] = free_volumes(claim, self._volumes.unclaimed(claim.request.storage_class))
            candidates = self._candidates = [
                ClaimCandidates(claim, prebound_volumes(claim, self._volumes.claimed_by(claim)), free[claim.request])
                for claim in claims
            ]
        return candidates

    def _provision(self, claim: DelayedClaim) -> Provisioning:
        """Return where the claim can be provisioned. StatusError if it has no class or the class does not exist."""
        provisioning = self._provisionings.get(claim.request)
        if provisioning is None:
            provisioning = self._provisionings[claim.request] = self._provisioner.provision(claim)
        return provisioning

    def cache_key(self) -> Hashable | None:
        """Return a cache key of what conflicts depend on besides the node; None if the key would cost an error.

        It is equal for pods with other claims of the same size, class and access modes. An error is raised by a node
        that needs what is invalid, if an earlier plugin accepts that node.
        """
        try:
            begun = tuple((name, self._provision(claim).nodes) for claim, name in self._being_provisioned)
            others = tuple((c.prebound, c.free, self._provision(c.claim).nodes) for c in self._claim_candidates)
        except StatusError:
            return None
        return tuple(map(self._access_key, self._bound_volumes)), begun, others

    def topologies(self) -> frozenset[str] | None:
        """Return the keys of the node labels that conflicts depend on.

        None if they depend on more, or if a volume may raise StatusError.
        """
        if self._delayed or any(volume is not None and in_tree_plugin(volume.source) for volume in self._bound_volumes):
            return None
        affinities = [volume.affinity or () for volume in self._bound_volumes if volume is not None]
        return frozenset(r.key for selectors in affinities for selector in selectors for r in selector.requirements)

    def _access_key(self, volume: PersistentVolume | None) -> Hashable:
        """Return a key of the nodes from which a bound volume is accessible."""
        if volume is None or not in_tree_plugin(volume.source):
            return None if volume is None else (volume.affinity,)
        return volume, self._storage.csi_nodes_version

    # -- one node --------------------------------------------------------------------------------------------------

    def at(self, node: NodeInfo) -> PodVolumes:
        """Return the claims' bindings on the node. StatusError if a claim or volume is invalid."""
        conflicts = self._bound_conflict(node)
        if any(name != node.name for _, name in self._being_provisioned):
            return PodVolumes(conflicts | VolumeConflict.BIND_CONFLICT)
        bindings, to_provision = self._choose(node.labels)
        conflicts |= self._provisioning_conflict(to_provision, node.labels)
        sources = tuple((volume, claim.source) for volume, claim in bindings)
        return PodVolumes(conflicts, sources, tuple(claim.source for claim in to_provision))

    def _choose(
        self, labels: Mapping[str, str]
    ) -> tuple[list[tuple[PersistentVolume, DelayedClaim]], list[DelayedClaim]]:
        """Return volumes with the claims to bind to them on a node with these labels, and the claims to provision."""
        bindings: list[tuple[PersistentVolume, DelayedClaim]] = []
        to_provision = [claim for claim, _ in self._being_provisioned]
        matcher = NodeMatcher(labels)
        for candidates in self._claim_candidates:
            volume = matcher.find_matching_volume(candidates)
            if volume is None:
                to_provision.append(candidates.claim)
            else:
                bindings.append((volume, candidates.claim))
        return bindings, to_provision

    def storage_use(self, node: NodeInfo) -> Uses:
        """Return the use of storage on a node that fits: of existing volumes if any is bound, else of free capacity."""
        bindings, to_provision = self._choose(node.labels)
        if bindings:
            return use_of_volumes(_claimed_volume(volume, claim) for volume, claim in bindings)
        sizes = [(claim, self._free(claim, node.labels)) for claim in to_provision]
        return use_of_capacity(_claimed_capacity(claim, size) for claim, size in sizes if size is not None)

    def _free(self, claim: DelayedClaim, labels: Mapping[str, str]) -> int | None:
        free = self._provision(claim).free
        return None if free is None else free.at(labels)

    def _bound_conflict(self, node: NodeInfo) -> int:
        for volume in self._bound_volumes:
            if volume is None:
                return VolumeConflict.PV_NOT_FOUND
            if not is_accessible(volume, node.name, node.labels, self._storage):
                return VolumeConflict.NODE_CONFLICT
        return 0

    def _provisioning_conflict(self, claims: Iterable[DelayedClaim], labels: Mapping[str, str]) -> int:
        for claim in claims:
            possible = self._provision(claim)
            if not is_within(possible.topology, labels):
                return VolumeConflict.BIND_CONFLICT
            if not is_within(possible.capacity, labels):
                return VolumeConflict.NOT_ENOUGH_SPACE
        return 0

    # -- all nodes -------------------------------------------------------------------------------------------------

    def conflicts(self, nodes: NodeTable) -> Ints:
        """Return the conflicts on each node, equal to `at(node).conflicts`."""
        found = self._bound_conflicts(nodes)
        here = np.ones(len(nodes), np.bool_)
        for _, name in self._being_provisioned:
            here &= nodes.named(frozenset({name}))
        found[~here] |= int(VolumeConflict.BIND_CONFLICT)
        if self._delayed and here.any():
            found |= self._delayed_conflicts(nodes, here)
        return found

    def _bound_conflicts(self, nodes: NodeTable) -> Ints:
        found: Ints = np.zeros(len(nodes), np.int64)
        undecided = np.ones(len(nodes), np.bool_)
        for volume in self._bound_volumes:
            if not undecided.any():
                break
            if volume is None:
                found[undecided] = VolumeConflict.PV_NOT_FOUND
                break
            reached = self._accessible_mask(volume, nodes, undecided)
            found[undecided & ~reached] = VolumeConflict.NODE_CONFLICT
            undecided &= reached
        return found

    def _delayed_conflicts(self, nodes: NodeTable, here: Mask) -> Ints:
        matcher = VolumeMatcher(nodes, self._claim_candidates)
        to_provision = [(claim, here) for claim, _ in self._being_provisioned]
        to_provision += [(w.claim, matcher.find_matching_volume(w) & here) for w in self._claim_candidates]
        found: Ints = np.zeros(len(nodes), np.int64)
        for claim, where in to_provision:
            undecided = where & (found == 0)
            if undecided.any():
                possible = self._provision(claim)
                inside = affinity_mask(possible.topology, nodes)
                found[undecided & ~inside] = VolumeConflict.BIND_CONFLICT
                found[undecided & inside & ~affinity_mask(possible.capacity, nodes)] = VolumeConflict.NOT_ENOUGH_SPACE
        return found

    def storage_uses(self, nodes: NodeTable) -> UseColumns:
        """Return `storage_use` of each node."""
        uses, is_bound = UseColumns(len(nodes)), np.zeros(len(nodes), np.bool_)
        matcher = VolumeMatcher(nodes, self._claim_candidates)
        for candidates in self._claim_candidates:
            chosen = matcher.matching_volumes(candidates)
            is_bound |= _add_volumes(uses, candidates.claim, matcher.volumes, chosen)
        delayed = [claim for claim, _ in self._being_provisioned] + [c.claim for c in self._claim_candidates]
        for claim in delayed if not is_bound.all() else ():
            sizes = self._free_capacities(claim, nodes)
            where = ~is_bound & (sizes != NONE)
            uses.add_capacity(claim.request.storage_class, where, claim.request.size.units, sizes)
        return uses

    def _free_capacities(self, claim: DelayedClaim, nodes: NodeTable) -> Ints:
        """Return the free capacity for the claim on each node; NONE where it is not known."""
        free = self._provision(claim).free
        if free is None:
            return np.full(len(nodes), NONE, np.int64)
        return free.sizes(nodes, NONE)

    def _accessible_mask(self, volume: PersistentVolume, nodes: NodeTable, undecided: Mask) -> Mask:
        """Return the mask of nodes from which the volume is accessible; correct for `undecided` nodes only."""
        plugin = in_tree_plugin(volume.source)
        reached = affinity_mask(volume.affinity, nodes)
        if not plugin:
            return reached
        names = nodes.names
        migrated = [
            i for i in np.flatnonzero(undecided).tolist() if is_migrated(plugin, self._storage.csi_node(names[i]))
        ]
        if migrated:
            reached = reached.copy()
            reached[migrated] = affinity_mask(migrated_affinity(volume.source), nodes)[migrated]
        return reached


def _add_volumes(uses: UseColumns, claim: DelayedClaim, volumes: Sequence[PersistentVolume], chosen: Ints) -> Mask:
    """Add the use of the volumes that are chosen on each node, by number. Return the mask of nodes with one."""
    capacity_of: Ints = np.zeros(len(volumes) + 1, np.int64)  # the last one is that of NONE
    numbers_of: dict[str, list[int]] = {}
    for number in (np.flatnonzero(np.bincount(chosen - NONE)) + NONE).tolist():
        if number != NONE:
            storage_class, use = _claimed_volume(volumes[number], claim)
            capacity_of[number] = min(use.capacity, MOST)
            numbers_of.setdefault(storage_class, []).append(number)
    is_bound: Mask = chosen != NONE
    for storage_class, numbers in numbers_of.items():
        where = is_bound if len(numbers_of) == 1 else np.isin(chosen, numbers)
        uses.add_volumes(storage_class, where, claim.request.size.units, capacity_of[chosen])
    return is_bound


def _claimed_volume(volume: PersistentVolume, claim: DelayedClaim) -> Claimed:
    storage_class = text(volume.source, "spec", "storageClassName")
    return Claimed(storage_class, StorageUse(claim.request.size.units, volume.capacity.units))


def _claimed_capacity(claim: DelayedClaim, size: int) -> Claimed:
    return Claimed(claim.request.storage_class, StorageUse(claim.request.size.units, size))


def is_accessible_everywhere(volume: PersistentVolume) -> bool:
    """Return True if the volume is accessible from every node, migrated or not."""
    if volume.affinity is not None:
        return False
    try:
        return not in_tree_plugin(volume.source) or migrated_affinity(volume.source) is None
    except StatusError:
        return False  # the error is raised on the nodes where the plugin is migrated


def is_accessible(volume: PersistentVolume, node_name: str, labels: Mapping[str, str], storage: Storage) -> bool:
    """Return True if the node has access to the volume. StatusError if CSI migration cannot translate it."""
    plugin = in_tree_plugin(volume.source)
    if plugin and is_migrated(plugin, storage.csi_node(node_name)):
        return is_within(migrated_affinity(volume.source), labels)
    return is_within(volume.affinity, labels)
