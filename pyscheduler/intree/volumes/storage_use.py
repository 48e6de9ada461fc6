"""Use of storage by a pod's claims on one node, and VolumeBinding's score of it (KEP-1845)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pyscheduler.api import Ints, Mask, Scores
from pyscheduler.intree._scoring import UtilizationShapePoint, ratings_of_shape

MOST = 2**63 - 1
"""Bytes from which on sizes are not told apart."""
_ALL_USED = 100
_EXACT = MOST // _ALL_USED


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


class _ClassColumns(NamedTuple):
    """Use of one class on each node of a table."""

    is_used: Mask
    requested: Ints
    capacity: Ints


class UseColumns:
    """Use of storage on each node of a table: `use_of_volumes` or `use_of_capacity` of many nodes at once."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._classes: dict[str, _ClassColumns] = {}

    def add_volumes(self, storage_class: str, where: Mask, requested: int, capacity: Ints) -> None:
        """Add a claim that is bound to a volume of this capacity on the nodes of the mask."""
        columns = self._of(storage_class, where, requested)
        columns.capacity[where] += capacity[where]

    def add_capacity(self, storage_class: str, where: Mask, requested: int, capacity: Ints) -> None:
        """Add a claim that is provisioned from this capacity on the nodes of the mask."""
        columns = self._of(storage_class, where, requested)
        columns.capacity[where] = capacity[where]

    def _of(self, storage_class: str, where: Mask, requested: int) -> _ClassColumns:
        columns = self._classes.get(storage_class)
        if columns is None:
            is_used: Mask = np.zeros(self._nodes, np.bool_)
            requests, capacity = np.zeros(self._nodes, np.int64), np.zeros(self._nodes, np.int64)
            columns = self._classes[storage_class] = _ClassColumns(is_used, requests, capacity)
        columns.is_used[where] = True
        columns.requested[where] += min(requested, MOST)
        return columns

    def scores(self, ratings: Sequence[int]) -> Scores:
        """Return the score of each node for these ratings by utilization."""
        total, classes = np.zeros(self._nodes, np.int64), np.zeros(self._nodes, np.int64)
        by_utilization = np.array(ratings, np.int64)
        for is_used, requested, capacity in self._classes.values():
            total += np.where(is_used, by_utilization[_utilizations(requested, capacity)], 0)
            classes += is_used
        rounded: Scores = (2 * total + classes) // np.maximum(2 * classes, 1)
        return rounded


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

    def scores(self, uses: UseColumns) -> Scores:
        """Return the score of each node."""
        return uses.scores(self._ratings)


def _utilization(use: StorageUse) -> int:
    """Return the used percentage of the capacity, 0..100."""
    if not use.capacity or use.requested > use.capacity:
        return _ALL_USED
    return use.requested * _ALL_USED // use.capacity


def _utilizations(requested: Ints, capacity: Ints) -> Ints:
    """Return `_utilization` of each node."""
    if requested.max(initial=0) > _EXACT:
        requested, capacity = requested >> 7, capacity >> 7  # of exabytes, a percentage needs fewer digits
    is_short = (capacity <= 0) | (requested > capacity)
    used: Ints = np.where(is_short, _ALL_USED, requested * _ALL_USED // np.where(is_short, 1, capacity))
    return used
