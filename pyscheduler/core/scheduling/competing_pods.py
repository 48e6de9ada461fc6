"""Filter results of many nodes with the pods that are nominated to them, over columns.

Hundreds of pods may be nominated at a time, each while its victims terminate, and every attempt filters their nodes
with them. Most filters do not depend on pods, or only on the room that pods leave.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Ints
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import Reads
from pyscheduler.api.topology import PodCount
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.preemption.dry_run import reads_in_dry_run
from pyscheduler.core.preemption.reprieve import required_room
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.row_filters import run_filter_on_table
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.without_lower_priority import TOO_BIG, TableWithoutLowerPriority

_BELOW_ALL: Final = -(2**31)
"""Priority below which there are no pods."""


class CompetingPods:
    """Nominated pods that take precedence over one pod, by node, and their requests in columns."""

    def __init__(self, state: ClusterState, nominator: Nominator, pod: Pod) -> None:
        by_row: dict[int, Sequence[Pod]] = {}
        for name in nominator.nodes():
            node, others = state.info(name), nominator.competing_pods(pod, name)
            if node is not None and others:
                by_row[node.row] = others
        self.place_of = {row: place for place, row in enumerate(by_row)}
        """Index in the columns by row."""
        self.rows = np.array([*by_row], np.intp)
        self.pods = [*by_row.values()]
        self._amounts: dict[PodCount, Ints] = {}

    def amounts(self, count: PodCount) -> Ints:
        """Return what the pods of each node count for."""
        amounts = self._amounts.get(count)
        if amounts is None:
            sums = [min(sum(count.of(pod.signature) for pod in pods), TOO_BIG) for pods in self.pods]
            amounts = self._amounts[count] = np.array(sums, np.int64)
        return amounts


class CompetingPodsCache:
    """The last `CompetingPods`, which serve all pods of one priority and queue."""

    def __init__(self, state: ClusterState, nominator: Nominator) -> None:
        self._state = state
        self._nominator = nominator
        self._version: Hashable = None
        self._last: CompetingPods | None = None

    def of(self, pod: Pod) -> CompetingPods:
        """Return the nominated pods that take precedence over the pod."""
        version = (self._nominator.all_competing_pods_version(pod), self._state.nodes_version)
        if self._last is None or self._version != version:
            self._version, self._last = version, CompetingPods(self._state, self._nominator, pod)
        return self._last


class _TableWithNominatedPods(TableWithoutLowerPriority):
    """Some nodes with the pods that are nominated to them."""

    __slots__ = ("_competing", "_places")

    def __init__(self, state: ClusterState, competing: CompetingPods, places: Sequence[int]) -> None:
        nominated = {i: competing.pods[place] for i, place in enumerate(places)}
        super().__init__(state, _BELOW_ALL, competing.rows[[*places]], nominated)
        self._competing = competing
        self._places = [*places]

    def _without_lower(self, amounts: Ints, count: PodCount) -> Ints:
        with_nominated: Ints = np.minimum(amounts, TOO_BIG) + self._competing.amounts(count)[self._places]
        self.overflowed |= with_nominated >= TOO_BIG
        return with_nominated


def reject_by_room(
    profile: Profile,
    state: ClusterState,
    competing: CompetingPods,
    cycle: Cycle,
    pod: Pod,
    nodes: Sequence[NodeRow],
    without: Mapping[int, Status],
) -> tuple[dict[int, Status], list[NodeRow]]:
    """Return the first rejection of nodes with their nominated pods, by row, and the nodes to filter one by one.

    `without` has the first rejection of nodes that reject the pod without nominated pods, too. Filters that depend on
    no pods return the same with them, and those that depend on room are evaluated up to the first other filter.
    """
    nodes = [node for node in nodes if node.row in competing.place_of]
    if not nodes:
        return {}, []
    without = {row: status for row, status in without.items() if row in competing.place_of}
    table = _TableWithNominatedPods(state, competing, [competing.place_of[node.row] for node in nodes])
    rejections: dict[int, Status] = {}
    is_complete = True
    for plugin in profile.filter:
        if plugin.name in cycle.skipped:
            continue
        if reads_in_dry_run(plugin) is Reads.OWN_NODE:
            same = {row: status for row, status in without.items() if status.plugin == plugin.name}
            rejections = same | rejections
            continue
        if required_room([plugin], cycle, pod) is None:
            is_complete = False
            break
        profile.evaluations.filter[plugin.name].n += len(table)
        result = run_filter_on_table(plugin, cycle, pod, table)
        statuses = [Status.of(plugin.name, rejection) for rejection in result.rejections]
        for index in np.flatnonzero(result.codes).tolist():
            rejections.setdefault(nodes[index].row, statuses[result.codes.item(index) - 1])
    left = []
    for node, has_overflowed in zip(nodes, table.overflowed.tolist(), strict=True):
        if has_overflowed:
            rejections.pop(node.row, None)
        if node.row not in rejections and (has_overflowed or not is_complete or node.row in without):
            left.append(node)
    return rejections, left
