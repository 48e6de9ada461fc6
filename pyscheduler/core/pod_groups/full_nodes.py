"""Large groups of equal members that the nodes lack room for: those that fit are counted, not placed one by one.

To place a thousand members on their best nodes, and to forget them since the last one has none, costs more than to
place them all. How many fit and why the next one does not depends on the nodes once they are full, not on which member
is where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile, may_read_anything
from pyscheduler.core.pod_groups.room import lacking_resources, members_per_node
from pyscheduler.core.preemption.dry_run import depends_on_own_row
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.schedule_pod import FeasibleNodes, find_nodes_that_fit_pod, start_cycle

COUNTED_FROM = 8
"""Members of the smallest groups that are counted: a count costs as much as the placement of a few members."""


class MembersThatFit(Struct, frozen=True):
    """Members that fit until the nodes are full."""

    count: int
    failure: Failure
    """Why the next member has no node."""
    lacks: str
    """Resources that it lacks, such as `1 cpu on node n2`."""


class MemberCount:
    """Count of the members of one group that fit; `place` places one member, and returns why that failed, or None."""

    def __init__(self, context: Context, now: float, place: Callable[[QueuedPod], Failure | None]) -> None:
        self._context = context
        self._now = now
        self._place = place

    def run(self, members: Sequence[QueuedPod], needed: int, within: Mask | None) -> MembersThatFit | None:
        """Return how many of these members of one template fit, if that is certain and less than needed; else None."""
        first = members[0]
        runtime = self._context.runtimes[first.pod.scheduler_name]
        if runtime.order is not None or not runtime.profile.caches_results or runtime.nominator.node_of:
            return None
        cycle = start_cycle(self._context, first, self._now)
        if cycle.call_observer is not None:
            return None
        feasible = self._feasible_rows(cycle, first.pod, within)
        signatures = {queued.pod.signature for queued in members}
        if not len(feasible) or not _is_countable(runtime.profile, cycle, first.pod.signature, signatures):
            return None
        room = members_per_node(runtime.state.table(feasible), first.pod.requests.effective)
        count = int(room.sum())
        if not 0 < count < needed or not room.all():
            return None
        return self._fill(members, feasible, room)

    def _fill(self, members: Sequence[QueuedPod], rows: Ints, room: Ints) -> MembersThatFit | None:
        """Fill the nodes, and undo it. Return None if they have more or less room than computed."""
        state, pod, count = self._context.state, members[0].pod, int(room.sum())
        with state.dry_run():
            all_but_one = np.repeat(rows, room - 1)
            for queued, row in zip(members, (*all_but_one, *rows), strict=False):
                if queued is members[len(all_but_one)] and not self._fits_all(members[count], rows):
                    return None  # another plugin has a limit of its own
                state.place(queued.pod, state.rows[int(row)].name)
            failure = self._place(members[count])
            if failure is None:
                return None
            return MembersThatFit(count, failure, lacking_resources(state.table(), pod.requests.effective))

    def _fits_all(self, queued: QueuedPod, rows: Ints) -> bool:
        """Return True if the member fits all of these nodes."""
        within = np.zeros(len(self._context.state), np.bool_)
        within[rows] = True
        cycle = start_cycle(self._context, queued, self._now)
        return len(self._feasible_rows(cycle, queued.pod, within)) == len(rows)

    def _feasible_rows(self, cycle: Cycle, pod: Pod, within: Mask | None) -> Ints:
        """Return the rows of the nodes that fit the pod; none if a plugin raises, as it will when the pod is placed."""
        runtime = self._context.runtimes[pod.scheduler_name]
        try:
            feasible = find_nodes_that_fit_pod(runtime, cycle, pod, within)
        except BaseException as error:
            runtime.reset(pod)
            if isinstance(error, PluginFailed):
                return np.empty(0, np.intp)
            raise
        if not isinstance(feasible, FeasibleNodes):
            return np.empty(0, np.intp)
        if feasible.rows is not None:
            return feasible.rows
        assert feasible.cache is not None, "all feasible rows are those of the cache"
        return np.flatnonzero(feasible.cache.feasible)


def _is_countable(profile: Profile, cycle: Cycle, first: PodSignature, signatures: Collection[PodSignature]) -> bool:
    """Return True if a node fits any member alike, whatever is on other nodes."""
    filters = [plugin for plugin in profile.filter if plugin.name not in cycle.skipped]
    names = {plugin.name for plugin in filters}
    return (
        all(depends_on_own_row(plugin) and not may_read_anything(plugin) for plugin in filters)
        and all(plugin.skip_includes_reserve and plugin.name in cycle.skipped for plugin in profile.reserve)
        and all(names.isdisjoint(profile.readers_of_difference(first, each)) for each in signatures)
    )
