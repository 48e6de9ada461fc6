"""Preemption for a pod group: the victims that make room for all members at once, or none.

It differs from workload-aware preemption of kube-scheduler 1.37, which places the group as if nothing of lower priority
were running: units are removed from the least important one on until the group fits, so that fewer pods are evicted.
Nothing is evicted or nominated before that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.pod_group_cycle import NominateGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.resources import PODS
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import steps
from pyscheduler.core.pod_groups.dry_run import place_without
from pyscheduler.core.pod_groups.eviction_order import EvictionOrder
from pyscheduler.core.pod_groups.eviction_units import (
    eviction_order,
    eviction_units,
    has_only_lower_priority,
    leaves_minimums,
    may_fit_without_lower_priority,
    on_unusable_nodes,
)
from pyscheduler.core.pod_groups.min_run_time import MinRunTime
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.removal_order import PutBackBound, RemovalOrder, RoomBesideMembers, fewest
from pyscheduler.core.pod_groups.room import free_amounts
from pyscheduler.core.pod_groups.subgroup_placement import placement_search
from pyscheduler.core.queue.active_by_queue import CRITICAL_PRIORITY
from pyscheduler.core.queue.queued_pod_group import title_of
from pyscheduler.core.scheduling.failure import Failure

_NO_GROUP = PodGroupKey("", "")
_FEW = 4096
"""Members times units, and times dry runs, up to which every unit is put back alone as long as the group fits."""


class GroupPreemption(Struct, frozen=True):
    """Where the members of a group fit after the eviction of the victims."""

    nodes: Mapping[str, str]
    """Names of the nodes by UID of the member."""
    victims: Mapping[str, Sequence[Pod]]
    """Pods to evict by the name of their node; empty if all that is needed are pods that are terminating already."""


class GroupPreemptionSearch:
    """Search for the victims of one group."""

    def __init__(
        self,
        context: Context,
        group: PodGroup,
        priority: int,
        members: Sequence[QueuedPod],
        now: float,
        insufficient: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Create the search; `insufficient` is `QueuedPodGroup.insufficient`."""
        self._context = context
        self._group = group
        self._priority = priority
        self._members = members
        self._pods = [queued.pod for queued in members]
        self._now = now
        self._least = dict(insufficient)
        self._is_over_quota = False
        self._min_run_time = MinRunTime(context, group, now)
        self._last_placement: tuple[tuple[frozenset[str], frozenset[str]], dict[str, str]] | None = None
        """The last placement: UIDs of the removed pods, of pods without usage, and the node of each member."""

    def first_time(self) -> Steps[float | None]:
        """Return when enough pods have run for their minimum time to be evicted, after a `run` without victims."""

        def search() -> Steps[bool]:
            return isinstance((yield from self.run(is_over_quota=self._is_over_quota)), GroupPreemption)

        return (yield from self._min_run_time.first_time(search))

    @property
    def min_run_reason(self) -> str:
        """Reason why the pods are not evicted earlier."""
        return self._min_run_time.reason

    def run(self, *, is_over_quota: bool = False) -> Steps[GroupPreemption | str | None]:
        """Return the victims and the nodes of the members; None if the group does not fit without any of them.

        With queues, the victims are pods of lower priority of the group's own queue, or those that it may reclaim from
        others; a text if these do not serve. For a group that is over a quota, what the victims have allocated of it
        counts, too: pods of its own queue, and if it is within its share, those of queues with the same limit.
        """
        self._is_over_quota = is_over_quota
        terminating = self._terminating_pods()
        needed = (yield from self._fewest(terminating)) if terminating or self._may_suffice() else None
        if needed is None and self._context.groups.quota is not None:
            reclaimed = yield from self._reclaim()
            if isinstance(reclaimed, str):
                return None if is_over_quota else reclaimed
            needed = reclaimed or None
        if needed is None:
            return None
        removed = yield from self._without_unneeded(needed, terminating)
        nodes = yield from self._place(removed, terminating)
        assert nodes is not None, "the group fits without these units"
        return GroupPreemption(nodes, _by_node(self._context, _pods_of(removed)))

    def failures_without_candidates(self, failures: Sequence[Failure]) -> Steps[Sequence[Failure]]:
        """Return why members have no node even without all pods that may be evicted for the group; () if it fits.

        `failures` are those with all pods, which are returned if none may be evicted.
        """
        context, request = self._context, self._context.groups.needed(self._group, self._pods)
        reclaimable = context.groups.reclaim_candidates(self._group, request)
        units = yield from eviction_units(context, self._group.key, CRITICAL_PRIORITY, reclaimable)
        lower = yield from self._of_lower_priority()
        gone = {pod.uid: pod for pod in (*self._terminating_pods(), *lower.pods, *_pods_of(units))}
        if not gone:
            return failures
        search = placement_search(context, self._group, self._now)
        fits = yield from self._run_without(search, [*gone.values()], [*gone.values()])
        return () if fits is not None else tuple(search.failures.values())

    def _terminating_pods(self) -> list[Pod]:
        nodes = self._context.state.placed.nodes_with_terminating_pods()
        return [pod for node in nodes for pod in node.pods.values() if pod.deleting]

    def _of_lower_priority(self) -> Steps[EvictionOrder]:
        context, groups = self._context, self._context.groups
        if groups.quota is None:
            return (yield from eviction_order(context, self._group.key, self._priority))
        among = groups.preemption_candidates(self._group)
        units = yield from eviction_units(context, self._group.key, self._priority, among)
        # Critical pods do not wait for pods of a lower priority.
        if self._priority < CRITICAL_PRIORITY and self._min_run_time.has_any():
            units = [unit for unit, _ in self._min_run_time.evictable(self._with_groups(units))]
        return EvictionOrder(context.state, units)

    def _reclaim(self) -> Steps[Sequence[EvictionUnit] | str]:
        """Return the units of other queues that make room, or why there are none."""
        context = self._context
        if not context.groups.has_reclaim_candidates(self._group):
            return ()
        request = context.groups.needed(self._group, self._pods)
        if self._is_over_quota and not context.groups.is_within_share(self._group, request):
            return ()
        free = self._free(request)
        among = context.groups.reclaim_candidates(self._group, request)
        units = yield from eviction_units(context, self._group.key, CRITICAL_PRIORITY, among)
        candidates = self._min_run_time.evictable(self._with_groups(self._on_usable_nodes(units)))
        found = yield from context.groups.reclaim(self._group, request, free, candidates)
        if not isinstance(found, str) and found and (yield from self._place(found, ())) is None:
            return f"what may be reclaimed makes no room for {title_of(self._group.key, self._pods[0])} on a node"
        return found

    def _free(self, resources: Iterable[str]) -> dict[str, int]:
        """Return what is free, or is being freed, and not for pods of other groups that are nominated."""
        context, own = self._context, {queued.pod.uid for queued in self._members}
        with context.state.dry_run():
            for pod in self._terminating_pods():
                context.state.remove(pod.uid)
            nominator = context.queue.nominator
            for name in list(nominator.nodes()):
                for pod in nominator.pods_on(name):
                    if pod.uid not in own:
                        context.state.place(pod, name)
            nodes = context.state.table()
            return free_amounts(nodes, {*resources, PODS})

    def _on_usable_nodes(self, units: Sequence[EvictionUnit]) -> Sequence[EvictionUnit]:
        """Return the units without those on nodes that are cordoned or not ready, which would make no room."""
        useless = on_unusable_nodes(self._context)
        return [unit for unit in units if any(pod.uid not in useless for pod in unit.pods)] if useless else units

    def _with_groups(self, units: Sequence[EvictionUnit]) -> list[tuple[EvictionUnit, PodGroup]]:
        groups = self._context.groups
        found = ((unit, groups.accounted(unit.group)) for unit in units if unit.group is not None)
        return [(unit, group) for unit, group in found if group is not None]

    def _by_disruption(self, units: EvictionOrder) -> EvictionOrder:
        """Return the units, those last that violate a PodDisruptionBudget if all before them are evicted."""
        plugin = self._context.profiles[self._members[0].pod.scheduler_name].preemption
        violating = set() if plugin is None else {pod.uid for pod in plugin.violates_budgets(units.pods)}
        if not violating:
            return units
        listed = units.first(len(units))
        listed.sort(key=lambda unit: any(pod.uid in violating for pod in unit.pods))
        return EvictionOrder(self._context.state, listed)

    def _nominated(self) -> list[tuple[int, Pod]]:
        """Return the pods, with the rows of their nodes, that are nominated and come before all members."""
        own, nominator = {pod.uid for pod in self._pods}, self._context.queue.nominator
        nodes = [node for name in nominator.nodes() if (node := self._context.state.info(name)) is not None]
        highest = max(self._pods, key=lambda pod: pod.priority)
        return [
            (node.row, pod)
            for node in nodes
            for pod in nominator.competing_pods(highest, node.name)
            if pod.uid not in own
        ]

    def _may_suffice(self) -> bool:
        needed = self._context.groups.needed_count(self._group)
        return may_fit_without_lower_priority(self._context, self._priority, self._least, needed)

    def _fewest(self, terminating: Sequence[Pod]) -> Steps[Sequence[EvictionUnit] | None]:
        """Return the least important units without which the group fits; None if there are none.

        They are the shortest beginning of the units without which it fits, less those on nodes without room for it.
        """
        units = self._by_disruption((yield from self._of_lower_priority()))
        if not units and not terminating:
            return None
        state, needed = self._context.state, self._context.groups.needed_count(self._group)
        is_local = not any(map(depends_on_other_nodes, self._pods))
        order = RemovalOrder(state, self._least, units, terminating, self._nominated(), is_local=is_local)
        least = order.fewest(needed)
        if least is None:
            return None
        # As in the attempt that follows: otherwise others would get the room, and it would be evicted for again.
        within_quota = yield from self._fewest_within_quota(units, terminating)
        if within_quota is None:
            return None

        def place(count: int) -> Steps[dict[str, str] | None]:
            # Each member is checked against the quota, which the units have used up if it is exceeded.
            unused = [*terminating, *units.pods_of_first(count)] if within_quota else ()
            return (yield from self._place_without(order.removed(count), unused))

        is_unknown = not self._least and not within_quota  # something else than resources or a quota is missing
        if is_unknown and (yield from place(len(units))) is None:
            return None
        found = yield from fewest(max(least, within_quota), len(units), place)
        if found is None:
            return None
        first = units.first(found[0])
        if within_quota or not is_local:
            return first
        removed = {pod.uid for pod in order.removed(found[0])}
        return [unit for unit in first if any(pod.uid in removed for pod in unit.pods)]

    def _fewest_within_quota(self, units: EvictionOrder, terminating: Sequence[Pod]) -> Steps[int | None]:
        """Return the number of units without which the queue admits the group; None if it never does."""
        if not self._has_queue:
            return 0

        def is_admitted(count: int) -> Steps[bool | None]:
            is_over = yield from self._is_over_quota_without([*terminating, *units.pods_of_first(count)])
            return None if is_over else True

        found = yield from fewest(0, len(units), is_admitted)
        return None if found is None else found[0]

    def _without_unneeded(
        self, removed: Sequence[EvictionUnit], terminating: Sequence[Pod]
    ) -> Steps[list[EvictionUnit]]:
        """Put units back, the most important first, as long as the group still fits (kube-scheduler's reprieve)."""
        needed, count = [*removed], self._context.groups.needed_count(self._group)
        if len(self._members) * len(needed) > _FEW:
            needed = yield from self._beside_members(needed, terminating, count)
        bound = PutBackBound(self._context.state, self._least, needed, terminating, self._nominated())
        dry_runs = _FEW // len(self._members)
        for i, unit in enumerate(reversed(needed), 1):
            if i % steps.RECORDS_PER_STEP == 0:
                yield
            if bound.without(unit) < count:
                continue
            if not dry_runs:
                break
            dry_runs -= 1
            rest = [each for each in needed if each is not unit]
            if (yield from self._place(rest, terminating)) is not None:
                needed = rest
                bound.put_back(unit)
        return needed

    def _beside_members(
        self, removed: list[EvictionUnit], terminating: Sequence[Pod], count: int
    ) -> Steps[list[EvictionUnit]]:
        """Put back the units for which there is room beside the members, where these are placed without all of them.

        Only `count` members have to be placed, unless some of their roles or subgroups would lack others.
        """
        nodes = (yield from self._place(removed, terminating)) or {}
        state = self._context.state
        rows = {uid: node.row for uid, name in nodes.items() if (node := state.info(name)) is not None}
        for most in sorted({min(count, len(rows)), len(rows)}):
            fixed = dict(islice(rows.items(), most))
            placed = [(fixed[pod.uid], pod) for pod in self._pods if pod.uid in fixed]
            room = RoomBesideMembers(state, removed, terminating, placed, self._nominated())
            needed = list[EvictionUnit]()
            for i, unit in enumerate(reversed(removed), 1):
                if i % steps.RECORDS_PER_STEP == 0:
                    yield
                if not room.put_back(unit):
                    needed.append(unit)
            needed.reverse()
            if (yield from self._place(needed, terminating, fixed)) is not None:
                return needed
        return removed  # something else than resources is missing

    def _place(
        self, removed: Iterable[EvictionUnit], terminating: Iterable[Pod], fixed: Mapping[str, int] | None = None
    ) -> Steps[dict[str, str] | None]:
        """Return the node of each member that is placed without these pods; None if the group does not fit.

        `fixed` are the rows of the only nodes on which members may be placed, by UID.
        """
        gone = [*terminating, *_pods_of(removed)]
        if self._has_queue and (yield from self._is_over_quota_without(gone)):
            return None
        return (yield from self._place_without(gone, gone if self._has_queue else (), fixed))

    def _is_over_quota_without(self, gone: Sequence[Pod]) -> Steps[bool]:
        """Return True if the queue does not admit the group, even without what these pods have allocated."""
        groups = self._context.groups
        with groups.without_usage(gone):
            yield from groups.report_usage_in_steps()
            is_over = self._is_over_its_quota()
        yield from groups.report_usage_in_steps()
        return is_over

    def _place_without(
        self, gone: Sequence[Pod], unused: Sequence[Pod], fixed: Mapping[str, int] | None = None
    ) -> Steps[dict[str, str] | None]:
        """Return the node of each member that is placed without these pods; None if there is too little room.

        What the `unused` pods have allocated of quotas does not count. `fixed` as in `_place`.
        """
        last = self._last_placement
        key = frozenset(pod.uid for pod in gone), frozenset(pod.uid for pod in unused)
        if last is not None and last[0] == key:
            return last[1]
        search = placement_search(self._context, self._group, self._now)
        nodes = yield from self._run_without(search, gone, unused, fixed)
        if nodes is not None:
            self._last_placement = key, nodes
        return nodes

    def _run_without(
        self,
        search: PlacementSearch,
        gone: Sequence[Pod],
        unused: Sequence[Pod],
        fixed: Mapping[str, int] | None = None,
    ) -> Steps[dict[str, str] | None]:
        """Return the node of each member that the search places without these pods, and undo it; None if it fails."""
        groups = self._context.groups
        with groups.without_usage(unused):
            yield from groups.report_usage_in_steps()
            nodes = yield from place_without(self._context.state, search, self._members, gone, fixed=fixed)
        yield from groups.report_usage_in_steps()
        return nodes

    @property
    def _has_queue(self) -> bool:
        return self._context.groups.quota is not None and self._group.key is not _NO_GROUP

    def _is_over_its_quota(self) -> bool:
        """Return True if the queue of the group does not admit it; False without queues."""
        groups = self._context.groups
        return self._has_queue and bool(groups.exceeded(self._group, groups.needed(self._group, self._pods)))


def depends_on_other_nodes(pod: Pod) -> bool:
    """Return True if pods on other nodes than its own may matter to a pod."""
    spec = pod.spec
    affinity, volumes = spec.affinity, spec.volumes or ()
    return bool(
        spec.topology_spread_constraints
        or spec.resource_claims
        or (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
        or any(volume.keys() - {"name"} for volume in volumes)
    )


def preempt_whole_groups(
    context: Context, queued: QueuedPod, node_name: str, victims: Sequence[Pod], now: float
) -> Steps[GroupPreemption | None]:
    """Return the preemption of a single pod in eviction units, given the victims that a plugin has chosen.

    The plugin's choice stands if it leaves every group its minimum, and no group has a priority of its own that is not
    lower. Otherwise single pods and surplus of groups are preferred on any node; the rest of a group is evicted with
    those that it is of no use without. None if no such preemption helps.
    """
    chosen = GroupPreemption({queued.pod.uid: node_name}, {node_name: victims} if victims else {})
    if not context.groups.is_enabled or not any(map(context.groups.key_of, victims)):
        return chosen
    if has_only_lower_priority(context, victims, queued.pod.priority) and leaves_minimums(context, victims):
        return chosen
    if queued.pod.node_name:
        return None  # for its resize no other node serves, and no group is ended
    alone = PodGroup(_NO_GROUP, min_count=1)
    found = yield from GroupPreemptionSearch(context, alone, queued.pod.priority, [queued], now).run()
    return None if isinstance(found, str) else found


def of_nomination(context: Context, nominated: NominateGroup | None) -> GroupPreemption | None:
    """Return the nomination of a plugin with the nodes of its victims; None for none."""
    return None if nominated is None else GroupPreemption(nominated.nodes, _by_node(context, nominated.evict))


def _pods_of(units: Iterable[EvictionUnit]) -> list[Pod]:
    """Return the pods of units, each once."""
    return list({pod.uid: pod for unit in units for pod in unit.pods}.values())


def _by_node(context: Context, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if (node := context.state.node_of(pod.uid)) is not None:
            by_node.setdefault(node.name, []).append(pod)
    return by_node
