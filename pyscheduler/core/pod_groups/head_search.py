"""Search for the time and the nodes at which a group fits as running pods end."""

from __future__ import annotations

import numpy as np

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.dry_run import place_without
from pyscheduler.core.pod_groups.freed_room import FreedRoom
from pyscheduler.core.pod_groups.removal_order import fewest
from pyscheduler.core.pod_groups.reservation import Reservation
from pyscheduler.core.pod_groups.room import least_requests, without_delegated
from pyscheduler.core.pod_groups.run_times import UNKNOWN
from pyscheduler.core.pod_groups.subgroup_placement import placement_search
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup


class HeadSearch:
    """Search for one group that does not fit now."""

    def __init__(self, context: Context, head: QueuedPodGroup, group: PodGroup, now: float) -> None:
        self._context = context
        self._head = head
        self._group = group
        self._now = now
        least = without_delegated(context.handle, least_requests(head.pods))
        self._ending = context.reservations.ending.order(context.state, now, least, self._own_pods())
        self._room = FreedRoom(context.state.table(), least, self._ending.rows, self._ending.requests)
        self._needed = context.groups.needed_count(group)

    def run(self) -> Steps[Reservation | None]:
        """Return the earliest reservation, without nodes if the group fits now; None if it does not fit even later."""
        return (yield from self._earliest(len(self._ending)))

    def again(self, last: Reservation) -> Steps[Reservation | None]:
        """Return an earlier reservation than the last one, otherwise the last one if the group still fits there.

        Nodes that do not change with every attempt become free at last. Without a time, they change only if others
        have more room.
        """
        time = max(last.time, self._now)
        nodes = yield from self._place(self._count_until(time), last.nodes)
        if nodes is None:
            return (yield from self.run())
        if (earlier := (yield from self._earliest(self._ending.count_until(time, is_included=False)))) is not None:
            return earlier
        closer = (yield from self._closer_nodes(last.nodes)) if time == UNKNOWN else None
        return self._reservation(time, closer or nodes)

    def _closer_nodes(self, last: frozenset[str]) -> Steps[frozenset[str] | None]:
        """Return nodes that have room for more members now than the last ones; None if there are none.

        Without declared run times, the pods on the last nodes may run forever while those on other nodes end.
        """
        free, at_last, table = self._room.members(0), self._room.members(len(self._ending)), self._context.state.table()
        order = np.argsort(-free, kind="stable")
        count = int(np.searchsorted(np.cumsum(at_last[order]), self._needed)) + 1
        most = int(free[table.named(last)].sum())
        if int(free[order[:count]].sum()) <= most:
            return None
        names = frozenset(self._context.state.rows[row].name for row in order[:count].tolist())
        nodes = yield from self._place_after(len(self._ending), names)
        return nodes if nodes and int(free[table.named(nodes)].sum()) > most else None

    def at(self, time: float) -> Steps[Reservation | None]:
        """Return the reservation for a time; None if the group does not fit then."""
        nodes = yield from self._place_after(self._count_until(time))
        return None if nodes is None else self._reservation(time, nodes)

    def _own_pods(self) -> set[str]:
        """Return the UIDs of the members that have a node, which the others do not wait for."""
        groups = self._context.groups
        state = groups[self._head.key]
        return {uid for uid in state.placed if groups.key_of(state.pods[uid]) == self._head.key}

    def _count_until(self, time: float) -> int:
        return self._ending.count_until(time, is_included=True)

    def _earliest(self, most: int) -> Steps[Reservation | None]:
        """Return the earliest reservation after at most a number of ends."""
        least = self._room.fewest(self._needed)
        if least is None or least > most:
            return None
        found = yield from fewest(least, most, self._place_after)
        if found is None:
            return None
        ended, nodes = found
        if not ended:
            return self._reservation(self._now, frozenset())
        time = self._ending.time(ended - 1)
        # What is free already would be idle until then.
        occupied = yield from fewest(ended, self._count_until(time), self._place_instead)
        return self._reservation(time, nodes if occupied is None else occupied[1])

    def _reservation(self, time: float, nodes: frozenset[str]) -> Reservation:
        requests = (pod.requests.effective for pod in self._head.templates())
        return Reservation(self._head, time, nodes, frozenset().union(*requests))

    def _place_instead(self, ended: int) -> Steps[frozenset[str] | None]:
        """Return nodes that the first pods to end leave, on which the group fits then; None if there are none."""
        rows = self._context.state.rows
        names = (rows[row].name for row in set(self._ending.rows[:ended].tolist()))
        return (yield from self._place_after(ended, frozenset(names)))

    def _place_after(self, ended: int, within: frozenset[str] | None = None) -> Steps[frozenset[str] | None]:
        """Return the nodes on which the group fits after a number of ends; None if there are none.

        Only pods on nodes that may take a member are removed.
        """
        room = self._room.members(ended)
        if int(room.sum()) < self._needed:
            return None
        return (yield from self._place(ended, within, room > 0))

    def _place(self, ended: int, names: frozenset[str] | None, on: Mask | None = None) -> Steps[frozenset[str] | None]:
        """Return the nodes of the members that the group needs after a number of ends; None if it does not fit.

        The members get nodes of these names; pods on other nodes, and on those that are not in `on`, are not removed.
        """
        context, group, table = self._context, self._group, self._context.state.table()
        within: Mask | None = None if names is None else table.named(names)
        nodes = np.ones(len(table), np.bool_) if on is None else on
        count = len(self._head.members) if group.min_count_by_role or group.subgroups else self._needed
        removed = self._ending.pods_on(nodes if within is None else nodes & within, ended)
        search = placement_search(context, group, self._now)
        found = yield from place_without(context.state, search, self._head.members.values(), removed, within)
        return None if found is None else frozenset([*found.values()][:count])
