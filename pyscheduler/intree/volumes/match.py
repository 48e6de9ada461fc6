"""Matching of claims with volumes: the pre-bound volume, else the smallest that satisfies the claim.

The candidates are what does not depend on the node; per node, the volume must be accessible and not taken by another
claim of the pod. Matches FindMatchingVolume (k8s.io/component-helpers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from pyscheduler.api import Mask, NodeTable, Requirement, Selector, StatusError
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


def free_volumes(claim: DelayedClaim, volumes: Iterable[PersistentVolume]) -> tuple[PersistentVolume, ...]:
    """Return the volumes without a claimRef that the claim can be bound to, in order.

    They depend on its request only. StatusError for an invalid selector.
    """
    request = claim.request
    if request.selector_problem:
        raise StatusError(f"error creating internal label selector for claim: {claim.key}: {request.selector_problem}")
    selector = request.selector
    free = [
        volume
        for volume in volumes
        if _is_suitable(volume, claim)
        and volume.available
        and request.access_modes <= volume.access_modes
        and (selector is None or selector.matches(labels_of(volume.source)))
    ]
    return tuple(sorted(free, key=order_of_volume))


def prebound_volumes(claim: DelayedClaim, volumes: Iterable[PersistentVolume]) -> tuple[PersistentVolume, ...]:
    """Return the volumes with a claimRef to the claim, by name."""
    found = (v for v in volumes if _is_suitable(v, claim) and is_bound_to_claim(v.source, claim.source))
    return tuple(sorted(found, key=lambda v: v.name))


def _is_suitable(volume: PersistentVolume, claim: DelayedClaim) -> bool:
    request = claim.request
    return not volume.deleting and not volume.capacity < request.size and volume.kind == request.kind


def order_of_volume(volume: PersistentVolume) -> tuple[Amount, str]:
    """Return the sort key of free volumes: smallest first, equal ones by name."""
    return volume.capacity, volume.name


class NodeMatcher:
    """Matching of claims with volumes on one node, claim after claim."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._taken: set[PersistentVolume] = set()
        self._accessible: dict[PersistentVolume, bool] = {}
        self._left: dict[int, Iterator[PersistentVolume]] = {}
        """Volumes that may be left, by the identity of the tuple of free ones: many claims have the same."""

    def find_matching_volume(self, claim: ClaimCandidates) -> PersistentVolume | None:
        """Take the claim's volume; None if there is none."""
        left = [v for v in claim.prebound if v not in self._taken]
        if left:
            volume = left[0] if self._is_accessible(left[0]) else None
        else:
            rest = self._left.setdefault(id(claim.free), iter(claim.free))
            volume = next((v for v in rest if v not in self._taken and self._is_accessible(v)), None)
        if volume is not None:
            self._taken.add(volume)
        return volume

    def _is_accessible(self, volume: PersistentVolume) -> bool:
        found = self._accessible.get(volume)
        if found is None:
            found = self._accessible[volume] = is_within(volume.affinity, self._labels)
        return found
