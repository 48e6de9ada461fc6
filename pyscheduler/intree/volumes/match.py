"""Matching of claims with volumes: the pre-bound volume, else the smallest that satisfies the claim.

`find_candidates` checks once what does not depend on the node; per node, the volume must be accessible and not taken by
another claim of the pod. Matches FindMatchingVolume (k8s.io/component-helpers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from pyscheduler.api import Ints, Mask, NodeTable, Requirement, Selector, StatusError
from pyscheduler.intree.volumes.claim import DelayedClaim
from pyscheduler.intree.volumes.csi_topology import Affinity, affinity_of
from pyscheduler.intree.volumes.objects import (
    Object,
    class_of_volume,
    field,
    items,
    labels_of,
    name_of,
    namespace_of,
    text,
)
from pyscheduler.intree.volumes.parsing import Amount, amount, volume_kind

NONE = -1
"""Stands for no volume in arrays of volumes."""


class PersistentVolume(msgspec.Struct, frozen=True, eq=False):
    """A PersistentVolume as matching reads it."""

    source: Object
    name: str
    storage_class: str
    capacity: Amount
    affinity: Affinity
    kind: tuple[str, str]
    """volumeMode and volumeAttributesClassName, which must equal those of the claim."""
    access_modes: frozenset[str]
    claim: tuple[str, str] | None
    """Namespace and name of the claimRef."""
    available: bool
    deleting: bool


class ClaimCandidates(msgspec.Struct, frozen=True, eq=False):
    """A claim with the volumes that it can be bound to, best first."""

    claim: DelayedClaim
    prebound: tuple[PersistentVolume, ...]
    """Volumes with a claimRef to this claim; if there are any, no other can be bound."""
    free: tuple[PersistentVolume, ...]
    """Smallest first; equal ones by name, where kube-scheduler's order is random."""


# -- parsing ---------------------------------------------------------------------------------------------------------


def read_volume(source: Object) -> PersistentVolume:
    return PersistentVolume(
        source,
        name_of(source),
        class_of_volume(source),
        amount(field(source, "spec", "capacity", "storage")),
        affinity_of(source),
        volume_kind(source),
        frozenset(map(str, items(source, "spec", "accessModes"))),
        claim=claim_of_volume(source),
        available=text(source, "status", "phase") == "Available",
        deleting=field(source, "metadata", "deletionTimestamp") is not None,
    )


def claim_of_volume(volume: Object) -> tuple[str, str] | None:
    """Return namespace and name of the claimRef; None if the volume has none."""
    claim_ref = field(volume, "spec", "claimRef")
    return None if claim_ref is None else (text(claim_ref, "namespace"), text(claim_ref, "name"))


def is_bound_to_claim(volume: Object, claim: Object) -> bool:
    """Return True if the volume's claimRef is the claim; a reference without a UID matches by name."""
    if claim_of_volume(volume) != (namespace_of(claim), name_of(claim)):
        return False
    return text(volume, "spec", "claimRef", "uid") in ("", text(claim, "metadata", "uid"))


# -- nodes -----------------------------------------------------------------------------------------------------------


def is_within(affinity: Affinity, labels: Mapping[str, str]) -> bool:
    """Return True if a node with these labels is within the affinity."""
    return affinity is None or any(selector.matches(labels) for selector in affinity)


def affinity_mask(affinity: Affinity, nodes: NodeTable) -> Mask:
    """Return the mask of nodes within the affinity."""
    if affinity is None:
        return np.ones(len(nodes), np.bool_)
    mask = np.zeros(len(nodes), np.bool_)
    for selector in _merged(affinity):
        mask |= nodes.matches(selector)
    return mask


def _merged(selectors: Sequence[Selector]) -> Sequence[Selector]:
    """Return fewer selectors that match the same nodes: those of one requirement `key In values` are one per key.

    Local volumes and their capacities have a selector for each node.
    """
    if len(selectors) == 1:
        return selectors
    values: dict[str, dict[str, None]] = {}
    others = []
    for selector in selectors:
        if len(selector.requirements) == 1 and selector.requirements[0].operator == "In":
            (requirement,) = selector.requirements
            values.setdefault(requirement.key, {}).update(dict.fromkeys(requirement.values))
        else:
            others.append(selector)
    return [*others, *(Selector((Requirement(key, "In", tuple(found)),)) for key, found in values.items())]


# -- matching --------------------------------------------------------------------------------------------------------


def find_candidates(claim: DelayedClaim, volumes: Iterable[PersistentVolume]) -> ClaimCandidates:
    """Return the volumes that the claim can be bound to. StatusError for an invalid selector."""
    request = claim.request
    if request.selector_problem:
        raise StatusError(f"error creating internal label selector for claim: {claim.key}: {request.selector_problem}")
    prebound: list[PersistentVolume] = []
    free: list[PersistentVolume] = []
    for volume in volumes:
        if volume.deleting or volume.capacity < request.size or volume.kind != request.kind:
            continue
        if volume.claim is not None:
            prebound += [volume] if is_bound_to_claim(volume.source, claim.source) else []
        elif volume.available and request.access_modes <= volume.access_modes:
            selector = request.selector
            free += [volume] if selector is None or selector.matches(labels_of(volume.source)) else []
    free.sort(key=lambda v: (v.capacity, v.name))
    return ClaimCandidates(claim, tuple(sorted(prebound, key=lambda v: v.name)), tuple(free))


def find_matching_volume(
    claim: ClaimCandidates, labels: Mapping[str, str], taken: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """Return the claim's volume on a node with these labels; `taken` are those of the pod's other claims."""
    left = [v for v in claim.prebound if v not in taken]
    if left:
        return left[0] if is_within(left[0].affinity, labels) else None
    return next((v for v in claim.free if v not in taken and is_within(v.affinity, labels)), None)


def _union_mask(affinities: Iterable[Affinity], nodes: NodeTable) -> Mask:
    """Return the mask of nodes within any of the affinities."""
    selectors: list[Selector] = []
    for affinity in affinities:
        if affinity is None:
            return np.ones(len(nodes), np.bool_)
        selectors += affinity
    return affinity_mask(tuple(selectors), nodes)


class VolumeMatcher:
    """`find_matching_volume` for all nodes of a table at once, claim after claim."""

    def __init__(self, nodes: NodeTable, claims: int) -> None:
        """`claims` is the number of claims that get volumes; if there is only one, it does not matter which it gets."""
        self._nodes = nodes
        self._claims = claims
        self._ids: dict[str, int] = {}
        self._taken: list[Ints] = []

    def find_matching_volume(self, claim: ClaimCandidates) -> Mask:
        """Take a volume for the claim on every node; return the mask of nodes without one."""
        if self._claims == 1 and not claim.prebound:
            return ~_union_mask([volume.affinity for volume in claim.free], self._nodes)
        return np.equal(self._take(claim), NONE)

    def matching_volumes(self, claim: ClaimCandidates) -> Ints:
        """Take a volume for the claim on every node; return its number among the pre-bound and free ones, or NONE.

        Of a claim that is the only one, the number is that of a volume of the same size and class.
        """
        volumes = (*claim.prebound, *claim.free)
        if self._claims == 1 and not claim.prebound:
            return self._first_of_each_size(volumes)
        numbers: Ints = np.full(len(self._ids) + len(volumes) + 1, NONE, np.int64)
        taken = self._take(claim)
        for number, volume in enumerate(volumes):
            if volume.name in self._ids:
                numbers[self._ids[volume.name]] = number
        return numbers[taken]

    def _first_of_each_size(self, volumes: Sequence[PersistentVolume]) -> Ints:
        chosen: Ints = np.full(len(self._nodes), NONE, np.int64)
        undecided = np.ones(len(self._nodes), np.bool_)
        groups: dict[tuple[Amount, str], list[int]] = {}
        for number, volume in enumerate(volumes):
            groups.setdefault((volume.capacity, text(volume.source, "spec", "storageClassName")), []).append(number)
        for numbers in groups.values():
            if not undecided.any():
                break
            reached = undecided & _union_mask([volumes[number].affinity for number in numbers], self._nodes)
            chosen[reached] = numbers[0]
            undecided &= ~reached
        return chosen

    def _take(self, claim: ClaimCandidates) -> Ints:
        """Take a volume for the claim on every node; return its number among all volumes."""
        chosen: Ints = np.full(len(self._nodes), NONE, np.int64)
        undecided = np.ones(len(self._nodes), np.bool_)
        for volume in (*claim.prebound, *claim.free):
            if not undecided.any():
                break
            number = self._ids.setdefault(volume.name, len(self._ids))
            eligible = undecided
            for taken in self._taken:
                eligible = eligible & (taken != number)
            reached = eligible & affinity_mask(volume.affinity, self._nodes)
            chosen[reached] = number
            # A pre-bound volume rules out all others, even on nodes from which it is not accessible.
            undecided &= ~(eligible if volume in claim.prebound else reached)
        self._taken.append(chosen)
        return chosen
