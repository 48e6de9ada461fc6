"""Matching of a pod's claims with volumes for all nodes at once.

Volumes are taken in order of size, each on the nodes from which it is accessible. The pairs of a volume and a node are
columns, so a claim costs array operations over the pairs, whatever the claims before it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, Mask, NodeTable, Selector
from pyscheduler.intree.volumes.csi_topology import Affinity
from pyscheduler.intree.volumes.match import NONE, ClaimCandidates, PersistentVolume, affinity_mask, order_of_volume
from pyscheduler.intree.volumes.objects import text
from pyscheduler.intree.volumes.parsing import Amount

Indices = NDArray[np.intp]


class VolumeMatcher:
    """`find_matching_volume` for all nodes of a table at once, claim after claim."""

    def __init__(self, nodes: NodeTable, claims: Sequence[ClaimCandidates]) -> None:
        """`claims` are all that get volumes; if there is only one, it does not matter which it gets."""
        self._nodes = nodes
        self._is_alone = len(claims) == 1 and not claims[0].prebound
        free = {volume for candidates in {id(c.free): c.free for c in claims}.values() for volume in candidates}
        self.volumes = sorted(free, key=order_of_volume)
        """Volumes by number."""
        self._pairs = _Pairs(self.volumes, nodes)
        self._numbers = {volume: number for number, volume in enumerate(self.volumes)}
        self._members: dict[int, Mask] = {}
        """Mask of the volumes that are free for a claim, by the identity of its tuple."""
        self._taken: dict[PersistentVolume, Mask] = {}
        """Nodes on which a pre-bound volume is taken."""

    def find_matching_volume(self, claim: ClaimCandidates) -> Mask:
        """Take a volume for the claim on every node; return the mask of nodes without one."""
        if self._is_alone:
            return ~_union_mask([volume.affinity for volume in claim.free], self._nodes)
        return np.equal(self._take(claim), NONE)

    def matching_volumes(self, claim: ClaimCandidates) -> Ints:
        """Take a volume for the claim on every node; return its number, or NONE.

        Of a claim that is the only one, the number is that of a volume of the same size and class.
        """
        return self._first_of_each_size() if self._is_alone else self._take(claim)

    def _first_of_each_size(self) -> Ints:
        chosen: Ints = np.full(len(self._nodes), NONE, np.int64)
        undecided = np.ones(len(self._nodes), np.bool_)
        groups: dict[tuple[Amount, str], list[int]] = {}
        for number, volume in enumerate(self.volumes):
            groups.setdefault((volume.capacity, text(volume.source, "spec", "storageClassName")), []).append(number)
        for numbers in groups.values():
            if not undecided.any():
                break
            reached = undecided & _union_mask([self.volumes[number].affinity for number in numbers], self._nodes)
            chosen[reached] = numbers[0]
            undecided &= ~reached
        return chosen

    def _take(self, claim: ClaimCandidates) -> Ints:
        """Take a volume for the claim on every node; return its number."""
        chosen: Ints = np.full(len(self._nodes), NONE, np.int64)
        undecided = np.ones(len(self._nodes), np.bool_)
        for volume in claim.prebound:
            taken = self._taken.setdefault(volume, np.zeros(len(self._nodes), np.bool_))
            eligible = undecided & ~taken
            reached = eligible & affinity_mask(volume.affinity, self._nodes)
            chosen[reached] = self._number(volume)
            taken |= reached
            # A pre-bound volume rules out all others, even on nodes from which it is not accessible.
            undecided &= ~eligible
        if claim.free and undecided.any():
            self._pairs.take(self._member_mask(claim.free), undecided, chosen)
        return chosen

    def _number(self, volume: PersistentVolume) -> int:
        """Return the number of a pre-bound volume, which comes after the free ones."""
        number = self._numbers.setdefault(volume, len(self.volumes))
        if number == len(self.volumes):
            self.volumes.append(volume)
        return number

    def _member_mask(self, free: tuple[PersistentVolume, ...]) -> Mask:
        mask = self._members.get(id(free))
        if mask is None:
            mask = self._members[id(free)] = np.zeros(self._pairs.count, np.bool_)
            mask[[self._numbers[volume] for volume in free]] = True
        return mask


class _Block:
    """Pairs of some volumes, in their order."""

    __slots__ = ("free", "left", "node", "volume")

    def __init__(self, volume: Ints, node: Indices) -> None:
        self.volume = volume
        self.node = node
        self.free: Mask = np.ones(len(node), np.bool_)
        """False where a claim has taken the volume."""
        self.left = len(node)


class _Pairs:
    """Pairs of a volume and a node from which it is accessible, in the order of the volumes.

    They are read in blocks of at least one for each node: most pods need the smallest volumes only.
    """

    def __init__(self, volumes: Sequence[PersistentVolume], nodes: NodeTable) -> None:
        self.count = len(volumes)
        self._nodes = nodes
        self._known: list[_Block] = []
        self._rest = self._read(list(volumes))

    def take(self, members: Mask, undecided: Mask, chosen: Ints) -> None:
        """Take the first free one of some volumes on each undecided node; both arrays are updated."""
        for block in self._blocks():
            if not block.left:
                continue
            possible = np.flatnonzero(block.free & members[block.volume] & undecided[block.node])
            if not len(possible):
                continue
            first: Indices = np.full(len(self._nodes), NONE, np.intp)
            first[block.node[possible[::-1]]] = possible[::-1]
            pairs = first[first != NONE]
            places = block.node[pairs]
            chosen[places] = block.volume[pairs]
            undecided[places] = False
            block.free[pairs] = False
            block.left -= len(pairs)
            if not undecided.any():
                return

    def _blocks(self) -> Iterator[_Block]:
        yield from self._known
        for block in self._rest:
            self._known.append(block)
            yield block

    def _read(self, volumes: list[PersistentVolume]) -> Iterator[_Block]:
        numbers: list[Ints] = []
        places: list[Indices] = []
        size = 0
        for number, volume in enumerate(volumes):
            place = np.flatnonzero(affinity_mask(volume.affinity, self._nodes))
            numbers.append(np.full(len(place), number, np.int64))
            places.append(place)
            size += len(place)
            if size >= len(self._nodes) or number == len(volumes) - 1:
                yield _Block(np.concatenate(numbers), np.concatenate(places))
                numbers, places, size = [], [], 0


def _union_mask(affinities: Iterable[Affinity], nodes: NodeTable) -> Mask:
    """Return the mask of nodes within any of the affinities."""
    selectors: list[Selector] = []
    for affinity in affinities:
        if affinity is None:
            return np.ones(len(nodes), np.bool_)
        selectors += affinity
    return affinity_mask(tuple(selectors), nodes)
