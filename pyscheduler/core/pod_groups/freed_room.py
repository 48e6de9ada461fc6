"""Upper bound of how many members of a group fit on each node after a number of pods have ended.

A dry run of a large group takes long, so it is made only where the resources suffice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np

from pyscheduler.api.nodes import Ints, NodeTable
from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.room import free_for_members, members_that_fit


class FreedRoom:
    """Room on all nodes for the smallest member of a group, as pods end in an order."""

    def __init__(
        self,
        nodes: NodeTable,
        least: Mapping[str, int],
        rows: Ints,
        requests: Mapping[str, Ints],
        nominated: Iterable[tuple[int, Pod]] = (),
    ) -> None:
        """Create the room for members that request this much.

        `rows` and `requests` are those of the pods that end, in their order; `nominated` has the rows of pods that come
        before the members.
        """
        self._least = least
        self._nodes = len(nodes)
        self._rows = rows
        self._free = free_for_members(nodes, least, nominated)
        self._freed = requests

    def members(self, ended: int) -> Ints:
        """Return how many members fit on each node after a number of ends, as far as resources are concerned."""
        room: dict[str, Ints] = {}
        for resource in self._least:
            freed = np.zeros(self._nodes, np.int64)
            np.add.at(freed, self._rows[:ended], self._freed[resource][:ended])
            room[resource] = self._free[resource] + freed
        return members_that_fit(room, self._least, self._nodes)

    def fewest(self, needed: int) -> int | None:
        """Return the number of ends after which that many members may fit; None if they never do."""
        ending, most = len(self._rows), 1
        while most < ending and int(self.members(most).sum()) < needed:
            most *= 2  # mostly few of very many are needed
        end = min(most, ending) + 1
        ended = bisect_left(range(end), needed, most // 2 if most > 1 else 0, key=lambda n: int(self.members(n).sum()))
        return None if ended > ending else ended
