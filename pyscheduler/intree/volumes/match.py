"""Matching of claims with volumes: the pre-bound volume, else the smallest that satisfies the claim.

`find_candidates` checks once what does not depend on the node; per node, the volume must be accessible and not taken by
another claim of the pod. Matches FindMatchingVolume (k8s.io/component-helpers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pyscheduler.api import Ints, Mask, NodeTable, Selector, StatusError
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.api.quantity import QuantityError, milli_value, value
from pyscheduler.intree._label_selectors import read_selector
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

NONE = -1
"""Stands for no volume in arrays of volumes."""


class Amount(NamedTuple):
    """A quantity, exact to a thousandth; amounts compare as the quantities do, without a limit."""

    units: int
    thousandths: int


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
    claimed: bool
    available: bool
    deleting: bool


class ClaimCandidates(msgspec.Struct, frozen=True, eq=False):
    """A claim with the volumes that it can be bound to, best first."""

    claim: Object
    prebound: tuple[PersistentVolume, ...]
    """Volumes with a claimRef to this claim; if there are any, no other can be bound."""
    free: tuple[PersistentVolume, ...]
    """Smallest first; equal ones by name, where kube-scheduler's order is random."""


# -- parsing ---------------------------------------------------------------------------------------------------------


def amount(source: Any) -> Amount:
    """Parse a quantity of a JSON object; 0 if it is missing or invalid."""
    if isinstance(source, str | int | float):
        try:
            return Amount(value(source), milli_value(source))
        except QuantityError:
            pass
    return Amount(0, 0)


def requested(claim: Object) -> Amount:
    """Return the requested storage of the claim."""
    return amount(field(claim, "spec", "resources", "requests", "storage"))


def read_volume(source: Object) -> PersistentVolume:
    return PersistentVolume(
        source,
        name_of(source),
        class_of_volume(source),
        amount(field(source, "spec", "capacity", "storage")),
        affinity_of(source),
        _kind(source),
        frozenset(map(str, items(source, "spec", "accessModes"))),
        claimed=field(source, "spec", "claimRef") is not None,
        available=text(source, "status", "phase") == "Available",
        deleting=field(source, "metadata", "deletionTimestamp") is not None,
    )


def is_bound_to_claim(volume: Object, claim: Object) -> bool:
    """Return True if the volume's claimRef is the claim; a reference without a UID matches by name."""
    claim_ref = field(volume, "spec", "claimRef")
    if claim_ref is None or (text(claim_ref, "namespace"), text(claim_ref, "name")) != (
        namespace_of(claim),
        name_of(claim),
    ):
        return False
    return text(claim_ref, "uid") in ("", text(claim, "metadata", "uid"))


# -- nodes -----------------------------------------------------------------------------------------------------------


def is_within(affinity: Affinity, labels: Mapping[str, str]) -> bool:
    """Return True if a node with these labels is within the affinity."""
    return affinity is None or any(selector.matches(labels) for selector in affinity)


def affinity_mask(affinity: Affinity, nodes: NodeTable) -> Mask:
    """Return the mask of nodes within the affinity."""
    if affinity is None:
        return np.ones(len(nodes), np.bool_)
    mask = np.zeros(len(nodes), np.bool_)
    for selector in affinity:
        mask |= nodes.matches(selector)
    return mask


# -- matching --------------------------------------------------------------------------------------------------------


def find_candidates(claim: Object, volumes: Iterable[PersistentVolume]) -> ClaimCandidates:
    """Return the volumes that the claim can be bound to. StatusError for an invalid selector."""
    selector, kind, least = _selector(claim), _kind(claim), requested(claim)
    modes = set(map(str, items(claim, "spec", "accessModes")))
    prebound: list[PersistentVolume] = []
    free: list[PersistentVolume] = []
    for volume in volumes:
        if volume.deleting or volume.capacity < least or volume.kind != kind:
            continue
        if volume.claimed:
            prebound += [volume] if is_bound_to_claim(volume.source, claim) else []
        elif volume.available and modes <= volume.access_modes:
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


class VolumeMatcher:
    """`find_matching_volume` for all nodes of a table at once, claim after claim."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._ids: dict[str, int] = {}
        self._taken: list[Ints] = []

    def find_matching_volume(self, claim: ClaimCandidates) -> Mask:
        """Take a volume for the claim on every node; return the mask of nodes without one."""
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
        return np.equal(chosen, NONE)


def _kind(source: Object) -> tuple[str, str]:
    return text(source, "spec", "volumeMode") or "Filesystem", text(source, "spec", "volumeAttributesClassName")


def _selector(claim: Object) -> Selector | None:
    try:
        return read_label_selector(field(claim, "spec", "selector"))
    except SelectorError as problem:
        key = f"{namespace_of(claim)}/{name_of(claim)}"
        raise StatusError(f"error creating internal label selector for claim: {key}: {problem}") from None


def read_label_selector(source: Any) -> Selector | None:
    """Compile a metav1.LabelSelector from JSON; None (absent) stays None. SelectorError if it is invalid."""
    if source is None:
        return None
    try:
        return read_selector(msgspec.convert(source, LabelSelector))
    except msgspec.ValidationError as problem:
        raise SelectorError(str(problem)) from None
