"""Eviction units in the order in which a preemption removes them, with their pods in columns.

Few of the units are needed, and there may be a million: a unit of a single pod is created when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.pod_group import EvictionRank, EvictionUnit
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.topology import PodCount, PodKinds
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.pods_by_importance import NO_PODS, ImportanceColumns

_SINGLE = -1


class EvictionOrder:
    """Eviction units, the least important first: single pods in columns, and other units between them."""

    def __init__(
        self,
        state: ClusterState,
        units: Sequence[EvictionUnit],
        single: ImportanceColumns = NO_PODS,
        kinds: PodKinds | None = None,
    ) -> None:
        """Create the order of `units` in their order, and of the pods of `single` with these kinds."""
        self._state, self._units = state, units
        self._kinds = PodKinds() if kinds is None else kinds
        at = _places(units, single)
        of_units = [list[Pod]() for _ in units]
        """Pods of each unit that are in none before it."""
        seen: set[str] = set()
        for unit, pods in zip(units, of_units, strict=True):
            pods += (pod for pod in unit.pods if pod.uid not in seen)
            seen.update(pod.uid for pod in pods)
        places = at + np.arange(len(units))
        self._unit = np.full(len(units) + len(single.uids), _SINGLE, np.intp)
        """Index in `units`, or `_SINGLE`, by the number of the unit."""
        self._unit[places] = np.arange(len(units))
        sizes = np.ones(len(self._unit), np.intp)
        sizes[places] = counts = [len(pods) for pods in of_units]
        self.ends: NDArray[np.intp] = np.concatenate((np.zeros(1, np.intp), sizes.cumsum()))
        """Number of pods of the first units, by the number of units: one pod may be in two."""
        self._uids, self.rows, self._kind_of = single.uids, single.rows, single.kinds
        if units:
            self._insert(np.repeat(at, counts), [pod for pods in of_units for pod in pods])

    def _insert(self, at: NDArray[np.intp], pods: Sequence[Pod]) -> None:
        uids = np.empty(len(pods), np.object_)
        uids[:] = [pod.uid for pod in pods]
        self._uids = np.insert(self._uids, at, uids)
        nodes = [self._state.node_of(pod.uid) for pod in pods]
        self.rows = np.insert(self.rows, at, [-1 if node is None else node.row for node in nodes])
        """Row of each pod's node."""
        self._kind_of = np.insert(self._kind_of, at, list(map(self._kinds.number, pods)))

    def __len__(self) -> int:
        return len(self._unit)

    @property
    def pods(self) -> Sequence[Pod]:
        """All pods in the order of their removal, each once; they are looked up when they are read."""
        return _PodsOnNodes(self._state, self._uids)

    def requests(self, resource: str) -> Ints:
        """Return what each of the pods requests of a resource."""
        return self._kinds.values(_ColumnRequests(resource))[self._kind_of]

    def first(self, count: int) -> list[EvictionUnit]:
        """Return the first units."""
        units, ends = self._unit[:count].tolist(), self.ends[:count].tolist()
        return [self._single(end) if i == _SINGLE else self._units[i] for i, end in zip(units, ends, strict=True)]

    def pods_of_first(self, count: int) -> Sequence[Pod]:
        """Return the pods of the first units."""
        return self.pods[: int(self.ends[count])]

    def _single(self, index: int) -> EvictionUnit:
        pod = self.pods[index]
        return EvictionUnit((pod,), pod.priority, EvictionRank.SINGLE_POD, pod.started)


@dataclass(frozen=True, slots=True)
class _ColumnRequests(PodCount):
    """Requests of one resource as the columns of nodes count them: none is above the largest int64."""

    resource: str
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return min(signature.requests.effective.get(self.resource, 0), MAX_INT64)


def _places(units: Sequence[EvictionUnit], single: ImportanceColumns) -> NDArray[np.intp]:
    """Return the number of single pods before each unit."""
    ranks = np.array([unit.rank for unit in units], np.intp)
    is_single = ranks == EvictionRank.SINGLE_POD
    keys = np.empty(len(units), np.complex128)
    keys.real = np.array([unit.priority for unit in units], np.float64) + (ranks > EvictionRank.SINGLE_POD)
    keys.imag = np.where(is_single, [-unit.started for unit in units], -np.inf)
    return np.where(is_single, single.keys.searchsorted(keys, "right"), single.keys.searchsorted(keys))


class _PodsOnNodes(Sequence[Pod]):
    """Pods by UID."""

    def __init__(self, state: ClusterState, uids: NDArray[np.object_]) -> None:
        self._state, self._uids = state, uids

    def __len__(self) -> int:
        return len(self._uids)

    def __iter__(self) -> Iterator[Pod]:
        return map(self._pod, self._uids)

    @overload
    def __getitem__(self, index: int) -> Pod: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pod]: ...
    def __getitem__(self, index: int | slice) -> Pod | Sequence[Pod]:
        return list(map(self._pod, self._uids[index])) if isinstance(index, slice) else self._pod(self._uids[index])

    def _pod(self, uid: str) -> Pod:
        node = self._state.node_of(uid)
        assert node is not None, f"pod {uid} is on a node"
        return node.pods[uid]
