"""Search for the time and the nodes at which a group fits as running pods end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.freed_room import FreedRoom, freed_by
from pyscheduler.core.pod_groups.removal_order import fewest
from pyscheduler.core.pod_groups.reservation import EndingPod, Reservation, ends
from pyscheduler.core.pod_groups.room import least_requests
from pyscheduler.core.pod_groups.subgroup_placement import placement_search
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup


class HeadSearch:
    """Search for one group that does not fit now."""

    def __init__(self, context: Context, head: QueuedPodGroup, group: PodGroup, now: float) -> None:
        self._context = context
        self._head = head
        self._group = group
        self._now = now
        self._ending = self._pods_that_end()
        ending = [(each.row, each.pod) for each in self._ending]
        least = least_requests(head.pods)
        self._room = FreedRoom(context.state.table(), least, *freed_by(ending, least))
        self._needed = context.groups.needed_count(group)

    def run(self) -> Reservation | None:
        """Return the earliest reservation, without nodes if the group fits now; None if it does not fit even later."""
        return self._earliest(len(self._ending))

    def again(self, last: Reservation) -> Reservation | None:
        """Return an earlier reservation than the last one, otherwise the last one if the group still fits there.

        Nodes that do not change with every attempt become free at last.
        """
        time = max(last.time, self._now)
        nodes = self._place((each for each in self._ending if each.end <= time), last.nodes)
        if nodes is None:
            return self.run()
        return self._earliest(self._count(lambda end: end < time)) or self._reservation(time, nodes)

    def at(self, time: float) -> Reservation | None:
        """Return the reservation for a time; None if the group does not fit then."""
        nodes = self._place_after(self._count(lambda end: end <= time))
        return None if nodes is None else self._reservation(time, nodes)

    def _pods_that_end(self) -> list[EndingPod]:
        context, times, now = self._context, self._context.reservations.times, self._now
        ending = [
            EndingPod(times.end(pod, now), pod.started, node.row, pod)
            for node in context.state.rows
            for pod in node.pods.values()
            if ends(pod) and context.groups.key_of(pod) != self._head.key
        ]
        return sorted(ending, key=lambda each: (each.end, each.started))

    def _count(self, is_over: Callable[[float], bool]) -> int:
        return sum(is_over(each.end) for each in self._ending)

    def _earliest(self, most: int) -> Reservation | None:
        """Return the earliest reservation after at most a number of ends."""
        least = self._room.fewest(self._needed)
        if least is None or least > most:
            return None
        found = fewest(least, most, self._place_after)
        if found is None:
            return None
        ended, nodes = found
        if not ended:
            return self._reservation(self._now, frozenset())
        time = self._ending[ended - 1].end
        # What is free already would be idle until then.
        occupied = fewest(ended, self._count(lambda end: end <= time), self._place_instead)
        return self._reservation(time, nodes if occupied is None else occupied[1])

    def _reservation(self, time: float, nodes: frozenset[str]) -> Reservation:
        requests = (pod.requests.effective for pod in self._head.templates())
        return Reservation(self._head, time, nodes, frozenset().union(*requests))

    def _place_instead(self, ended: int) -> frozenset[str] | None:
        """Return nodes that the first pods to end leave, on which the group fits then; None if there are none."""
        rows = {each.row for each in self._ending[:ended]}
        return self._place_after(ended, frozenset(self._context.state.rows[row].name for row in rows))

    def _place_after(self, ended: int, within: frozenset[str] | None = None) -> frozenset[str] | None:
        """Return the nodes on which the group fits after a number of ends; None if there are none.

        Only pods on nodes that may take a member are removed.
        """
        room = self._room.members(ended)
        if int(room.sum()) < self._needed:
            return None
        return self._place((each for each in self._ending[:ended] if room[each.row]), within)

    def _place(self, gone: Iterable[EndingPod], names: frozenset[str] | None) -> frozenset[str] | None:
        """Return the nodes of the members that the group needs once these pods are gone; None if it does not fit."""
        context, group = self._context, self._group
        within: Mask | None = None if names is None else context.state.table().named(names)
        count = len(self._head.members) if group.min_count_by_role or group.subgroups else self._needed
        with context.state.dry_run():
            for each in gone:
                if within is None or within[each.row]:
                    context.state.remove(each.pod.uid)
            search = placement_search(context, group, self._now)
            try:
                if not search.run(self._head.members.values(), within):
                    return None
                return frozenset(assumed.node_name for assumed in search.placed[:count])
            finally:
                search.undo()
