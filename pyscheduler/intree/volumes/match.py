"""Which volume a claim is bound to when its pod comes to a node: the one kept for it, else the smallest that serves.

What does not depend on the node is checked once (`find_candidates`); what is left for a node is whether it reaches
the volume and whether another claim of the pod has taken it. Matches FindMatchingVolume (k8s.io/component-helpers).
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
"""In arrays of volumes: no volume."""


class Amount(NamedTuple):
    """A quantity, exact to a thousandth; amounts compare as the quantities do, however large."""

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
    """Its volumeMode and its volumeAttributesClassName, which a claim must agree with."""
    access_modes: frozenset[str]
    claimed: bool
    available: bool
    deleting: bool


class ClaimCandidates(msgspec.Struct, frozen=True, eq=False):
    """A claim with the volumes that it may be bound to, best first."""

    claim: Object
    prebound: tuple[PersistentVolume, ...]
    """Those that are bound to it already from their side: one of these, or none at all."""
    free: tuple[PersistentVolume, ...]
    """The smallest first; of equal ones the order is that of their names, where kube-scheduler leaves it to chance."""


# -- reading ---------------------------------------------------------------------------------------------------------


def amount(source: Any) -> Amount:
    """A quantity off the wire; nothing for one that is missing or cannot be read."""
    if isinstance(source, str | int | float):
        try:
            return Amount(value(source), milli_value(source))
        except QuantityError:
            pass
    return Amount(0, 0)


def requested(claim: Object) -> Amount:
    """How much storage the claim asks for."""
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
    """Whether the volume names the claim as its own; a reference without a UID fits any claim of the name."""
    held = field(volume, "spec", "claimRef")
    if held is None or (text(held, "namespace"), text(held, "name")) != (namespace_of(claim), name_of(claim)):
        return False
    return text(held, "uid") in ("", text(claim, "metadata", "uid"))


# -- nodes -----------------------------------------------------------------------------------------------------------


def is_within(affinity: Affinity, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is within the affinity."""
    return affinity is None or any(selector.matches(labels) for selector in affinity)


def affinity_mask(affinity: Affinity, nodes: NodeTable) -> Mask:
    """Which nodes are within the affinity."""
    if affinity is None:
        return np.ones(len(nodes), np.bool_)
    mask = np.zeros(len(nodes), np.bool_)
    for selector in affinity:
        mask |= nodes.matches(selector)
    return mask


# -- matching --------------------------------------------------------------------------------------------------------


def find_candidates(claim: Object, volumes: Iterable[PersistentVolume]) -> ClaimCandidates:
    """Which of the volumes of its class the claim may be bound to. StatusError for a selector that makes no sense."""
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
    """The claim's volume on a node with these labels, none of those that the pod's other claims have taken there."""
    left = [v for v in claim.prebound if v not in taken]
    if left:
        return left[0] if is_within(left[0].affinity, labels) else None
    return next((v for v in claim.free if v not in taken and is_within(v.affinity, labels)), None)


class VolumeMatcher:
    """The same for all nodes of a table at once, claim after claim."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._ids: dict[str, int] = {}
        self._taken: list[Ints] = []

    def find_matching_volume(self, claim: ClaimCandidates) -> Mask:
        """Take a volume for the claim on every node; which nodes have none for it."""
        chosen: Ints = np.full(len(self._nodes), NONE, np.int64)
        undecided = np.ones(len(self._nodes), np.bool_)
        for volume in (*claim.prebound, *claim.free):
            if not undecided.any():
                break
            number = self._ids.setdefault(volume.name, len(self._ids))
            asked = undecided
            for taken in self._taken:
                asked = asked & (taken != number)
            reached = asked & affinity_mask(volume.affinity, self._nodes)
            chosen[reached] = number
            # A volume that was kept for the claim is the last word also where the node does not reach it.
            undecided &= ~(asked if volume in claim.prebound else reached)
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
    """Compile a metav1.LabelSelector as decoded JSON; None (absent) stays None. SelectorError if it is none."""
    if source is None:
        return None
    try:
        return read_selector(msgspec.convert(source, LabelSelector))
    except msgspec.ValidationError as problem:
        raise SelectorError(str(problem)) from None
