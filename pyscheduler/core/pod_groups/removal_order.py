"""Eviction units in the order in which a dry run removes them, and the room that the first of them leave.

A cluster may run 100,000 pods of a lower priority. A dry run removes only those on nodes that may then take a member:
as long as members depend on nothing on other nodes, the others make no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit
from pyscheduler.api.steps import Steps
from pyscheduler.core.pod_groups.eviction_order import EvictionOrder
from pyscheduler.core.pod_groups.freed_room import FreedRoom
from pyscheduler.core.pod_groups.room import free_for_members, members_that_fit, requests_in_columns
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


class PutBackBound:
    """Upper bound of the members that fit while removed units are put back, from resources alone."""

    def __init__(
        self,
        state: ClusterState,
        least: Mapping[str, int],
        removed: Sequence[EvictionUnit],
        terminating: Iterable[Pod],
        nominated: Iterable[tuple[int, Pod]] = (),
    ) -> None:
        """Create the bound after the removal of these units, for members that request at least this much."""
        self._state, self._least = state, least
        self._units_of = Counter(pod.uid for unit in removed for pod in unit.pods)
        """Number of removed units that each pod is in."""
        nodes = state.table()
        gone = {pod.uid: pod for unit in removed for pod in unit.pods} | {pod.uid: pod for pod in terminating}
        self._units_of.update({pod.uid: 1 for pod in terminating})
        self._free = free_for_members(nodes, least, nominated)
        for pod in gone.values():
            if (node := state.node_of(pod.uid)) is not None:
                for resource in least:
                    self._free[resource][node.row] += pod.requests.effective.get(resource, 0)
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
        self._units_of.subtract(pod.uid for pod in unit.pods)

    def _left(self, unit: EvictionUnit, *, is_final: bool = False) -> dict[int, int]:
        """Return how many members fit on the nodes of a unit after it has been put back."""
        taken: dict[int, Counter[str]] = {}
        for pod in unit.pods:
            node = self._state.node_of(pod.uid) if self._units_of[pod.uid] == 1 else None
            if node is not None:
                taken.setdefault(node.row, Counter()).update(pod.requests.effective)
        left: dict[int, int] = {}
        for row, requests in taken.items():
            free = {r: int(self._free[r][row]) - requests[r] for r in self._least}
            if is_final:
                for resource, amount in free.items():
                    self._free[resource][row] = amount
            left[row] = min((max(0, n) // self._least[r] for r, n in free.items()), default=0)
        return left


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
