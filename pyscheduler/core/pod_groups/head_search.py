"""Search for the time and the nodes at which a group fits as running pods end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.reservation import EndingPod, Reservation, ends
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup


class HeadSearch:
    """Search for one group that does not fit now."""

    def __init__(self, context: Context, head: QueuedPodGroup, group: PodGroup, now: float) -> None:
        self._context = context
        self._head = head
        self._group = group
        self._now = now
        self._ending = self._pods_that_end()
        self._needed = context.groups.needed(group, head.pods)
        nodes = context.state.table()
        self._free = Counter(
            {
                resource: int(np.maximum(nodes.allocatable(resource) - nodes.requested(resource), 0).sum())
                for resource in self._needed
            }
        )

    def run(self) -> Reservation | None:
        """Return the earliest reservation; None if the group fits now, or does not fit even later."""
        return self._earliest(self._ending)

    def _earliest(self, ending: Sequence[EndingPod]) -> Reservation | None:
        fewest = self._fewest_by_amount(ending)
        found = None if fewest is None else _fewest(ending, fewest, self._place)
        if found is None or not found.ended:
            return None
        time = ending[found.ended - 1].end
        by_then = [each for each in ending if each.end <= time]
        # What is free already would be idle until then.
        occupied = _fewest(by_then, found.ended, self._place_instead)
        return self._reservation(time, (occupied or found).nodes)

    def again(self, last: Reservation) -> Reservation | None:
        """Return an earlier reservation than the last one, otherwise the last one if the group still fits there.

        Nodes that do not change with every attempt become free at last.
        """
        time = max(last.time, self._now)
        table = self._context.state.table()
        here = [each for each in self._ending if each.end <= time and self._is_on(each.pod, last.nodes)]
        nodes = self._place(here, table.named(last.nodes))
        if nodes is None:
            return self.run()
        return self._earliest([each for each in self._ending if each.end < time]) or self._reservation(time, nodes)

    def at(self, time: float) -> Reservation | None:
        """Return the reservation for a time; None if the group does not fit then."""
        nodes = self._place([each for each in self._ending if each.end <= time])
        return None if nodes is None else self._reservation(time, nodes)

    def _pods_that_end(self) -> list[EndingPod]:
        context, times = self._context, self._context.reservations.times
        pods = (pod for node in context.state.rows for pod in node.pods.values() if ends(pod))
        others = (pod for pod in pods if context.groups.key_of(pod) != self._head.key)
        return sorted((EndingPod(times.end(pod, self._now), pod.started, pod) for pod in others), key=_by_end)

    def _fewest_by_amount(self, ending: Sequence[EndingPod]) -> int | None:
        """Return after how many ends enough is free in the whole cluster; None if never."""
        free, lacking = self._free.copy(), {r for r, amount in self._needed.items() if amount > self._free[r]}
        for i, each in enumerate(ending):
            if not lacking:
                return i
            requests = each.pod.requests.effective
            for resource in [resource for resource in lacking if resource in requests]:
                free[resource] += requests[resource]
                if free[resource] >= self._needed[resource]:
                    lacking.discard(resource)
        return None if lacking else len(ending)

    def _place(self, gone: Iterable[EndingPod], within: Mask | None = None) -> frozenset[str] | None:
        """Return the nodes of the members that the group needs once these pods are gone; None if it does not fit."""
        context, group = self._context, self._group
        count = len(self._head.members) if group.min_count_by_role else context.groups.needed_count(group)
        with context.state.dry_run():
            for each in gone:
                context.state.remove(each.pod.uid)
            search = PlacementSearch(context, group, self._now)
            try:
                if not search.run(self._head.members.values(), within):
                    return None
                return frozenset(assumed.node_name for assumed in search.placed[:count])
            finally:
                search.undo()

    def _place_instead(self, gone: Sequence[EndingPod]) -> frozenset[str] | None:
        """Return the nodes of the members on nodes that these pods leave; None if the group does not fit there."""
        nodes = (self._context.state.node_of(each.pod.uid) for each in gone)
        names = frozenset(node.name for node in nodes if node is not None)
        return self._place(gone, self._context.state.table().named(names))

    def _reservation(self, time: float, nodes: Collection[str]) -> Reservation:
        spare = Counter(self._free)
        spare.subtract(self._needed)
        for each in self._ending:
            if each.end <= time:
                for resource, amount in each.pod.requests.effective.items():
                    if resource in spare:
                        spare[resource] += amount
        return Reservation(self._head, time, frozenset(nodes), spare)

    def _is_on(self, pod: Pod, names: Collection[str]) -> bool:
        node = self._context.state.node_of(pod.uid)
        return node is not None and node.name in names


class _Fit(NamedTuple):
    """Nodes on which a group fits after a number of ends."""

    ended: int
    nodes: frozenset[str]


def _fewest(
    ending: Sequence[EndingPod], least: int, place: Callable[[Sequence[EndingPod]], frozenset[str] | None]
) -> _Fit | None:
    """Return the fit after the fewest ends, at least `least`; None if there is none.

    The number is doubled first: a cluster may run far more pods than the group needs to end.
    """
    too_few, tried, step = least - 1, least, 1
    while (nodes := place(ending[:tried])) is None:
        if tried == len(ending):
            return None
        too_few, tried, step = tried, min(len(ending), tried + step), 2 * step
    fit = _Fit(tried, nodes)
    while fit.ended - too_few > 1:
        middle = (too_few + fit.ended) // 2
        if (nodes := place(ending[:middle])) is not None:
            fit = _Fit(middle, nodes)
        else:
            too_few = middle
    return fit


def _by_end(each: EndingPod) -> tuple[float, float]:
    return each.end, each.started
