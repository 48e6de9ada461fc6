"""Placed pods that end, in the order of their ends.

A cluster may run 150,000 pods, and each attempt of a group that lacks room reads them. So what a pod leaves and when is
kept in columns, which are read again only for nodes that have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.learnt_run_times import LearntRunTimes, Workload, workload_of
from pyscheduler.core.pod_groups.room import requests_in_columns
from pyscheduler.core.pod_groups.run_times import UNKNOWN, PlacementTimes, ends, run_seconds
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow

Floats = NDArray[np.float64]
_END, _STARTED, _PLACED, _WORKLOAD, _REQUESTS = range(5)
_NO_PODS: Floats = np.empty((5, 0))
_NO_WORKLOAD = 0
_FIRST_LIMIT = 10_000
"""Least number of distinct requests and workloads at which those of pods that have ended are dropped."""


class _PodsOfNode(Struct, frozen=True):
    """Pods of a node that end."""

    pods: Sequence[Pod] = ()
    columns: Floats = _NO_PODS
    """End, start and placement, and the indices of the workload and of the requests, a row each."""


class EndOrder:
    """The pods that end, in the order of their ends."""

    def __init__(
        self, nodes: Sequence[_PodsOfNode], rows: Ints, positions: Ints, times: Floats, requests: Mapping[str, Ints]
    ) -> None:
        self._nodes = nodes
        self._positions = positions
        self._times = times
        self.rows = rows
        """Row of the node of each pod."""
        self.requests = requests
        """What each pod requests of the resources that were asked for."""

    def __len__(self) -> int:
        return len(self.rows)

    def time(self, position: int) -> float:
        """Return when a pod ends."""
        return float(self._times[position])

    def count_until(self, time: float, *, is_included: bool) -> int:
        """Return how many pods end before a time, or then if that is included."""
        return int(np.searchsorted(self._times, time, "right" if is_included else "left"))

    def pods_on(self, nodes: Mask, count: int) -> list[Pod]:
        """Return those of the first pods that are on these nodes."""
        chosen = nodes[self.rows[:count]]
        rows, positions = self.rows[:count][chosen].tolist(), self._positions[:count][chosen].tolist()
        return [self._nodes[row].pods[i] for row, i in zip(rows, positions, strict=True)]


class EndingPods:
    """All placed pods that end, by node."""

    def __init__(self, times: PlacementTimes) -> None:
        self._times = times
        self._learnt: LearntRunTimes | None = None
        self._kinds_limit = _FIRST_LIMIT
        self._clear()

    def _clear(self) -> None:
        self._generations: Ints = np.empty(0, np.int64)
        self._nodes: list[_PodsOfNode] = []
        self._requests: dict[tuple[tuple[str, int], ...], int] = {}
        self._workloads: dict[Workload | None, int] = {None: _NO_WORKLOAD}
        self._columns: Floats = _NO_PODS
        self._rows: Ints = np.empty(0, np.int64)
        self._positions: Ints = np.empty(0, np.int64)
        """Positions of the pods on their nodes."""

    def order(
        self, state: ClusterState, now: float, resources: Iterable[str], without: Collection[str] = ()
    ) -> EndOrder:
        """Return the pods but those with these UIDs, and what they request of the resources."""
        self._refresh(state, now)
        times = self._ends(now)
        order = np.lexsort((self._columns[_STARTED], times))
        if without:
            uids = (pod.uid for node in self._nodes for pod in node.pods)
            kept = np.fromiter((uid not in without for uid in uids), np.bool_, len(order))
            order = order[kept[order]]
        kinds = self._columns[_REQUESTS].astype(np.intp)[order]
        by_kind = requests_in_columns(map(dict, self._requests), resources)
        requests = {resource: amounts[kinds] for resource, amounts in by_kind.items()}
        return EndOrder(self._nodes, self._rows[order], self._positions[order], times[order], requests)

    def _ends(self, now: float) -> Floats:
        """Return when the pods end, at the earliest now: those that are terminating, or run too long."""
        ends_at: Floats = np.maximum(self._columns[_END], now)
        if self._learnt is None:
            return ends_at
        seconds = np.fromiter(map(self._learnt_seconds, self._workloads), np.float64, len(self._workloads))
        learnt = np.minimum(self._columns[_PLACED], now) + seconds[self._columns[_WORKLOAD].astype(np.intp)]
        learnt[learnt <= now] = UNKNOWN
        earliest: Floats = np.minimum(ends_at, learnt)
        return earliest

    def _learnt_seconds(self, workload: Workload | None) -> float:
        seconds = None if self._learnt is None or workload is None else self._learnt.seconds_of(workload)
        return UNKNOWN if seconds is None else seconds

    # -- columns -------------------------------------------------------------------------------------------------

    def _refresh(self, state: ClusterState, now: float) -> None:
        """Read the nodes again that have changed."""
        is_outgrown = len(self._requests) + len(self._workloads) > self._kinds_limit
        if is_outgrown or self._learnt is not self._times.learnt:
            self._learnt = self._times.learnt
            self._clear()
        count = len(state.rows)
        generations = state.table().generations.copy()
        known = min(count, len(self._generations))
        changed = np.flatnonzero(generations[:known] != self._generations[:known]).tolist()
        if not changed and count == len(self._generations):
            return
        self._nodes = [*self._nodes[:count], *[_PodsOfNode()] * (count - known)]
        for row in (*changed, *range(known, count)):
            self._nodes[row] = self._read(state.rows[row], now)
        self._generations = generations
        self._columns = np.concatenate([node.columns for node in self._nodes] or [_NO_PODS], axis=1)
        counts = np.fromiter((len(node.pods) for node in self._nodes), np.int64, count)
        self._rows = np.repeat(np.arange(count), counts)
        self._positions = np.arange(len(self._rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        if is_outgrown:
            self._kinds_limit = max(_FIRST_LIMIT, 2 * (len(self._requests) + len(self._workloads)))

    def _read(self, node: NodeRow, now: float) -> _PodsOfNode:
        pods = [pod for pod in node.pods.values() if ends(pod)]
        if not pods:
            return _PodsOfNode()
        columns = np.empty((5, len(pods)))
        for i, pod in enumerate(pods):
            end = -UNKNOWN if pod.deleting else self._times.declared_end(pod, now)
            is_learnt = self._learnt is not None and not pod.deleting and run_seconds(pod) is None
            placed = self._times.recorded_start(pod) if is_learnt else UNKNOWN
            workload = self._workloads.setdefault(workload_of(pod) if is_learnt else None, len(self._workloads))
            requests = tuple(pod.requests.effective.items())
            columns[:, i] = end, pod.started, placed, workload, self._requests.setdefault(requests, len(self._requests))
        return _PodsOfNode(pods, columns)
