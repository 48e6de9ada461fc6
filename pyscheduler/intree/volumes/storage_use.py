"""Use of storage by a pod's claims on one node, and VolumeBinding's score of it (KEP-1845)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyscheduler.intree._scoring import UtilizationShapePoint, ratings_of_shape

_ALL_USED = 100


class StorageUse(NamedTuple):
    """Bytes that claims of one class request, and bytes of the volumes or of the free capacity they are given."""

    requested: int
    capacity: int


Uses = Mapping[str, StorageUse]
"""Use by storage class."""


class Claimed(NamedTuple):
    """One claim with its request and the size of its volume, or of the capacity that its volume is taken from."""

    storage_class: str
    use: StorageUse


def use_of_volumes(claims: Iterable[Claimed]) -> Uses:
    """Return the use by claims that are bound to existing volumes: the volumes add up."""
    uses: dict[str, StorageUse] = {}
    for name, (requested, capacity) in claims:
        before = uses.get(name, StorageUse(0, 0))
        uses[name] = StorageUse(before.requested + requested, before.capacity + capacity)
    return uses


def use_of_capacity(claims: Iterable[Claimed]) -> Uses:
    """Return the use by claims that are provisioned: those of one class share its capacity."""
    uses: dict[str, StorageUse] = {}
    for name, (requested, capacity) in claims:
        before = uses.get(name)
        uses[name] = StorageUse(requested + (before.requested if before is not None else 0), capacity)
    return uses


class StorageScorer:
    """Score of a node: the mean over the classes of a function of their utilization."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._ratings = ratings_of_shape(tuple(shape))

    def score(self, uses: Uses) -> int:
        """Return the score, 0..100; 0 if no capacity is known."""
        if not uses:
            return 0
        total = sum(self._ratings[_utilization(use)] for use in uses.values())
        return (2 * total + len(uses)) // (2 * len(uses))  # rounded half up


def _utilization(use: StorageUse) -> int:
    """Return the used percentage of the capacity, 0..100."""
    if not use.capacity or use.requested > use.capacity:
        return _ALL_USED
    return use.requested * _ALL_USED // use.capacity
