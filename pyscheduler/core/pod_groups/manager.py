"""Requirements of all pod groups, and what queues allow them (kube-scheduler's PodGroupManager).

Requirements are read from the group's object when they are needed first after a change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from pyscheduler.api.events import NODE, Action, ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.pod_group_plugins import QuotaPlugin
from pyscheduler.api.resources import PODS, Amounts
from pyscheduler.api.steps import Steps
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.pod_groups import steps, subgroups
from pyscheduler.core.pod_groups.claim_usage import PLACED, RESERVED, TERMINATING, Holder, Scope, scope_of, sum_of
from pyscheduler.core.pod_groups.group_results import changed_groups, pod_group_of, reclaim_in_steps, subgroup_of
from pyscheduler.core.pod_groups.members import POD_GROUP, QUOTA, SINGLE_POD, PodGroupStates
from pyscheduler.core.pod_groups.pod_group_state import PodGroupState
from pyscheduler.core.pod_groups.queue_gate import QUEUE_GATE
from pyscheduler.core.pod_groups.subgroups import SubgroupKeys
from pyscheduler.core.pod_groups.usage import GroupUsage, QueueRequests

_CAPACITY = Action.ADD | Action.DELETE | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_TAINT


class PodGroupManager(PodGroupStates):
    """All pod groups of the cluster; empty if no profile has a PodGroup plugin."""

    # -- terminating pods ----------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """Add a pod that exists and has not ended, or replace it; one that is terminating counts toward quotas only."""
        is_terminating = pod.deleting and bool(pod.node_name) and self.quota is not None
        group = self._group_of_terminating(pod) if is_terminating and pod.uid not in self._terminating else None
        super().set_pod(pod)
        if group is not None:
            self._terminating.add(pod, group)

    def remove_ended(self, uid: str) -> None:
        """Remove a pod that has ended, or of which the node is lost; others are ignored."""
        self.remove(uid)
        self._terminating.remove(uid)

    def _group_of_terminating(self, pod: Pod) -> PodGroup | None:
        """Return the group of which queue and users the pod counts toward; None without a group."""
        key = self._key_of.get(pod.uid) or (self._group_of(pod) if self._plugins else None)
        if key is None or self.quota is None:
            return None
        if key in self._groups:
            return self.accounted(key) or self._accounted_as_pods(key, [pod])
        requirements: PodGroup | Rejection | None = None  # after a restart, it may have no other pods
        if key.api != SINGLE_POD:
            plugin = self._plugin_of(pod)
            requirements = self._call(None, plugin, POD_GROUP, pod_group_of, plugin, key, [pod])
        as_pods = self._accounted_as_pods(key, [pod])
        queue = requirements.queue if isinstance(requirements, PodGroup) else as_pods.queue
        return replace(as_pods, queue=queue)

    # -- requirements --------------------------------------------------------------------------------------------

    def requirements(self, key: PodGroupKey) -> PodGroup | Rejection:
        """Return the requirements of a group with members, or the reason why none of them can be scheduled."""
        group = self._groups[key]
        group.previous = None
        if group.requirements is not None:
            return group.requirements
        members = [*group.pods.values(), *group.succeeded.values()]
        if key.api == SINGLE_POD and self.quota is not None:
            pod = members[0]
            group.requirements = PodGroup(key, 1, queue=self.call_quota("", QuotaPlugin.queue_of, pod))
        else:
            ours = (pod for pod in members if pod.scheduler_name in self._plugins)
            plugin = self._plugin_of(next(ours, members[0]))
            try:
                group.requirements = call_guarded(plugin.name, POD_GROUP, pod_group_of, plugin, key, members)
            except PluginFailed as failed:
                failed.report_to(self._instrument)
                group.requirements = Rejection(f"pod group {key}: {failed}", resolvable=False)
        if isinstance(group.requirements, PodGroup) and self.quota is not None:
            accounts = tuple(self.call_quota((), QuotaPlugin.accounts_of, members))
            if accounts != group.requirements.accounts:
                group.requirements = replace(group.requirements, accounts=accounts)
        return group.requirements

    def reason_to_wait(self, key: PodGroupKey, pending: Collection[Pod]) -> str:
        """Return why the group cannot be scheduled with these pending pods and the started ones; "" if it can."""
        previous = self._groups[key].previous
        # The members of an Indexed Job all differ. To read all of them, and their subgroups, for each would take long.
        known = replace(previous, subgroups=()) if previous and previous.subgroups else previous
        requirements = known if known and self.shortage(known, pending) else self.requirements(key)
        if isinstance(requirements, Rejection):
            return requirements.message
        if short := self.shortage(requirements, pending):
            return f"pod group {key} has only {short} that it needs"
        if (awaited := self._awaited.get(key)) is not None:
            return f"pod group {key} waits for the binding of {awaited.name}, which was refused before"
        if key in self.gate_removals:
            return f"queue {self.queue_of(requirements)} admits the pod; its gate {QUEUE_GATE} is being removed"
        return "" if self.quota is None else self._unavailable(requirements)

    def shortage(self, group: PodGroup, pending: Collection[Pod]) -> str:
        """Return what the pods and those that have started lack of the group's minimums; "" if nothing."""
        state = self._groups.get(group.key)
        count = len(pending)
        if state is not None:
            count += len(state.placed) + len(state.succeeded)
        if count < group.min_count:
            return f"{count} of the {group.min_count} pods"
        if not group.min_count_by_role and not group.subgroups:
            return ""
        return self.shortage_of(group, (*pending, *(state.started if state is not None else ())))

    def shortage_of(self, group: PodGroup, pods: Collection[Pod]) -> str:
        """Return what these pods alone lack of the group's minimums; "" if nothing."""
        if group.subgroups and (short := subgroups.shortage(group, self.subgroup_keys(group).count(pods))):
            return short
        return group.shortage(list(map(self.role_of, pods)) if group.min_count_by_role else [""] * len(pods))

    def subgroup_keys(self, group: PodGroup) -> SubgroupKeys:
        """Return the subgroups of the members of a group."""
        state, plugin = self._groups[group.key], next(iter(self._plugins.values()))
        if state.subgroups is None or not state.subgroups.is_of(group):
            state.subgroups = SubgroupKeys(group, partial(self._call, None, plugin, POD_GROUP, subgroup_of))
        return state.subgroups

    def priority_of(self, key: PodGroupKey, pods: Iterable[Pod]) -> int:
        """Return the priority of a group: its own, or the least of these members' priorities."""
        group = self.requirements(key)
        if isinstance(group, PodGroup) and group.priority is not None:
            return group.priority
        return min(pod.priority for pod in pods)

    def effective_priority(self, pod: Pod) -> int:
        """Return the priority of the pod's group if that has one of its own, otherwise the pod's."""
        key = self._key_of.get(pod.uid)
        group = None if key is None else self.requirements(key)
        return pod.priority if not isinstance(group, PodGroup) or group.priority is None else group.priority

    # -- quotas --------------------------------------------------------------------------------------------------

    @property
    def quota_name(self) -> str:
        """Name of the Quota plugin, "" if there is none."""
        return "" if self.quota is None else self.quota.name

    @contextmanager
    def before_request(self, group: PodGroup) -> Iterator[None]:
        """Report usage within a `with` block without what is reserved for a group: that is part of its request."""
        with self.usage.without_reserved(group.key):
            self.report_usage()
            yield

    def exceeded(self, group: PodGroup, request: Mapping[str, int]) -> str:
        """Return why the group's queue may not allocate this much more, "" if it may or there are no queues."""
        if (quota := self.quota) is None:
            return ""
        failed = f"plugin {quota.name} failed"
        with self.before_request(group):
            exceeded = self.call_quota(failed, QuotaPlugin.exceeded, group, dict(request))
            return exceeded or self.exceeded_limit(group, request)

    def exceeded_limit(self, group: PodGroup, request: Mapping[str, int]) -> str:
        """Return which limit of its users the group exceeds with this request, "" if none."""
        if not group.accounts:
            return ""
        self.report_usage()
        return self.call_quota(f"plugin {self.quota_name} failed", QuotaPlugin.exceeded_limit, group, dict(request))

    def queue_of(self, group: PodGroup) -> str:
        """Return the queue of the group."""
        return self.call_quota("", QuotaPlugin.queue_of_group, group)

    def queue_of_key(self, key: PodGroupKey) -> str:
        """Return the queue of the group with that key; "" if its requirements are not known."""
        group = self.requirements(key) if key in self._groups else None
        return self.queue_of(group) if isinstance(group, PodGroup) else ""

    def queue_of_pod(self, pod: Pod) -> str:
        """Return the queue of the pod's group; "" if there are no queues."""
        key = None if self.quota is None else self._key_of.get(pod.uid)
        return "" if key is None else self.queue_of_key(key)

    def next_queue(self, requests: Mapping[str, dict[str, int]]) -> str:
        """Return the queue that is served next of those with groups that are ready; "" if the plugin fails."""
        self.report_usage()
        return self.call_quota("", QuotaPlugin.next_queue, requests)

    @property
    def orders_groups(self) -> bool:
        """True if the groups of a queue are ordered by their shares."""
        return self.quota is not None and self.quota.orders_groups

    def is_ordered_by_share(self, group: PodGroup) -> bool:
        """Return True if the groups of this one's queue are ordered by their shares: not those of a strict order."""
        return self.orders_groups and not self.has_strict_order(self.queue_of(group))

    def group_share(self, key: PodGroupKey) -> float:
        """Return the key by which the group is ordered within its queue and priority; 0 for all in other orders."""
        group = self.requirements(key) if self.orders_groups and key in self._groups else None
        if not isinstance(group, PodGroup) or not self.is_ordered_by_share(group):
            return 0.0
        self.report_usage()
        return self.call_quota(0.0, QuotaPlugin.group_share, group)

    def has_strict_order(self, queue: str) -> bool:
        """Return True if the first group of the queue that cannot be scheduled holds back the others."""
        return self.call_quota(False, QuotaPlugin.has_strict_order, queue)

    def is_within_share(self, group: PodGroup, request: Mapping[str, int]) -> bool:
        """Return True if the group's queue would not be above its share with this request, or there are no queues."""
        with self.before_request(group):
            return self.call_quota(True, QuotaPlugin.is_within_share, group, dict(request))

    def may_reclaim(self, group: PodGroup, request: Mapping[str, int]) -> bool:
        """Return True if the group's queue may evict pods of other queues for the request."""
        with self.before_request(group):
            return self.call_quota(False, QuotaPlugin.may_reclaim, group, dict(request))

    def take_quota_changes(self) -> bool:
        """Return True if the usage of a group, or what limits the queues, has changed since the last call."""
        self.report_usage()
        changed, self._limits_changed = self._limits_changed, False
        return self._reported.take_changed() | changed | self.call_quota(False, QuotaPlugin.take_ended_claims)

    def may_preempt(self, group: PodGroup, other: PodGroup) -> bool:
        """Return True if the group may evict pods of another one that has a lower priority."""
        return self.quota is None or self.call_quota(False, QuotaPlugin.may_preempt, group, other)

    def reclaim(
        self,
        group: PodGroup,
        request: Mapping[str, int],
        free: Mapping[str, int],
        units: Sequence[tuple[EvictionUnit, PodGroup]],
    ) -> Steps[Sequence[EvictionUnit] | str]:
        """Return the units of other queues that make room for the request, or why there are none."""
        if (quota := self.quota) is None:
            return ()
        failed: Sequence[EvictionUnit] | str = f"plugin {quota.name} failed"
        with self._terminating.left_out():
            yield from self.report_usage_in_steps()
            search = reclaim_in_steps(quota, group, dict(request), dict(free), units)
            return (yield from self._run_plugin_steps(failed, quota, QUOTA, search))

    def has_reclaim_candidates(self, group: PodGroup) -> bool:
        """Return True if pods of other queues have a node."""
        self.report_usage()
        return self.quota is not None and any(
            not self.may_preempt(group, other) for other in self._queues_in_use.representatives()
        )

    def one_group_of_each_queue(self) -> Sequence[PodGroup]:
        """Return one group of each queue that has pods on nodes."""
        self.report_usage()
        return self._queues_in_use.representatives()

    def preemption_candidates(self, group: PodGroup) -> Set[PodGroupKey]:
        """Return the groups of which the group may evict pods of a lower priority; some may have no pods on nodes."""
        self.report_usage()
        return self._queues_in_use.groups(lambda other: self.may_preempt(group, other))

    def reclaim_candidates(self, group: PodGroup, request: Mapping[str, int]) -> Set[PodGroupKey]:
        """Return the groups of the queues from which the group's queue may reclaim what it requests."""
        with self._terminating.left_out():
            self.report_usage()
            may = partial(self._may_reclaim_from, group, dict(request))
            return self._queues_in_use.groups(lambda other: not self.may_preempt(group, other) and may(other))

    def _may_reclaim_from(self, group: PodGroup, request: Amounts, other: PodGroup) -> bool:
        return self.call_quota(False, QuotaPlugin.may_reclaim_from, group, request, other)

    def needed(self, group: PodGroup, pending: Collection[Pod]) -> Amounts:
        """Return what the least of the pending pods request that the group still needs for its minimum."""
        if len(pending) == 1:
            return self.requests_of(group, pending)
        by_size = sorted(pending, key=self.size_of)
        return self.requests_of(group, by_size[: self.needed_count(group)])

    def requests_of(self, group: PodGroup, pods: Collection[Pod]) -> Amounts:
        """Return what these pending pods of a group request together.

        A claim that they share, or that other pods of the queue and the same users hold already, counts once.
        """
        requests = [*(pod.requests.effective for pod in pods), {PODS: len(pods)}]
        if self.quota is not None and any(pod.spec.resource_claims for pod in pods):
            self.report_usage()
            counts_terminating, unconfirmed = not self._terminating.are_left_out, self.usage.unconfirmed(group.key)
            requests += self._claims.requested(group, pods, unconfirmed, with_terminating=counts_terminating)
        return sum_of(requests)

    def needed_count(self, group: PodGroup) -> int:
        """Return the number of pods that the group still needs for its minimum, at least 1."""
        state = self._groups.get(group.key)
        started = 0 if state is None else len(state.placed) + len(state.succeeded)
        return group.min_count - started if group.min_count > started else 1

    def report_usage(self) -> None:
        """Pass changed usage to the Quota plugin. Groups that wait for pods request nothing."""
        quota = self.quota
        if quota is None:
            return
        self._settle_claims()
        self._report_terminating()
        for key, usage in self.usage.take_stale():
            self._report_usage_of(quota, key, usage)

    def report_usage_in_steps(self) -> Steps[None]:
        """Pass changed usage to the Quota plugin as `report_usage` does; yields after some groups."""
        if (quota := self.quota) is not None:
            self._settle_claims()
            self._report_terminating()
            while len(self.usage.stale) > steps.RECORDS_PER_STEP:
                for key, usage in self.usage.take_stale(steps.RECORDS_PER_STEP):
                    self._report_usage_of(quota, key, usage)
                yield
            self.report_usage()

    def _report_terminating(self) -> None:
        for of_queue, amounts in self._terminating.take_stale():
            self.call_quota(None, QuotaPlugin.set_terminating, of_queue, amounts)
            used: QueueRequests = (of_queue.queue, amounts, {}, False, of_queue.accounts)
            self._reported.set(of_queue.key, used if amounts else None)

    def _report_usage_of(self, quota: QuotaPlugin, key: PodGroupKey, usage: GroupUsage | None) -> None:
        self.usage.refused.discard(key)
        group = self.accounted(key) if usage is not None and key in self._groups else None
        if usage is None or group is None:
            self._queues_in_use.remove(key)
            self.call_quota(None, QuotaPlugin.remove_usage, key)
            self._reported.set(key, None)
            return
        state = self._groups[key]
        may_start = self._may_start(group)
        reserved: Mapping[str, int] = self.usage.reserved(key) if may_start else {}
        claimed, kept = self._claims.amounts(Holder(key, PLACED)), self._claims.amounts(Holder(key, RESERVED))
        if (reserved or kept) and self._may_not_reserve(quota, group, usage, sum_of((reserved, kept))):
            self.usage.refused.add(key)
            reserved, kept = {}, {}
        allocated, pending = usage.reported(reserved)
        if claimed or kept:
            allocated = sum_of((allocated, claimed, kept))
        if key in self.usage.infeasible or not may_start:
            pending = {}  # no share is kept for a group that cannot start
        is_started = bool(state.placed or reserved or kept)
        self._queues_in_use.set(group, is_used=bool(state.placed))
        if group.accounts:
            self.call_quota(None, QuotaPlugin.set_placed, group, len(state.placed) or int(is_started))
        self.call_quota(None, QuotaPlugin.set_usage, group, allocated, pending)
        self._reported.set(key, (group.queue, allocated, pending, is_started, group.accounts))

    def _settle_claims(self) -> None:
        """Bring up to date which groups the claims count toward."""
        if self._claims:
            for key in self.usage.stale:
                self._claims.touch(key)  # it may count toward another queue, or other users
            self._touch(self._claims.settle(self._scope_of))

    def _scope_of(self, holder: Holder) -> Scope | None:
        key, is_terminating = holder.key, holder.rank == TERMINATING
        group = self._terminating.group(key) if is_terminating else self.accounted(key) if key in self._groups else None
        if group is None or (holder.rank == RESERVED and not self._may_reserve(group)):
            return None  # what is not reported must not count as held: others would use the claim outside of the quota
        return scope_of(group)

    def _may_start(self, group: PodGroup) -> bool:
        """Return True if the group is valid and has its minimum."""
        state = self._groups[group.key]
        return state.requirements is group and self._has_minimum(group, state)

    def _may_reserve(self, group: PodGroup) -> bool:
        """Return True if the group may start and its queue admits groups."""
        return self._may_start(group) and not self._unavailable(group)

    def _unavailable(self, group: PodGroup) -> str:
        """Return why the queue of the group admits none; "" if it does, or if there are no queues."""
        return self.call_quota(f"plugin {self.quota_name} failed", QuotaPlugin.unavailable, group)

    def _may_not_reserve(
        self, quota: QuotaPlugin, group: PodGroup, usage: GroupUsage, reserved: Mapping[str, int]
    ) -> bool:
        """Return True if the queue of the group admits none, or less than the group claims to have been admitted."""
        if self._unavailable(group):
            return True
        if group.key not in self.usage.claimed:
            return False
        allocated, pending = usage.reported({})
        allocated = sum_of((allocated, self._claims.amounts(Holder(group.key, PLACED))))
        self.call_quota(None, QuotaPlugin.set_usage, group, allocated, pending)  # or it would count twice
        return bool(self.call_quota(f"plugin {quota.name} failed", QuotaPlugin.exceeded, group, dict(reserved)))

    def accounted(self, key: PodGroupKey) -> PodGroup | None:
        """Return the group whose queue the usage counts toward; None if it is invalid and no pod of it has a node.

        Pods that run count toward the quota of their queue whatever their owner changes: he could escape it otherwise.
        """
        state, group = self._groups[key], self.requirements(key)
        if isinstance(group, PodGroup):
            state.accounted = group
            return group
        if not state.placed:
            return None
        if state.accounted is None:
            state.accounted = self._accounted_as_pods(key, [state.pods[uid] for uid in state.placed])
        return state.accounted

    def _accounted_as_pods(self, key: PodGroupKey, pods: Sequence[Pod]) -> PodGroup:
        """Return a group with the queue and the users that the pods would count toward without their group."""
        queue = self.call_quota("", QuotaPlugin.queue_of, pods[0])
        accounts = tuple(self.call_quota((), QuotaPlugin.accounts_of, pods))
        return PodGroup(key, 1, queue=queue, accounts=accounts)

    def set_time(self, now: float) -> None:
        """Set the time, in seconds since 1970, if the Quota plugin needs it; the changes so far are reported before."""
        quota = self.quota
        if quota is None or not quota.tracks_time or (now == self._time and not self._adopted):
            return
        self.report_usage()
        for key, pod in self._adopted:
            group = self.requirements(key) if key in self._groups else None
            if isinstance(group, PodGroup) and pod.started < self._time:
                request = {**pod.requests.effective, PODS: 1}
                self.call_quota(None, QuotaPlugin.add_past_usage, group, request, self._time - pod.started)
        self._adopted.clear()
        self._time = now
        self.call_quota(None, QuotaPlugin.set_time, now)

    def _has_minimum(self, group: PodGroup, state: PodGroupState) -> bool:
        """Return True if the minimum of the group exists, with nodes or without, and could run."""
        gated = self.usage.gated(group.key)
        if not group.min_count_by_role and not group.subgroups:
            return len(state.pods) - len(gated) + len(state.succeeded) >= group.min_count
        # Members are only added while the requirements stay; the usage is reported after each placed member.
        members = len(state.pods), len(state.succeeded), frozenset(gated)
        if state.minimum is None or state.minimum[0] is not group or state.minimum[1] != members:
            pods = [pod for uid, pod in state.pods.items() if uid not in gated] if gated else state.pods.values()
            state.minimum = group, members, not self.shortage_of(group, (*pods, *state.succeeded.values()))
        return state.minimum[2]

    @contextmanager
    def without_usage(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Report the usage without these placed pods, and terminating ones, within a `with` block, for a dry run."""
        keys = ((self._key_of.get(pod.uid), pod) for pod in pods)
        placed = [(key, pod) for key, pod in keys if key and pod.uid in self._groups[key].placed]
        with self.usage.without(placed), self._terminating.left_out():
            yield

    def exceeds_after_terminations(self, group: PodGroup, request: Mapping[str, int]) -> bool:
        """Return True if the group's queue may not allocate this much more once terminating pods have ended, either."""
        with self._terminating.left_out():
            return bool(self.exceeded(group, request))

    def reserve(self, key: PodGroupKey, pods: Sequence[Pod]) -> None:
        """Count pending pods of a group as allocated until its next attempt: others are being evicted for them."""
        self.usage.reserve(key, pods)

    def is_broken(self, group: PodGroup) -> bool:
        """Return True if some pods of the group have a node, but fewer than it needs."""
        state = self._groups.get(group.key)
        return state is not None and bool(state.placed) and bool(self.shortage(group, ()))

    def object_changed(self, event: ClusterEvent) -> None:
        """Read the requirements of the groups again that a changed object declares."""
        if self.quota is not None:
            self._limits_changed |= event.resource == NODE and bool(event.action & _CAPACITY)
            is_watched = any(kind.kind == event.resource for kind in self.quota.watches)
            if is_watched and self._claims:
                self._update_claims(event)
            if is_watched and self.call_quota(True, QuotaPlugin.changes_queues, event):
                self._limits_changed = True
                self._terminating.touch()
                self.changed.update(dict.fromkeys(self._groups))
                for key in self._groups:
                    self.usage.touch(key)  # it may be in another queue
        for plugin in dict.fromkeys(self._plugins.values()):
            if any(kind.kind == event.resource for kind in plugin.watches):
                keys = self._call(None, plugin, POD_GROUP, changed_groups, plugin, event)
                for key in self._groups if keys is None else keys:
                    if (group := self._groups.get(key)) is None:
                        continue
                    self.usage.touch(key)
                    self.changed[key] = None
                    if event.old is not None or not group.is_tree:  # a new object moves no pods away from a root
                        self._regroup(group)
                    group.invalidate()
