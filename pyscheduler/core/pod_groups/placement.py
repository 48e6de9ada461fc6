"""Placement of a pod group: all of its pending members are assumed, or none.

    PlacementSearch.run
        _candidate_domains         topology.py: with topology constraints, the domains to try
        _place_in_best             or placement_candidates.py: with a PlacementGenerate plugin, the best that fits
        _has_too_little_room       full_nodes.py: many equal members of which too few fit are only counted
        _place_by_score            larger members first, each on its best node
        _may_fit_in_another_way    member_bound.py: False if there are too few places for any search
        _place_with_backtracking   backtracking.py: if that fails and other nodes may serve, with alternatives
    PlacementSearch.undo

Every member is placed on the live state, so each sees those before it, as in kube-scheduler's pod group cycle. First
fit would strand room that only a large member needs (volcano#1297); the order and the alternatives avoid that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.pod import PodSignature
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.pod_group_cycle import PlacementCandidate
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps, exhaust
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.pod_groups.backtracking import Backtracking
from pyscheduler.core.pod_groups.extension_points import check_placement
from pyscheduler.core.pod_groups.full_nodes import COUNTED_FROM, MemberCount
from pyscheduler.core.pod_groups.member_bound import may_fit
from pyscheduler.core.pod_groups.member_kinds import may_fit_in_another_way, required_affinity
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.pod_groups.placement_candidates import (
    ScoredPlacement,
    by_total_score,
    generate_placements,
    score_placement,
    tightest_first,
)
from pyscheduler.core.pod_groups.room import lacking_resources, requests_of_nodes, without_delegated
from pyscheduler.core.pod_groups.steps import StepCounter
from pyscheduler.core.pod_groups.topology import candidate_domains
from pyscheduler.core.queue.queued_pod_group import MemberPods
from pyscheduler.core.scheduling.binding import assume, forget_pod
from pyscheduler.core.scheduling.extension_points import run_reserve_plugins
from pyscheduler.core.scheduling.failure import QUOTA_EXCEEDED, Failure, quota_exceeded
from pyscheduler.core.scheduling.failure_handler import report_plugin_failure
from pyscheduler.core.scheduling.schedule_pod import find_nodes_that_fit_pod, schedule_pod, start_cycle
from pyscheduler.kernels import Rows


class PlacementSearch:
    """Search for nodes for the pending members of one group. Members that have a node are assumed until `undo`."""

    def __init__(self, context: Context, group: PodGroup, now: float) -> None:
        self._context = context
        self._group = group
        self._now = now
        self.placed: list[AssumedPod] = []
        """Members with a node, in the order in which they were assumed."""
        self.failures: dict[str, Failure] = {}
        """Why the other members have none, by UID; without those that were not tried."""
        self.is_failed_as_a_whole = False
        """True if `failures` have the reason of the whole group."""
        self.fitting_members: frozenset[str] = frozenset()
        """UIDs of the members that had a node when the first search failed."""
        self.fitting = 0
        """Number of members that had a node when the first search failed."""
        self.candidate_count = 0
        """Number of candidates of a PlacementGenerate plugin, of which none fits; 0 if no such plugin has run."""
        self.missing = ""
        """Resources that the first member without a node lacked then, such as `1 cpu on node n2`."""
        self._allowed: Mask | None = None
        """Mask of the rows that the group may be placed on; None: all."""
        self.within: Mask | None = None
        """Mask of the rows to place members on; None: all."""
        self._candidate_size: int | None = None
        """Number of nodes of the current candidate of a PlacementGenerate plugin; None: all nodes are counted."""
        self._infeasible: Failure | None = None
        """Why a plugin has rejected a whole placement; None if none has."""
        self._is_uniform = False
        """True if all members are of one template."""
        self._within_quota = 0
        """Number of members that the quota of the queue allows, as checked before the first is placed."""
        self._nominations: dict[str, str] = {}
        self._freed = len(context.queue.nominator.freed)
        self._step = StepCounter()

    def run(self, members: Iterable[QueuedPod], allowed: Mask | None = None) -> Steps[bool]:
        """Place the members on the nodes of a mask, or on any; yields after some members.

        Return True if enough are placed; otherwise none is, and `failures` has the reasons.
        """
        self._allowed = allowed
        members = list(members)
        signatures = {queued.pod.signature for queued in members}
        largest_first = members if len(signatures) == 1 else _largest_first(members, self._context.state.table())
        self._is_uniform = len({signature.template for signature in signatures}) == 1
        if self._is_uniform:
            if not largest_first[0].pod.spec.resource_claims:
                self._within_quota = self._context.groups.needed_count(self._group)
            elif self._context.groups.quota is not None:  # claims of equal pods may differ
                largest_first.sort(key=lambda queued: self._context.groups.size_of(queued.pod))
            if self._group.min_count_by_role:
                largest_first = self._needed_roles_first(largest_first)
        if (yield from self._place_in_any(largest_first)):
            return True
        if self._infeasible is not None:
            self.fail([queued.pod.uid for queued in largest_first], self._infeasible)
        return False

    def _place_in_any(self, largest_first: Sequence[QueuedPod]) -> Steps[bool]:
        """Place the members in one domain, or anywhere. Return True if enough are placed; otherwise none is."""
        profile = self._context.profiles[largest_first[0].pod.scheduler_name] if largest_first else None
        if profile is not None and profile.placement_generate and self._group.key.api != SINGLE_POD:
            candidates = generate_placements(self._context, profile, self._group)
            if isinstance(candidates, Failure):
                self.fail([queued.pod.uid for queued in largest_first], candidates)
                return False
            if candidates:
                return (yield from self._place_in_best(largest_first, profile, candidates))
        if not self._group.topology:
            return (yield from self._place_within(largest_first, None))
        for mask in self._candidate_domains(largest_first):
            if (yield from self._place_within(largest_first, mask)):
                return True
        if not self.failures:
            keys = ", ".join(constraint.key for constraint in self._group.topology if constraint.required)
            pods = [queued.pod.uid for queued in largest_first]
            self.fail(pods, Failure(f"pod group {self._group.key} fits into no single domain of {keys}", nominate=""))
        return False

    def _place_in_best(
        self, members: Sequence[QueuedPod], profile: Profile, candidates: Sequence[PlacementCandidate]
    ) -> Steps[bool]:
        """Place the members on the candidate with the best score. Return True if enough are placed; else none is."""
        context, group = self._context, self._group
        pods, needed = [queued.pod for queued in members], context.groups.needed_count(group)
        first: tuple[dict[str, Failure], frozenset[str], int, str] | None = None
        found: list[ScoredPlacement] = []
        requests = requests_of_nodes(context.handle, pods)
        for candidate, mask in tightest_first(candidates, context.state.table(), requests, needed):
            self._candidate_size = len(candidate.nodes)
            if not (yield from self._place_within(members, mask)):
                first = first or (self.failures, self.fitting_members, self.fitting, self.missing)
                continue
            if len(candidates) == 1 or not profile.placement_score:
                return True
            try:
                scores = score_placement(context, profile, group, pods, candidate.nodes)
            except PluginFailed as failed:
                return self._fail_by_plugin(members, failed)
            nodes = ((each.pod.uid, context.state.info(each.node_name)) for each in self.placed)
            rows = {uid: node.row for uid, node in nodes if node is not None}
            found.append(ScoredPlacement(rows, self.failures, scores))
            yield from self.undo_in_steps()
        if not found:
            self.candidate_count = len(candidates)
            if first is None:  # all lack resources: one is tried for the reasons
                within = np.zeros(len(context.state), np.bool_)
                within[candidates[0].nodes] = True
                self._candidate_size = len(candidates[0].nodes)
                return (yield from self._place_within(members, within))
            self.failures, self.fitting_members, self.fitting, self.missing = first
            return False
        try:
            ranked = by_total_score(profile, group, found) if len(found) > 1 else found
        except PluginFailed as failed:
            return self._fail_by_plugin(members, failed)
        for each in ranked:
            self.failures = dict(each.failures)
            if (yield from self.repeat(members, each.nodes)):
                return True
        return False

    def repeat(self, members: Iterable[QueuedPod], nodes: Mapping[str, int]) -> Steps[bool]:
        """Place the members with a row here, by UID, on the nodes of these rows; yields after some members.

        Return True if all of them fit there and are enough; otherwise none is placed.
        """
        by_uid = {queued.pod.uid: queued for queued in members}
        for uid, row in nodes.items():
            yield from self._step.pause()
            if (failure := self.place(by_uid[uid], row)) is not None:
                self.failures[uid] = failure
                break
        else:
            if not self.is_short(()):
                return True
        yield from self.undo_in_steps()
        return False

    def _fail_by_plugin(self, members: Iterable[QueuedPod], failed: PluginFailed) -> bool:
        """Undo the placement because a plugin failed, and return False."""
        report_plugin_failure(self._context, failed)
        self.undo()
        self.fail([queued.pod.uid for queued in members], Failure.of_plugin(failed))
        return False

    def _needed_roles_first(self, members: Iterable[QueuedPod]) -> list[QueuedPod]:
        """Return equal members, first those without which a role lacks its minimum."""
        groups, key = self._context.groups, self._group.key
        lacks = Counter(self._group.min_count_by_role)
        lacks.subtract(map(groups.role_of, groups[key].started))
        needed: list[QueuedPod] = []
        others: list[QueuedPod] = []
        for queued in members:
            role = groups.role_of(queued.pod)
            (needed if lacks[role] > 0 else others).append(queued)
            lacks[role] -= 1
        return needed + others

    def _candidate_domains(self, members: Sequence[QueuedPod]) -> Iterator[Mask | None]:
        state, groups = self._context.state, self._context.groups
        placed = groups[self._group.key].placed
        rows = [node.row for uid in placed if (node := state.node_of(uid)) is not None and node.row >= 0]
        requests = requests_of_nodes(self._context.handle, (queued.pod for queued in members))
        return candidate_domains(state.table(), self._group, requests, rows, groups.needed_count(self._group))

    def _place_within(self, largest_first: Sequence[QueuedPod], within: Mask | None) -> Steps[bool]:
        """Place the members within a domain, or anywhere. Return True if enough are placed; otherwise none is."""
        allowed = self._allowed
        self.within = within if allowed is None else allowed if within is None else within & allowed
        if self._is_uniform and len(largest_first) >= COUNTED_FROM and self._has_too_little_room(largest_first):
            return False
        if (yield from self._place_by_score(largest_first)) and self._is_feasible(largest_first):
            return True
        self.fitting, self.missing = len(self.placed), self._missing_resources(largest_first)
        self.fitting_members = frozenset(assumed.pod.uid for assumed in self.placed)
        yield from self.undo_in_steps()
        if not self._may_fit_in_another_way(largest_first, self._context.groups.needed_count(self._group)):
            return False
        failures = self.failures
        if (yield from self._place_with_backtracking(largest_first)) and self._is_feasible(largest_first):
            return True
        yield from self.undo_in_steps()
        self.failures = failures
        return False

    def _may_fit_in_another_way(self, members: Sequence[QueuedPod], needed: int) -> bool:
        """Return False if no other nodes let as many members fit as are needed, after a search that was undone."""
        if not may_fit_in_another_way([queued.pod.signature for queued in members]):
            return False
        pods = [queued.pod for queued in members]
        return may_fit(self._context, pods, needed, self.failures.values(), self.within)

    def _has_too_little_room(self, members: Sequence[QueuedPod]) -> bool:
        """Return True if it is certain that too few of the equal members fit; `failures` has the reasons then."""
        group = self._group
        needed = self._context.groups.needed_count(group)
        if group.min_count_by_role or group.subgroups or len(members) < needed:
            return False
        found = MemberCount(self._context, self._now, self.place).run(members, needed, self.within)
        self.undo()
        if found is None:
            return False
        self.fitting, self.missing = found.count, found.lacks
        self.fitting_members = frozenset(queued.pod.uid for queued in members[: found.count])
        # The search would go on until too few are left.
        tried = members[found.count : found.count + len(members) - needed + 1]
        self.failures = {queued.pod.uid: found.failure for queued in tried}
        return True

    def _is_feasible(self, members: Sequence[QueuedPod]) -> bool:
        """Return True if no plugin rejects the placement as a whole."""
        if not members or not self._context.profiles[members[0].pod.scheduler_name].placement_feasible:
            return True
        failure = check_placement(self._context, self._group, MemberPods(members))
        self._infeasible = failure or self._infeasible
        return failure is None

    def drop_incomplete(self) -> None:
        """Forget placed members that are of no use without others that have been forgotten; none without subgroups."""

    def fail(self, members: Iterable[str], failure: Failure) -> None:
        """Set the reason why the group cannot be placed, for all members, given by UID."""
        self.failures, self.is_failed_as_a_whole = dict.fromkeys(members, failure), True

    def undo(self) -> None:
        """Forget all placed members, the last one first."""
        exhaust(self.undo_in_steps())

    def undo_in_steps(self, count: int = 0) -> Steps[None]:
        """Forget the placed members but the first `count` ones, the last one first; yields after some members."""
        while len(self.placed) > count:
            yield from self._step.pause()
            self.forget(self.placed[-1])

    def forget(self, assumed: AssumedPod) -> None:
        """Forget a placed member, and nominate it again to the node that it was nominated to."""
        nominator = self._context.queue.nominator
        self._step.work += 1
        if self.placed[-1] is assumed:
            self.placed.pop()  # to search it from the front takes long in groups of thousands
        else:
            self.placed.remove(assumed)
        forget_pod(self._context, assumed)
        if node_name := self._nominations.pop(assumed.pod.uid, ""):
            nominator.add(assumed.pod, node_name)
        del nominator.freed[self._freed :]  # the nomination is back, so no room was freed

    def _missing_resources(self, members: Iterable[QueuedPod]) -> str:
        """Return what the first member without a node lacks on the node with the most room for it; "" if nothing."""
        pod = next((queued.pod for queued in members if queued.pod.uid in self.failures), None)
        if pod is None:
            return ""
        context = self._context
        return lacking_resources(context.state.table(), without_delegated(context.handle, pod.requests.effective))

    # -- by score ----------------------------------------------------------------------------------------------------

    def _place_by_score(self, members: Sequence[QueuedPod]) -> Steps[bool]:
        """Place each member on its best node; stop once too few can be placed."""
        self.failures = {}
        if len(members) == 1:
            failure = self.place(members[0])
            if failure is not None:
                self.failures[members[0].pod.uid] = failure
            return not self.is_short(())
        rejected: dict[PodSignature, Failure] = {}
        attracts = any(map(required_affinity, {queued.pod.signature for queued in members}))
        for i, queued in enumerate(members):
            yield from self._step.pause()
            signature = queued.pod.signature
            failure = rejected.get(signature) or self.place(queued)
            if failure is None:
                continue
            self.failures[queued.pod.uid] = failure
            if not attracts:
                if failure.reason != QUOTA_EXCEEDED or not queued.pod.spec.resource_claims:  # its claims may be smaller
                    rejected[signature] = failure  # placing more members makes no room for an equal one
                if self.is_short(()) and self.is_short(members[i + 1 :]):
                    return False
        if attracts and self.failures:
            yield from self._place_again([queued for queued in members if queued.pod.uid in self.failures])
        return not self.is_short(())

    def _place_again(self, members: Sequence[QueuedPod]) -> Steps[None]:
        """Place the members that may have waited for a pod that they have affinity to."""
        for queued in members:
            yield from self._step.pause()
            if self.place(queued) is None:
                del self.failures[queued.pod.uid]

    def is_short(self, remaining: Collection[QueuedPod]) -> bool:
        """Return True if the group lacks members even if all of the remaining ones are placed."""
        groups, group = self._context.groups, self._group
        if groups.get(group.key) is None:  # a single pod, placed as a group that the manager does not have
            return not self.placed and not remaining
        return bool(groups.shortage(group, MemberPods(remaining) if remaining else ()))

    # -- with backtracking -------------------------------------------------------------------------------------------

    def _place_with_backtracking(self, members: Sequence[QueuedPod]) -> Steps[bool]:
        """Place each member where others need the node least; after a dead end, try other nodes of earlier ones."""
        left_out = yield from Backtracking(self._context, self, members).run()
        if left_out is None:
            return False
        self.failures = {queued.pod.uid: Failure("the pod group was scheduled without it") for queued in left_out}
        return True

    def feasible_rows(self, queued: QueuedPod) -> Rows | Diagnosis:
        """Return the rows of the nodes that fit a member, or why none does."""
        runtime = self._context.runtimes[queued.pod.scheduler_name]
        try:
            cycle = start_cycle(self._context, queued, self._now)
            feasible = find_nodes_that_fit_pod(runtime, cycle, queued.pod, self.within)
        except PluginFailed as failed:
            report_plugin_failure(self._context, failed)
            return Diagnosis(0)
        except BaseException:
            runtime.reset(queued.pod)
            raise
        if isinstance(feasible, Diagnosis):
            return feasible
        if feasible.rows is not None:
            return feasible.rows
        assert feasible.cache is not None, "all feasible rows are those of the cache"
        return np.flatnonzero(feasible.cache.feasible)

    # -- one member --------------------------------------------------------------------------------------------------

    def place(self, queued: QueuedPod, row: int | None = None) -> Failure | None:
        """Assume a member on the node of a row, or on its best node. Return why that failed, or None."""
        context, pod = self._context, queued.pod
        self._step.work += 1
        if len(self.placed) >= self._within_quota and (
            reason := context.groups.exceeded(self._group, context.groups.requests_of(self._group, (pod,)))
        ):
            return quota_exceeded(context.groups.quota_name, reason)
        runtime, nominator = context.runtimes[pod.scheduler_name], context.queue.nominator
        cycle = start_cycle(context, queued, self._now)
        within = self.within
        if row is not None:  # also one that is known to fit: Reserve needs what PreFilter and Filter write
            within = np.zeros(len(runtime.state), np.bool_)
            within[row] = True
        try:
            result = schedule_pod(runtime, cycle, pod, within)
        except PluginFailed as failed:
            report_plugin_failure(context, failed)
            return Failure.of_plugin(failed)
        if isinstance(result, Diagnosis):
            size = self._candidate_size  # kube-scheduler's snapshot has the nodes of the placement only
            return Failure.fit_error(result if size is None else replace(result, total_nodes=size))
        node = result.node
        if node_name := nominator.node_of.get(pod.uid):
            self._nominations[pod.uid] = node_name
        assumed = AssumedPod(queued, pod, node.name, cycle, runtime.profile, runtime.points)
        assume(context, assumed)
        context.groups.place(pod.uid)
        self.placed.append(assumed)
        try:
            rejection = run_reserve_plugins(runtime.profile.reserve, cycle, pod, node, runtime.points.reserve)
        except PluginFailed as failed:
            runtime.points.fail()
            report_plugin_failure(context, failed)
            failure = Failure.of_plugin(failed)
        else:
            if rejection is None:
                return None
            failure = Failure.rejected(rejection.plugin, rejection.message)
        self.forget(assumed)
        return failure


def _largest_first(members: Iterable[QueuedPod], nodes: NodeTable) -> list[QueuedPod]:
    """Return the members by their largest share of any node's resources, equal pods one after the other."""
    members = list(members)
    resources = {resource for queued in members for resource in queued.pod.requests.effective}
    most = {resource: max(1, int(nodes.allocatable(resource).max(initial=1))) for resource in resources}
    sizes = {
        signature: max((amount / most[r] for r, amount in signature.requests.effective.items()), default=0.0)
        for signature in {queued.pod.signature for queued in members}
    }
    places = {signature: i for i, signature in enumerate(dict.fromkeys(queued.pod.signature for queued in members))}
    return sorted(members, key=lambda queued: (-sizes[queued.pod.signature], places[queued.pod.signature]))
