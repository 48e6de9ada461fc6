"""Pods on nodes in columns, the least important first, for preemption by pod groups.

There may be a million pods, and listing and sorting them takes longer than everything else in a preemption. Between two
preemptions few nodes change, so only their pods are sorted in again: those of nodes with another generation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.topology import PodKinds
from pyscheduler.core.state.cluster import ClusterState

_PLACE_BITS = 24
"""Bits of a pod's position on its node in a spot: positions and rows together are exact in a float."""
_SPARE_KINDS = 1 << 12
"""Number of kinds without pods up to which the columns do not start over."""


class ImportanceColumns(NamedTuple):
    """Columns of pods, sorted by key, then by spot."""

    keys: NDArray[np.complex128]
    """Priority, and as the imaginary part the negative start time: the newest is the least. -infinity: not started."""
    spots: Ints
    """Row of the node and position of the pod on it."""
    kinds: NDArray[np.int32]
    """Number of the pod's kind."""
    uids: NDArray[np.object_]

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row of each pod's node."""
        return (self.spots >> _PLACE_BITS).astype(np.intp)

    def selected(self, which: Mask | slice | NDArray[np.intp]) -> ImportanceColumns:
        """Return some of the pods."""
        return ImportanceColumns(self.keys[which], self.spots[which], self.kinds[which], self.uids[which])

    def lower(self, priority: int) -> ImportanceColumns:
        """Return the pods with a priority below this one."""
        return self.selected(slice(0, int(self.keys.searchsorted(complex(priority, -math.inf)))))

    def with_inserted(self, at: NDArray[np.intp], more: ImportanceColumns) -> ImportanceColumns:
        """Return these pods with others inserted before those at these indexes."""
        return ImportanceColumns(
            np.insert(self.keys, at, more.keys),
            np.insert(self.spots, at, more.spots),
            np.insert(self.kinds, at, more.kinds),
            np.insert(self.uids, at, more.uids),
        )


class PodsByImportance:
    """Pods on existing nodes that are not terminating; nothing is stored before the first read."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._clear()

    def _clear(self) -> None:
        self._kinds = PodKinds()
        self._generations = np.zeros(0, np.int64)
        """Generation of each row when its pods were sorted in."""
        self._columns = NO_PODS

    def read(self) -> tuple[ImportanceColumns, PodKinds]:
        """Return all pods, and their kinds; later changes of the cluster do not change the columns."""
        if len(self._kinds.signatures) > 2 * len(self._columns.keys) + _SPARE_KINDS:
            self._clear()
        self._refresh()
        found = self._columns, self._kinds
        if self._kinds.has_large:
            self._clear()
        return found

    def _refresh(self) -> None:
        """Sort in the pods of the nodes that have changed."""
        generations = self._state.table().generations
        is_stale = np.ones(max(len(generations), len(self._generations)), np.bool_)
        both = min(len(generations), len(self._generations))
        is_stale[:both] = generations[:both] != self._generations[:both]
        if not is_stale.any():
            return
        kept, stale_rows = self._columns.selected(~is_stale[self._columns.rows]), np.flatnonzero(is_stale)
        self._generations = generations.copy()
        self._columns = _merged(kept, self._columns_of(stale_rows[stale_rows < len(generations)].tolist()))

    def _columns_of(self, rows: list[int]) -> ImportanceColumns:
        pods: list[Pod] = []
        spots: list[int] = []
        for row in rows:
            for spot, pod in enumerate(self._state.rows[row].pods.values(), row << _PLACE_BITS):
                if not pod.deleting:
                    pods.append(pod)
                    spots.append(spot)
        priorities, starts = [pod.signature.priority for pod in pods], [-pod.started for pod in pods]
        return _sorted_columns(priorities, starts, spots, list(map(self._kinds.number, pods)), [p.uid for p in pods])


def _sorted_columns(
    priorities: list[int], starts: list[float], spots: list[int], kinds: list[int], uids: list[str]
) -> ImportanceColumns:
    keys, names = np.empty(len(uids), np.complex128), np.empty(len(uids), np.object_)
    keys.real, keys.imag, names[:] = priorities, starts, uids
    columns = ImportanceColumns(keys, np.array(spots, np.int64), np.array(kinds, np.int32), names)
    return columns.selected(np.lexsort((columns.spots, keys.imag, keys.real)))


NO_PODS = _sorted_columns([], [], [], [], [])


def _merged(kept: ImportanceColumns, added: ImportanceColumns) -> ImportanceColumns:
    """Return the columns of both."""
    if not len(kept.keys) or not len(added.keys):
        return kept if len(kept.keys) else added
    at, end = kept.keys.searchsorted(added.keys), kept.keys.searchsorted(added.keys, "right")
    ties = end > at
    if ties.any():  # many pods may have started in the same second
        ranks = np.concatenate((np.zeros(1), (kept.keys[1:] != kept.keys[:-1]).cumsum()))
        at[ties] = _pairs(ranks, kept.spots).searchsorted(_pairs(ranks[at[ties]], added.spots[ties]))
    return kept.with_inserted(at, added)


def _pairs(ranks: NDArray[np.float64], spots: Ints) -> NDArray[np.complex128]:
    """Return pairs of numbers as NumPy sorts them: complex numbers."""
    pairs = np.empty(len(ranks), np.complex128)
    pairs.real, pairs.imag = ranks, spots
    return pairs
