"""Eviction units in the order in which a dry run removes them, and the room that the first of them leave.

A cluster may run 100,000 pods of a lower priority. A dry run removes only those on nodes that may then take a member:
as long as members depend on nothing on other nodes, the others make no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit
from pyscheduler.api.resources import PODS
from pyscheduler.api.steps import Steps
from pyscheduler.core.pod_groups.eviction_order import EvictionOrder
from pyscheduler.core.pod_groups.freed_room import FreedRoom
from pyscheduler.core.pod_groups.room import amounts, free_for_members, members_that_fit, requests_in_columns
from pyscheduler.core.state.cluster import ClusterState

T = TypeVar("T")


class RemovalOrder:
    """Terminating pods, then eviction units, the least important first."""

    def __init__(
        self,
        state: ClusterState,
        least: Mapping[str, int],
        units: EvictionOrder,
        terminating: Sequence[Pod],
        nominated: Iterable[tuple[int, Pod]] = (),
        *,
        is_local: bool,
    ) -> None:
        """Create the order for members that request at least this much; `is_local` if other nodes do not matter.

        `nominated` has the rows of other pods that come before the members.
        """
        self._terminating, self._units = terminating, units
        nodes = map(state.node_of, (pod.uid for pod in terminating))
        rows = np.fromiter((-1 if node is None else node.row for node in nodes), np.intp, len(terminating))
        self._rows = np.concatenate((rows, units.rows))
        self._is_local = is_local and bool(least)
        first = requests_in_columns((pod.requests.effective for pod in terminating), least)
        freed = {resource: np.concatenate((column, units.requests(resource))) for resource, column in first.items()}
        self._room = FreedRoom(state.table(), least, self._rows, freed, nominated)

    def fewest(self, needed: int) -> int | None:
        """Return the number of units without which the resources may suffice for the members; None if they never do."""
        pods = self._room.fewest(needed)
        if pods is None:
            return None
        return int(self._units.ends.searchsorted(max(0, pods - len(self._terminating))))

    def removed(self, count: int) -> list[Pod]:
        """Return the pods to remove in a dry run without so many units."""
        pods = [*self._terminating, *self._units.pods_of_first(count)]
        if not self._is_local:
            return pods
        has_room = self._room.members(len(pods)) > 0
        kept = ~has_room[self._rows[: len(pods)]]
        for i in np.flatnonzero(kept).tolist():
            # Its terms may reject members on other nodes.
            kept[i] = (affinity := pods[i].spec.affinity) is None or affinity.pod_anti_affinity is None
        return [pods[i] for i in np.flatnonzero(~kept).tolist()]


class RemovedPods:
    """Pods of removed units and terminating pods, while units are put back."""

    def __init__(self, state: ClusterState, removed: Sequence[EvictionUnit], terminating: Sequence[Pod]) -> None:
        self._state = state
        self._units_of = Counter(pod.uid for unit in removed for pod in unit.pods)
        """Number of removed units that each pod is in."""
        self._units_of.update({pod.uid: 1 for pod in terminating})
        self._terminating, self._removed = terminating, removed

    def requests_by_row(self) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Yield what each pod requests, with the row of its node."""
        pods = {pod.uid: pod for unit in self._removed for pod in unit.pods}
        pods |= {pod.uid: pod for pod in self._terminating}
        for pod in pods.values():
            if (node := self._state.node_of(pod.uid)) is not None:
                yield node.row, requests_with_slot(pod)

    def requests_of(self, unit: EvictionUnit) -> dict[int, Counter[str]]:
        """Return what the pods of a unit would take again of each node, by row; none that another unit removes."""
        taken: dict[int, Counter[str]] = {}
        for pod in unit.pods:
            node = self._state.node_of(pod.uid) if self._units_of[pod.uid] == 1 else None
            if node is not None:
                taken.setdefault(node.row, Counter()).update(requests_with_slot(pod))
        return taken

    def put_back(self, unit: EvictionUnit) -> None:
        """Put back the pods of a unit, unless they are removed with another one."""
        self._units_of.subtract(pod.uid for pod in unit.pods)


class PutBackBound:
    """Upper bound of the members that fit while removed units are put back, from resources alone."""

    def __init__(
        self,
        state: ClusterState,
        least: Mapping[str, int],
        removed: Sequence[EvictionUnit],
        terminating: Sequence[Pod],
        nominated: Iterable[tuple[int, Pod]] = (),
    ) -> None:
        """Create the bound after the removal of these units, for members that request at least this much."""
        self._least, self._removed = least, RemovedPods(state, removed, terminating)
        nodes = state.table()
        self._free = free_for_members(nodes, least, nominated)
        for row, requests in self._removed.requests_by_row():
            for resource in least:
                self._free[resource][row] += requests.get(resource, 0)
        self._members = members_that_fit(self._free, least, len(nodes))
        self.total = int(self._members.sum())
        """Number of members that fit at most."""

    def without(self, unit: EvictionUnit) -> int:
        """Return how many members fit at most once the unit has been put back."""
        if not self._least:
            return self.total
        return self.total - sum(int(self._members[row]) - left for row, left in self._left(unit).items())

    def put_back(self, unit: EvictionUnit) -> None:
        """Put back a unit: its pods, unless they are removed with another one."""
        for row, left in self._left(unit, is_final=True).items():
            self.total -= int(self._members[row]) - left
            self._members[row] = left
        self._removed.put_back(unit)

    def _left(self, unit: EvictionUnit, *, is_final: bool = False) -> dict[int, int]:
        """Return how many members fit on the nodes of a unit after it has been put back."""
        left: dict[int, int] = {}
        for row, requests in self._removed.requests_of(unit).items():
            free = {r: int(self._free[r][row]) - requests[r] for r in self._least}
            if is_final:
                for resource, amount in free.items():
                    self._free[resource][row] = amount
            left[row] = min((max(0, n) // self._least[r] for r, n in free.items()), default=0)
        return left


class RoomBesideMembers:
    """What nodes have free beside the members placed on them, while removed units are put back."""

    def __init__(
        self,
        state: ClusterState,
        removed: Sequence[EvictionUnit],
        terminating: Sequence[Pod],
        placed: Iterable[tuple[int, Pod]],
        nominated: Iterable[tuple[int, Pod]] = (),
    ) -> None:
        """Compute it after the removal of these units; the rows are those of members and of other nominated pods."""
        self._removed, self._nodes = RemovedPods(state, removed, terminating), state.table()
        self._used: dict[int, Counter[str]] = {}
        """What members use of a node in addition to the pods there, less what removed pods do; by row."""
        for row, pod in placed:
            self._used.setdefault(row, Counter()).update(requests_with_slot(pod))
        for row, pod in nominated:
            if row in self._used:
                self._used[row].update(requests_with_slot(pod))
        for row, requests in self._removed.requests_by_row():
            if row in self._used:
                self._used[row].subtract(requests)

    def put_back(self, unit: EvictionUnit) -> bool:
        """Put back a unit if there is room for its pods. Return True if there is."""
        taken = {row: requests for row, requests in self._removed.requests_of(unit).items() if row in self._used}
        if not all(self._has_room(row, requests) for row, requests in taken.items()):
            return False
        for row, requests in taken.items():
            self._used[row].update(requests)
        self._removed.put_back(unit)
        return True

    def _has_room(self, row: int, requests: Mapping[str, int]) -> bool:
        used = self._used[row]
        for resource, amount in requests.items():
            allocatable, requested = amounts(self._nodes, resource)
            if int(requested[row]) + used[resource] + amount > int(allocatable[row]):
                return False
        return True


def requests_with_slot(pod: Pod) -> dict[str, int]:
    """Return what a pod takes of its node: its requests, and one of the pods that the node allows."""
    return {**pod.requests.effective, PODS: 1}


def fewest(least: int, most: int, find: Callable[[int], Steps[T | None]]) -> Steps[tuple[int, T] | None]:
    """Return the smallest number within these limits for which `find` returns a result, with that; None if none is.

    The number is doubled first: a cluster may run far more pods than a group needs to end.
    """
    too_few, tried, step = least - 1, least, 1
    while (found := (yield from find(tried))) is None:
        if tried >= most:
            return None
        too_few, tried, step = tried, min(most, tried + step), 2 * step
    enough = tried
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if (other := (yield from find(middle))) is not None:
            enough, found = middle, other
        else:
            too_few = middle
    return enough, found
